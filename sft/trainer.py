"""Supervised training on token-exact samples with the Hugging Face Trainer, in one process or as one of many ranks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from mobilerl.engines.finite import FirstNonFinite
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, freeze_vision, load_model
from mobilerl.sft.batches import IGNORE, Collator, LengthBatches, RankBatches, collate, with_placeholder
from mobilerl.sft.callbacks import KEPT, CheckpointCallback, SkipCallback, checkpoint_at, restore_counter, saved_steps
from mobilerl.sft.sample_files import image_counts, lengths_of
from mobilerl.sft.samples import Sample
from mobilerl.training.skipping import NotFinite, StepCounter

DECAY = 0.2
"""Fraction of the steps over which the learning rate decays to 0."""
OBJECTIVE = "the cross-entropy of SFT"


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One training: the checkpoint to start from, and its hyperparameters."""

    base: str
    epochs: float
    batch_size: int
    """Samples per optimizer step, over all ranks."""
    learning_rate: float
    """Peak learning rate."""
    warmup_ratio: float = 0.05
    """Fraction of the steps over which the learning rate rises from 0."""
    seed: int = 0
    max_pixels: int | None = None
    thinking: bool | None = None
    lora_rank: int = 0
    freeze_vision: bool = False
    micro_batch_size: int = 0
    """Samples per forward pass on a rank; 0 means the rank's whole share of a batch."""
    gradient_checkpointing: bool = False
    deepspeed: str = ""
    """Path of a DeepSpeed configuration; "" for plain DDP."""
    log_every: int = 5
    """Interval between log entries, in steps."""
    checkpoint_every: int = 0
    """Interval in steps, rounded up to a multiple of `log_every`, at which the training is saved to be resumed; 0 for
    never."""


def trainable_model(job: TrainingJob) -> torch.nn.Module:
    """Loads the checkpoint, and adds a new adapter if it has none and `lora_rank` is above 0.

    With DeepSpeed, which keeps its own float32 weights, all weights have the device's precision.
    """
    # An adapter's folder names its base by absolute path.
    base = Path(job.base).resolve() if job.lora_rank else Path(job.base)
    model = load_model(base, learns=not (job.lora_rank or job.deepspeed))
    if job.lora_rank and not hasattr(model, "peft_config"):
        torch.manual_seed(job.seed)
        model = add_lora(model, job.lora_rank)
    if job.freeze_vision and not hasattr(model, "peft_config"):
        freeze_vision(model)
    return model


