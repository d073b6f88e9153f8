"""The folder of a training in a run directory, which lets a killed one be resumed.

samples/        the encoded samples, complete if the folder is there
job.json        the job and the number of ranks that it was begun with
trainer/        the Trainer's own folder, with a checkpoint
log.jsonl, out/, node-N/    of several ranks, see `mobilerl.sft.distributed`
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from mobilerl.sft.callbacks import saved_steps
from mobilerl.sft.sample_files import SampleFile, write_samples
from mobilerl.sft.samples import Sample
from mobilerl.sft.trainer import TrainingJob
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import say

JOB, SAMPLES, TRAINER = "job.json", "samples", "trainer"
SAID_EVERY = 10_000
"""Interval in samples at which their number is shown while they are encoded."""


def job_folder(run_dir: Path, name: str) -> Path:
    """The folder of the training that ends in the checkpoint folder `name`."""
    return run_dir / f".{name}.job"


def remove_jobs(run_dir: Path, keep: str = "") -> None:
    """Removes the jobs of all trainings but `keep`: whatever comes before that is finished, or changes what follows."""
    for folder in run_dir.glob(".*.job"):
        if folder != job_folder(run_dir, keep):
            shutil.rmtree(folder)


def store_samples(samples: Iterable[Sample], folder: Path) -> SampleFile:
    """The samples in the folder of a job, which are taken from `samples` unless an earlier process stored them all."""
    if not (folder / SAMPLES).is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        write_samples(_report_count(samples), folder / SAMPLES)
    return SampleFile(folder / SAMPLES)


def _report_count(samples: Iterable[Sample]) -> Iterator[Sample]:
    for number, sample in enumerate(samples, 1):
        yield sample
        if number % SAID_EVERY == 0:
            say(f"{number} samples encoded")


def begin(job: TrainingJob, ranks: int, folder: Path) -> int:
    """Writes the job into its folder. Returns the number of steps that are done; 0 if it was another job before."""
    before = folder / JOB
    if not before.is_file() or _learned(read_job(folder)) != _learned(job) or read_ranks(folder) != ranks:
        shutil.rmtree(folder / TRAINER, ignore_errors=True)
    write_atomic(folder / JOB, json.dumps({"ranks": ranks, **asdict(job)}, indent=2).encode() + b"\n")
    return saved_steps(folder / TRAINER)


def read_job(folder: Path) -> TrainingJob:
    """The job that a folder belongs to."""
    fields = json.loads((folder / JOB).read_bytes())
    del fields["ranks"]
    fields.pop("max_skipped_steps", None)  # of jobs that an earlier version began
    return TrainingJob(**fields)


def read_ranks(folder: Path) -> int:
    """The number of ranks of the job that a folder belongs to; DeepSpeed's checkpoints are for this number."""
    return json.loads((folder / JOB).read_bytes())["ranks"]


def _learned(job: TrainingJob) -> TrainingJob:
    """The job without the settings that do not change what is learned."""
    return replace(job, micro_batch_size=0, gradient_checkpointing=False, checkpoint_every=0)
