"""Supervised training with the Hugging Face Trainer on token-exact samples: in one process, or as one of many ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from mobilerl.engines.codec import Codec
from mobilerl.engines.loading import add_lora, load_model
from sft.batches import IGNORE, LengthBatches, RankBatches, SampleDataset, collate, completed, stand_in
from sft.packing import Packer
from sft.sample_files import SampleFile
from sft.samples import Sample

DECAY = 0.2
"""Share of the steps over which the learning rate falls to nothing."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a batch is spread over forward passes, rows and ranks. It changes what training costs, not what it learns."""

    micro_batch: int = 0
    """Samples of one forward pass; 0: a rank's whole share."""
    packing: int = 0
    """Tokens of a row of packed samples; 0: one sample a row."""
    gradient_checkpointing: bool = False
    deepspeed: str = ""
    """Path of a DeepSpeed file; empty: every rank keeps weights, gradients and optimiser state whole."""
    log_every: int = 20
    """Steps from one report to the next."""


def trainable_model(base: Path, lora_rank: int = 0, attention: str = "sdpa", seed: int = 0,
                    deepspeed: bool = False) -> torch.nn.Module:  # fmt: skip
    """The checkpoint at `base`, with new adapters if `lora_rank` is given and it has none.

    With `deepspeed` all weights may be in the precision of the device: it keeps float32 ones of its own.
    """
    # An adapter's folder names that of its base: in full, so that it is found from anywhere.
    model = load_model(base.resolve() if lora_rank else base, learns=not (lora_rank or deepspeed))
    if lora_rank and not hasattr(model, "peft_config"):
        torch.manual_seed(seed)
        model = add_lora(model, lora_rank)
    if attention != "sdpa":
        model.set_attn_implementation(attention)
    return model


def save_model(model: torch.nn.Module, codec: Codec, path: Path, state: dict[str, Tensor] | None = None) -> None:
    """A Hugging Face folder of weights, or of an adapter. `state`: the weights, where the model has parts of them."""
    model.save_pretrained(path, **({} if state is None else {"state_dict": state}))
    if hasattr(model, "peft_config"):  # an adapter's folder would have neither, and the codec reads both
        model.config.save_pretrained(path)
        model.generation_config.save_pretrained(path)
    codec.save(path)


class SftTrainer(Trainer):
    """Cross-entropy on response tokens, a mean over those of the whole batch; logits only where there are labels."""

    def __init__(self, *args: Any, batches: RankBatches, collator: Callable[[Sequence[Sample]], dict[str, Any]],
                 **kwargs: Any) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self.batches, self.collator = batches, collator
        # Makes the Trainer count the labels of a whole batch, over all micro-batches and ranks, for `compute_loss`.
        self.model_accepts_loss_kwargs = True

    def get_train_dataloader(self) -> DataLoader:
        """Not handed to accelerate, which would cut the batches up among the ranks a second time."""
        return DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.collator)

    def training_step(self, model: torch.nn.Module, *args: Any, **kwargs: Any) -> Tensor:
        if self.args.deepspeed:
            check_engine(model)
        return super().training_step(model, *args, **kwargs)

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any], return_outputs: bool = False,
                     num_items_in_batch: Tensor | int | None = None) -> Any:  # fmt: skip
        labels = inputs.pop("labels")
        if "logits_to_keep" in inputs:
            outputs = model(**inputs)
            logits = outputs.logits.float()
        else:
            outputs = model(**inputs, logits_to_keep=labels.shape[1] + 1)
            logits = outputs.logits[:, :-1].float()
        total = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        count = num_items_in_batch if num_items_in_batch is not None else (labels != IGNORE).sum()
        # Gradients are averaged over the ranks afterwards, but `count` is that of all of them.
        loss = total / count if self.args.world_size == 1 else total / count * self.args.world_size
        return (loss, outputs) if return_outputs else loss


def check_engine(model: torch.nn.Module) -> None:
    """Raises RuntimeError unless DeepSpeed runs the model: told to use the CPU, accelerate quietly leaves it out."""
    import deepspeed

    if not isinstance(model, deepspeed.DeepSpeedEngine):
        raise RuntimeError(f"DeepSpeed was asked for, but the model is run by {type(model).__name__}")


