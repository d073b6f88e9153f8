"""Supervised training with the Hugging Face Trainer on token-exact samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from mobilerl.engines.codec import Codec
from sft.samples import Sample

IGNORE = -100
DECAY = 0.2
"""Share of the steps over which the learning rate falls to nothing."""


class SampleDataset(Dataset):
    def __init__(self, samples: Sequence[Sample]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]


class LengthBatches:
    """Batches of samples of similar length in random order, so that little of a batch is padding."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size = lengths, batch_size
        if not lengths:
            raise ValueError("there are no samples to train on")
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = torch.randperm(len(self.lengths), generator=self.generator).tolist()
        # Sorted within chunks of 16 batches: near-equal lengths, yet another partner for a sample in every epoch.
        chunk = 16 * self.batch_size
        order: list[int] = []
        for i in range(0, len(shuffled), chunk):
            order.extend(sorted(shuffled[i : i + chunk], key=self.lengths.__getitem__))
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for i in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[i]


def collate(samples: Sequence[Sample], codec: Codec) -> dict[str, Tensor]:
    """Left-padded inputs; `labels` (B, longest response) are right-aligned and IGNORE elsewhere."""
    inputs = codec.collate(
        [s.prompt_ids + s.response_ids for s in samples], [s.images for s in samples], pad_left=True
    )
    longest = max(len(s.response_ids) for s in samples)
    labels = torch.full((len(samples), longest), IGNORE)
    for i, sample in enumerate(samples):
        reply = torch.tensor(sample.response_ids)
        if sample.trained is not None:
            reply[~torch.tensor(sample.trained)] = IGNORE
        labels[i, longest - len(sample.response_ids) :] = reply
    return {**inputs, "labels": labels}


class SftTrainer(Trainer):
    """Cross-entropy on response tokens; logits are made only where there are labels."""

    def __init__(self, *args: Any, codec: Codec, batches: LengthBatches, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.codec, self.batches = codec, batches

    def get_train_dataloader(self) -> DataLoader:
        loader = DataLoader(
            self.train_dataset, batch_sampler=self.batches, collate_fn=lambda samples: collate(samples, self.codec)
        )
        return self.accelerator.prepare(loader)

    def compute_loss(self, model: torch.nn.Module, inputs: dict[str, Tensor], return_outputs: bool = False,
                     num_items_in_batch: Tensor | int | None = None) -> Any:  # fmt: skip
        labels = inputs.pop("labels")
        outputs = model(**inputs, logits_to_keep=labels.shape[1] + 1)
        logits = outputs.logits[:, :-1].float()
        total = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        count = num_items_in_batch if num_items_in_batch is not None else (labels != IGNORE).sum()
        loss = total / count
        return (loss, outputs) if return_outputs else loss


def train(
    model: torch.nn.Module, codec: Codec, samples: Sequence[Sample], out: Path, epochs: float, batch_size: int,
    learning_rate: float, warmup: float, seed: int, callbacks: Sequence[TrainerCallback] = (),
) -> None:  # fmt: skip
    """Trains in place. The learning rate rises over the share `warmup` of the steps and falls over the last fifth.

    In between it is constant: a model that starts from nothing learns to read in a sudden turn, which an early decay
    would put off.
    """
    batches = LengthBatches([len(s) for s in samples], batch_size, seed)
    steps = int(epochs * len(batches))
    args = TrainingArguments(
        output_dir=str(out), num_train_epochs=epochs, per_device_train_batch_size=batch_size, seed=seed,
        learning_rate=learning_rate, lr_scheduler_type="warmup_stable_decay", warmup_steps=int(warmup * steps),
        lr_scheduler_kwargs={"num_decay_steps": max(1, int(DECAY * steps))},
        weight_decay=0.01, max_grad_norm=1.0, adam_beta2=0.98, logging_steps=20, save_strategy="no", report_to=[],
        bf16=torch.cuda.is_available(), remove_unused_columns=False, disable_tqdm=True,
        average_tokens_across_devices=False,
    )  # fmt: skip
    trainer = SftTrainer(model=model, args=args, train_dataset=SampleDataset(samples), codec=codec, batches=batches,
                         callbacks=list(callbacks))  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
