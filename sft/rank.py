"""One rank of training on many GPUs: `python -m sft.rank JOB`, as torch's launcher starts it. See sft.distributed."""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record
from transformers import TrainerCallback

from mobilerl.engines.codec import Codec
from sft.sample_files import SampleFile
from sft.trainer import SftTrainer, Spread, save_model, train, trainable_model

JOB, SAMPLES, LOG, OUT = "job.json", "samples.safetensors", "log.jsonl", "out"
"""In a job's folder: what to do, on which samples, what rank 0 says about it, and the trained checkpoint."""


@dataclass(frozen=True, slots=True)
class Job:
    """One training, as `sft.trainer.train` takes it."""

    base: str
    epochs: float
    batch_size: int
    learning_rate: float
    warmup: float
    seed: int
    max_pixels: int | None = None
    lora_rank: int = 0
    attention: str = "sdpa"
    spread: Spread = field(default_factory=Spread)

    def write(self, folder: Path) -> None:
        (folder / JOB).write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Job:
        said = json.loads((folder / JOB).read_text())
        return cls(**{**said, "spread": Spread(**said["spread"])})


class LogFile(TrainerCallback):
    """Rank 0's reports, one JSON object a line, for the process that waits."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_log(self, args, state, control, logs=None, **_) -> None:  # noqa: ANN001 - the Trainer's own signature
        if state.is_world_process_zero and logs and "loss" in logs:
            said = {"step": state.global_step, "max_steps": state.max_steps, "loss": float(logs["loss"]),
                    "learning_rate": float(logs["learning_rate"])}  # fmt: skip
            with self.path.open("a") as file:
                file.write(json.dumps(said) + "\n")


def end_with(pids: Sequence[int]) -> None:
    """Ends this process as soon as one of `pids` is gone, however it went: nobody would collect the result."""
    watched = select.poll()
    for pid in pids:
        try:
            watched.register(os.pidfd_open(pid), select.POLLIN)
        except ProcessLookupError:
            os._exit(1)

    def wait() -> None:
        watched.poll()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def leave_out_compiled_sums() -> None:
    """Without a GPU, DeepSpeed would first compile a kernel that adds in shared memory; gloo's own sums will do."""
    from deepspeed.ops import __compatible_ops__ as usable

    usable["deepspeed_shm_comm"] = False


def whole_weights(trainer: SftTrainer) -> dict[str, torch.Tensor] | None:
    """The trained weights on rank 0, put together from all ranks; None on the others. Every rank must call this."""
    zero3 = trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3
    if not (zero3 and hasattr(trainer.model, "peft_config")):
        state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
        return state if trainer.is_world_process_zero() else None
    import deepspeed

    trained = {name: p for name, p in trainer.model.named_parameters() if p.requires_grad}
    with deepspeed.zero.GatheredParameters(list(trained.values())):
        if not trainer.is_world_process_zero():
            return None
        return {name: p.detach().cpu().clone() for name, p in trained.items()}


@record
def main(argv: Sequence[str] = ()) -> None:
    folder, launcher = Path(argv[0]), int(argv[1])
    end_with([launcher, os.getppid()])
    job = Job.read(folder)
    if job.spread.deepspeed and not torch.cuda.is_available():
        leave_out_compiled_sums()
    base = Path(job.base)
    codec = Codec.load(base, job.max_pixels)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    trainer = train(
        lambda: trainable_model(base, job.lora_rank, job.attention, job.seed, bool(job.spread.deepspeed)),
        codec, SampleFile(folder / SAMPLES), folder / "trainer",
        job.epochs, job.batch_size, job.learning_rate, job.warmup, job.seed,
        [LogFile(folder / LOG)], job.spread, rank, ranks,
    )  # fmt: skip
    state = whole_weights(trainer)
    if state is not None:
        save_model(trainer.model, codec, folder / OUT, state)
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