def arguments(
    out: Path, steps_per_epoch: int, epochs: float, accumulation: int, micro_batch: int, learning_rate: float,
    warmup: float, seed: int, spread: Spread, ranks: int,
) -> TrainingArguments:  # fmt: skip
    """The Trainer's. Under ZeRO-3 they must exist before the model, whose weights are then cut up as they are read.

    Ranks without a GPU: plain ones need `use_cpu`, which would quietly take DeepSpeed away.
    """
    steps = int(epochs * steps_per_epoch)
    gpu = torch.cuda.is_available()
    cpu_deepspeed = bool(spread.deepspeed) and not gpu
    if cpu_deepspeed:
        _meet_on_cpu()
    args = TrainingArguments(
        output_dir=str(out), num_train_epochs=epochs, per_device_train_batch_size=micro_batch, seed=seed,
        gradient_accumulation_steps=accumulation, deepspeed=spread.deepspeed or None,
        gradient_checkpointing=spread.gradient_checkpointing, ddp_find_unused_parameters=True,
        learning_rate=learning_rate, lr_scheduler_type="warmup_stable_decay", warmup_steps=int(warmup * steps),
        lr_scheduler_kwargs={"num_decay_steps": max(1, int(DECAY * steps))},
        weight_decay=0.01, max_grad_norm=1.0, adam_beta2=0.98, logging_steps=spread.log_every, save_strategy="no",
        report_to=[], bf16=gpu, remove_unused_columns=False, disable_tqdm=True,
        use_cpu=ranks > 1 and not gpu and not cpu_deepspeed,
        accelerator_config={"use_configured_state": True} if cpu_deepspeed else None,
    )  # fmt: skip
    if args.world_size != ranks:
        raise RuntimeError(f"the Trainer sees {args.world_size} ranks, not {ranks}; unset ACCELERATE_* variables")
    if args.n_gpu > 1:  # one process on a machine of many: the Trainer would deal out rows, and not their images
        args._n_gpu = 1
    return args


def _meet_on_cpu() -> None:
    """DeepSpeed's ranks on CPUs. Left to itself, accelerate would take each of them for the only one."""
    from accelerate import PartialState

    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    PartialState(backend="gloo")
    del os.environ["ACCELERATE_USE_DEEPSPEED"]


def train(
    model: torch.nn.Module | Callable[[], torch.nn.Module], codec: Codec, samples: Sequence[Sample], out: Path,
    epochs: float, batch_size: int, learning_rate: float, warmup: float, seed: int,
    callbacks: Sequence[TrainerCallback] = (), spread: Spread | None = None, rank: int = 0, ranks: int = 1,
) -> SftTrainer:  # fmt: skip
    """Trains in place. The learning rate rises over the share `warmup` of the steps and falls over the last fifth.

    In between it is constant: a model that starts from nothing learns to read in a sudden turn, which an early decay
    would put off. `batch_size` counts the samples of all ranks. A `model` that is to be split is given as a function.
    """
    spread = spread or Spread()
    lengths = samples.lengths() if isinstance(samples, SampleFile) else [len(s) for s in samples]
    batches = RankBatches(LengthBatches(lengths, batch_size, seed), rank, ranks, spread.micro_batch)
    args = arguments(out, len(batches.batches), epochs, batches.accumulation, batches.micro_batch, learning_rate,
                     warmup, seed, spread, ranks)  # fmt: skip
    model = model if isinstance(model, torch.nn.Module) else model()
    filler = _filler(samples, lengths) if ranks > 1 or batches.accumulation > 1 else None
    make = Packer(model, codec, spread.packing) if spread.packing else lambda chosen: collate(chosen, codec)
    trainer = SftTrainer(
        model=model, args=args, train_dataset=SampleDataset(samples), batches=batches, callbacks=list(callbacks),
        collator=lambda chosen: make(completed(chosen, filler) if filler else chosen),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer


def _filler(samples: Sequence[Sample], lengths: Sequence[int]) -> Sample:
    images = samples.images() if isinstance(samples, SampleFile) else [len(s.images) for s in samples]
    return stand_in(samples, lengths, images)
