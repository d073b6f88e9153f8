"""One training of an SFT run: from a checkpoint and samples to a checkpoint folder, in this process or in ranks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.engines.registry import use_threads
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.models.codec import Codec
from mobilerl.models.loading import save_model
from mobilerl.sft.callbacks import LogCallback
from mobilerl.sft.checks import deepspeed_file
from mobilerl.sft.distributed import Cluster, fit
from mobilerl.sft.jobs import TRAINER, begin, job_folder, remove_jobs, store_samples
from mobilerl.sft.proposal_log import read_proposal_metrics
from mobilerl.sft.sample_files import SampleFile
from mobilerl.sft.samples import Sample
from mobilerl.sft.trainer import TrainingJob, train
from mobilerl.system.atomic_files import put_folder
from mobilerl.system.terminal import progress_bar, say
from mobilerl.training.tracking import Tracker, read_metrics


class StageTrainer:
    """Trains the checkpoint folders of a run directory, one after another; resumes one that was killed."""

    warmup_ratio = 0.05
    """Fraction of a training's steps over which the learning rate rises from 0."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        self.recipe, self.run_dir = recipe, run_dir
        self.cluster = Cluster(recipe.sft)
        self.seed = recipe.train.seed

    def find_finished(self, name: str) -> Path | None:
        """The checkpoint folder if it exists. Checked before preparing its samples, which may take hours and money."""
        out = self.run_dir / name
        if not out.is_dir():
            return None
        say(f"{name}: already there")
        return out

    def train(
        self,
        name: str,
        base: Path,
        codec: Codec,
        samples: Iterable[Sample],
        epochs: float,
        batch_size: int | None = None,
        learning_rate: float | None = None,
    ) -> Path:
        """Trains the checkpoint `base` into the folder `name` of the run directory.

        `samples` is not iterated over if an earlier process has stored all of them.
        """
        settings, folder = self.recipe.sft, job_folder(self.run_dir, name)
        remove_jobs(self.run_dir, keep=name)
        kept = store_samples(samples, folder)
        ranks = f", {settings.nodes * settings.processes} processes ({settings.deepspeed or 'plain DDP'})"
        say(f"{name}: {len(kept)} samples, {epochs:g} epochs{ranks if settings.processes else ''}")
        job = TrainingJob(
            base=str(base.resolve()),
            epochs=epochs,
            batch_size=batch_size or settings.batch_size,
            learning_rate=learning_rate or settings.learning_rate,
            warmup_ratio=self.warmup_ratio,
            seed=self.seed,
            max_pixels=codec.max_pixels,
            thinking=self.recipe.engine.thinking,
            lora_rank=self.recipe.engine.lora_rank,
            freeze_vision=self.recipe.engine.freeze_vision,
            micro_batch_size=settings.micro_batch_size,
            gradient_checkpointing=self.recipe.engine.gradient_checkpointing,
            deepspeed=str(deepspeed_file(settings.deepspeed)) if settings.deepspeed else "",
            checkpoint_every=settings.checkpoint_every,
        )
        began = time.monotonic()
        temporary = self.run_dir / f".{name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        self._run(name, job, codec, kept, folder, temporary)
        save_agent(self.recipe.agent, temporary)
        put_folder(temporary, self.run_dir / name)
        shutil.rmtree(folder)
        say(f"{name}: {time.monotonic() - began:.0f} s")
        return self.run_dir / name

    def _run(self, name: str, job: TrainingJob, codec: Codec, samples: SampleFile, folder: Path, out: Path) -> None:
        """Trains the job in this process or in ranks, logs it, and writes the checkpoint to `out`."""
        settings = self.recipe.sft
        done = begin(job, settings.nodes * settings.processes, folder)
        if done:
            say(f"{name}: resumed after step {done}")
        with Tracker(self.run_dir, self.recipe.tracking) as tracker, progress_bar(f"{name}: steps", done) as show:
            first = self.steps_done()
            tracker.truncate_after(first + done)
            of_proposals = {} if done else read_proposal_metrics(self.run_dir, name)

            def log(step: int, max_steps: int, loss: float, learning_rate: float, skipped: int) -> None:
                row = {"iteration": first + step, "stage": name, "sft/loss": loss, "sft/learning_rate": learning_rate}
                tracker.log(row | {"sft/skipped_steps": skipped} | of_proposals)
                of_proposals.clear()
                show(step, max_steps, f"loss {loss:.3f}" + (f", {skipped} skipped steps" if skipped else ""))

            if settings.processes:
                fit(folder, self.cluster, log).rename(out)
            else:
                use_threads(self.recipe.engine)
                save_model(train(job, codec, samples, folder / TRAINER, [LogCallback(log)]).model, codec, out)

    def steps_done(self) -> int:
        """The last iteration of a finished stage in metrics.jsonl; later entries belong to a stage that was killed."""
        rows = read_metrics(self.run_dir / "metrics.jsonl")
        return max((row["iteration"] for row in rows if (self.run_dir / str(row.get("stage"))).is_dir()), default=0)