class SftTrainer(Trainer):
    """Mean cross-entropy over the response tokens of a whole batch. Logits are computed only where there are labels."""

    def __init__(
        self,
        *args: Any,
        batches: RankBatches,
        collator: Callable[[Sequence[Sample]], dict[str, Any]],
        counter: StepCounter,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.batches, self.collator = batches, collator
        self.counter, self.watch = counter, FirstNonFinite()
        self.add_callback(SkipCallback(self.counter, self.watch))
        # Makes the Trainer count the labels of a batch over all micro-batches and ranks for `compute_loss`.
        self.model_accepts_loss_kwargs = True

    def _load_from_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: `train` has loaded the weights. The Trainer would leave out, without an error, all those whose
        names in files differ from those in memory."""

    def get_train_dataloader(self) -> DataLoader:
        """Bypasses accelerate, which would split the batches among the ranks a second time."""
        return DataLoader(self.train_dataset, batch_sampler=self.batches, collate_fn=self.collator)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        logits = outputs.logits.float()
        total = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        count = num_items_in_batch if num_items_in_batch is not None else (labels != IGNORE).sum()
        # Gradients are averaged over the ranks later, but `count` is the total of all ranks.
        loss = total / count if self.args.world_size == 1 else total / count * self.args.world_size
        self.watch.look({"the logits": logits, "the loss": loss})
        if self.watch.name and self.args.deepspeed:
            raise NotFinite(f"{OBJECTIVE}: NaN or infinity in {self.watch.name}; {KEPT}")
        if self.watch.name:
            loss = loss * torch.nan  # so that the gradient is NaN on all ranks
        return (loss, outputs) if return_outputs else loss

    def training_step(self, model: torch.nn.Module, *args: Any, **kwargs: Any) -> Tensor:
        """Also looks for the first gradient that is not finite, before they are clipped."""
        loss = super().training_step(model, *args, **kwargs)
        self.watch.gradients(model.named_parameters())
        return loss

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        super().log({**logs, "skipped_steps": self.counter.skipped}, *args, **kwargs)


def arguments(job: TrainingJob, out: Path, batches: RankBatches, ranks: int) -> TrainingArguments:
    """The Trainer's arguments. With ZeRO-3 they must exist before the model, whose weights are then loaded sharded."""
    steps = int(job.epochs * len(batches.batches))
    gpu = torch.cuda.is_available()
    cpu_deepspeed = bool(job.deepspeed) and not gpu
    if cpu_deepspeed:
        _start_cpu_deepspeed()
    args = TrainingArguments(
        output_dir=str(out),
        num_train_epochs=job.epochs,
        per_device_train_batch_size=batches.micro_batch_size,
        seed=job.seed,
        gradient_accumulation_steps=batches.accumulation,
        deepspeed=job.deepspeed or None,
        gradient_checkpointing=job.gradient_checkpointing,
        ddp_find_unused_parameters=True,
        learning_rate=job.learning_rate,
        lr_scheduler_type="warmup_stable_decay",
        warmup_steps=int(job.warmup_ratio * steps),
        lr_scheduler_kwargs={"num_decay_steps": max(1, int(DECAY * steps))},
        weight_decay=0.01,
        max_grad_norm=1.0,
        adam_beta2=0.98,
        logging_steps=job.log_every,
        save_strategy="no",
        report_to=[],
        bf16=gpu,
        remove_unused_columns=False,
        disable_tqdm=True,
        use_cpu=ranks > 1 and not gpu and not cpu_deepspeed,  # would silently disable DeepSpeed
        accelerator_config={"use_configured_state": True} if cpu_deepspeed else None,
    )
    if args.world_size != ranks:
        raise RuntimeError(f"the Trainer sees {args.world_size} ranks, not {ranks}; unset ACCELERATE_* variables")
    if args.n_gpu > 1:  # the Trainer would split sequences, but not their images, among the GPUs of one process
        args._n_gpu = 1
    return args


def _start_cpu_deepspeed() -> None:
    """Makes accelerate recognize DeepSpeed's ranks on CPUs."""
    from accelerate import PartialState

    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    PartialState(backend="gloo")
    del os.environ["ACCELERATE_USE_DEEPSPEED"]


def train(
    job: TrainingJob,
    codec: Codec,
    samples: Sequence[Sample],
    out: Path,
    callbacks: Sequence[TrainerCallback] = (),
    rank: int = 0,
    ranks: int = 1,
) -> SftTrainer:
    """Trains the job's checkpoint; `model` of the returned trainer is the result. `out` is the Trainer's own folder.

    A training that was interrupted is resumed from its newest checkpoint in `out`, and equals an uninterrupted one.

    The learning rate rises linearly, stays constant, and decays over the last fifth of the steps: a model trained from
    scratch learns to read abruptly, which an earlier decay would delay.
    """
    batches = RankBatches(
        LengthBatches(lengths_of(samples), job.batch_size, job.seed), rank, ranks, job.micro_batch_size
    )
    args = arguments(job, out, batches, ranks)
    done = saved_steps(out)
    checkpoint = checkpoint_at(out, done) if done else None
    model = trainable_model(replace(job, base=str(checkpoint)) if checkpoint and not job.deepspeed else job)
    make: Collator = partial(collate, model=model, codec=codec)
    if ranks > 1 or batches.accumulation > 1:
        make = with_placeholder(make, samples, image_counts(samples))
    counter = StepCounter(OBJECTIVE)
    trainer = SftTrainer(
        model=model,
        args=args,
        train_dataset=samples,
        batches=batches,
        callbacks=list(callbacks),
        collator=make,
        counter=counter,
    )
    trainer.remove_callback(PrinterCallback)
    if job.checkpoint_every:
        # The loss since the last log entry is not saved.
        every = -(-job.checkpoint_every // job.log_every) * job.log_every
        trainer.add_callback(CheckpointCallback(every, counter))
    if checkpoint:
        # accelerate calls a rank's CPU "cpu:0", to which torch loads no optimizer by itself.
        torch.serialization.register_package(11, lambda _: None, lambda data, to: data if to == "cpu:0" else None)
        restore_counter(counter, checkpoint)
        batches.batches.skip_epochs(done // len(batches.batches))
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    return trainer
