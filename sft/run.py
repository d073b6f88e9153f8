"""Supervised fine-tuning, from scratch or from a checkpoint, into `final/`: demonstrations, stage 1, stage 2."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.claims import check_claim, claim
from mobilerl.config.reading import held
from mobilerl.engines.registry import make_engine, use_threads
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.models.codec import Codec
from mobilerl.models.loading import save_model
from mobilerl.policy.actor import Policy
from mobilerl.policy.context import make_context
from mobilerl.records.engine import Sampling
from mobilerl.sft.checks import check, check_stages, deepspeed_file, fit_recipe
from mobilerl.sft.data import SftData
from mobilerl.sft.demonstrations import single_steps
from mobilerl.sft.distributed import Cluster, fit, follow
from mobilerl.sft.pretraining import (
    GOALS_BATCH_SIZE,
    PRETRAINING_BATCH_SIZE,
    copying_samples,
    goal_samples,
    reading_samples,
)
from mobilerl.sft.reasoning import Proposal, bootstrap, sample_proposals, template_proposals, written_thought
from mobilerl.sft.samples import ExpertStep, Sample, encode, encode_all
from mobilerl.sft.trainer import LogCallback, TrainingJob, train
from mobilerl.system.atomic_files import put_folder, remove_leftovers, sync_folder
from mobilerl.system.terminal import header, progress_bar, say
from mobilerl.training.announcements import next_commands
from mobilerl.training.tracking import Tracker, read_metrics

STAGES = (1, 2)
FOLDERS = ("init", "copying", "reading", "goals", "stage1", "stage2-round*", "final")
"""Checkpoint folders. Each is written as `.NAME.tmp`, with the ranks' files in `.NAME.job`, and then renamed."""
PRETRAINING_RATE = 2e-3
"""Peak learning rate of reading pre-training."""
COPYING_SHARE = 0.4
"""Number of copying samples in reading pre-training, as a fraction of the reading samples."""
REFRESH_SHARE = 0.1
"""Number of new reading samples in the stages, as a fraction of their samples, so that reading is not forgotten."""


class SftRun:
    """One SFT run. Each training ends in a checkpoint folder, and is not repeated when the run is resumed."""

    warmup_ratio = 0.05
    """Fraction of a training's steps over which the learning rate rises from 0."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        self.recipe, self.run_dir = recipe, run_dir
        self.cluster = Cluster(recipe.sft)
        self.context = make_context(recipe.agent)
        self.seed = recipe.train.seed
        self.reading = 0 if recipe.model else recipe.sft.reading_samples
        """Number of samples for reading pre-training."""
        self.data = SftData(recipe, run_dir, self.context, say)

    # --- stages ----------------------------------------------------------------------------------------------

    def find_finished(self, name: str) -> Path | None:
        """The checkpoint folder if it exists. Checked before preparing its samples, which may take hours and money."""
        out = self.run_dir / name
        if not out.is_dir():
            return None
        say(f"{name}: already there")
        return out

    def pretrain(self, base: Path) -> Path:
        """Reading pre-training of a model trained from scratch, followed by goals without screens."""
        if not self.reading and not self.recipe.sft.goal_samples:
            return base
        codec = Codec.load(base)
        goals_wanted = self.recipe.sft.goal_samples and tiny.is_tiny(codec.tokenizer)

        def copying() -> list[Sample]:
            count = round(COPYING_SHARE * self.reading)
            return copying_samples(self.data.words, codec, count, random.Random(f"{self.seed}/copying"))

        def reading() -> list[Sample]:
            return reading_samples(self.data.words, codec, self.reading, random.Random(f"{self.seed}/reading"))

        def goals() -> list[Sample]:
            made = self.data.wordings(self.recipe.sft.goal_samples)
            return self._add_reading(
                "goals", codec, list(goal_samples(made, self.data.words, codec, random.Random(f"{self.seed}/done")))
            )

        reading_rate, goals_rate = PRETRAINING_RATE, min(PRETRAINING_RATE, self.recipe.sft.learning_rate)
        trainings = [
            ("copying", copying, PRETRAINING_BATCH_SIZE, reading_rate, self.reading),
            ("reading", reading, PRETRAINING_BATCH_SIZE, reading_rate, self.reading),
            ("goals", goals, GOALS_BATCH_SIZE, goals_rate, goals_wanted),
        ]
        for name, make, batch_size, rate, wanted in trainings:
            if wanted:
                base = self.find_finished(name) or self.train(name, base, codec, make(), 1.0, batch_size, rate)
        return base

    def _add_reading(self, name: str, codec: Codec, samples: list[Sample]) -> list[Sample]:
        """For a tiny model, adds some new reading samples, since it forgets words that do not occur."""
        if not self.recipe.sft.reading_samples or not tiny.is_tiny(codec.tokenizer):
            return samples
        rng = random.Random(f"{self.seed}/{name}")
        return samples + reading_samples(self.data.words, codec, int(REFRESH_SHARE * len(samples)), rng)

    def stage1(self, steps: Sequence[ExpertStep], base: Path) -> Path:
        """Reasoning-free SFT on the expert's actions without thoughts, and on single-step instructions.

        After reading pre-training, which covers single steps, the latter are left out.
        """
        if made := self.find_finished("stage1"):
            return made
        extra = [] if self.reading else single_steps(steps, random.Random(self.seed))
        codec = Codec.load(base, self.recipe.engine.max_pixels)
        samples = encode_all(chain(steps, extra, self.data.read_recorded()), self.context, codec)
        return self.train(
            "stage1", base, codec, self._add_reading("stage1", codec, samples), self.recipe.sft.stage1_epochs
        )

    def stage2(self, steps: Sequence[ExpertStep], base: Path) -> Path:
        """Reasoning SFT: in each round, trains on the proposals that lead to the expert's action."""
        settings = self.recipe.sft
        for number in range(1, settings.stage2_rounds + 1):
            name = f"stage2-round{number}"
            if made := self.find_finished(name):
                base = made
                continue
            rng = random.Random(f"{self.seed}/reasoning/{number}")
            kept, share = bootstrap(steps, self._proposals(number, base, steps), rng)
            say(f"round {number}: thoughts kept for {share:.0%} of {len(steps)} steps")
            if not settings.proposer_url:
                # Without a model to ask, thoughts for the unsolved steps, which are the hard ones, come from templates.
                solved = {id(step) for step, _ in kept}
                kept += [(step, written_thought(step)) for step in steps if id(step) not in solved]
            if not kept:
                raise ConfigError(f"stage 2, round {number}: no proposal was the expert's action; train stage 1 longer")
            codec = Codec.load(base, self.recipe.engine.max_pixels)
            samples = [encode(step, self.context, codec, thought) for step, thought in kept]
            base = self.train(name, base, codec, self._add_reading(name, codec, samples), settings.stage2_epochs)
        return base

    def _proposals(self, number: int, base: Path, steps: Sequence[ExpertStep]) -> list[list[Proposal]]:
        """Proposals from a server or from templates in the first round, and from the previous round's policy later."""
        settings, agent = self.recipe.sft, self.recipe.agent
        if number == 1 and not settings.proposer_url:
            return template_proposals(steps)
        policy: Policy
        if number == 1:
            from mobilerl.inference.server import connect

            pixels = self.recipe.engine.max_pixels
            server = connect(settings.proposer_url, settings.proposer_model, agent.screenshots, pixels)
            policy, size_seen = server, server.size_seen
        else:
            engine = make_engine(base, self.recipe.engine, 1.0, seed=self.seed)
            policy, size_seen = EnginePolicy(engine, max_wait_s=0.05), engine.codec.images.size_seen
        context = replace(self.context, size_seen=size_seen)
        sampling = Sampling(1.0, agent.max_new_tokens, context.stop)
        return asyncio.run(sample_proposals(policy, context, sampling, steps, settings.candidates))

    # --- one training ----------------------------------------------------------------------------------------

    def train(
        self,
        name: str,
        base: Path,
        codec: Codec,
        samples: Sequence[Sample],
        epochs: float,
        batch_size: int | None = None,
        learning_rate: float | None = None,
    ) -> Path:
        """Trains the checkpoint `base`, in this process or in ranks, into the folder `name` of the run directory."""
        out, settings = self.run_dir / name, self.recipe.sft
        ranks = f", {settings.nodes * settings.processes} processes ({settings.deepspeed or 'plain DDP'})"
        say(f"{name}: {len(samples)} samples, {epochs:g} epochs{ranks if settings.processes else ''}")
        temporary = self.run_dir / f".{name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        job = TrainingJob(
            base=str(base.resolve()),
            epochs=epochs,
            batch_size=batch_size or settings.batch_size,
            learning_rate=learning_rate or settings.learning_rate,
            warmup_ratio=self.warmup_ratio,
            seed=self.seed,
            max_pixels=codec.max_pixels,
            lora_rank=self.recipe.engine.lora_rank,
            micro_batch_size=settings.micro_batch_size,
            gradient_checkpointing=self.recipe.engine.gradient_checkpointing,
            deepspeed=str(deepspeed_file(settings.deepspeed)) if settings.deepspeed else "",
            max_skipped_steps=self.recipe.train.max_skipped_steps,
        )
        began = time.monotonic()
        with Tracker(self.run_dir, self.recipe.tracking) as tracker, progress_bar(f"{name}: steps") as show:
            done = self.steps_done()
            tracker.truncate_after(done)

            def log(step: int, max_steps: int, loss: float, learning_rate: float, skipped: int) -> None:
                row = {"iteration": done + step, "stage": name, "sft/loss": loss, "sft/learning_rate": learning_rate}
                tracker.log(row | {"sft/skipped_steps": skipped})
                show(step, max_steps, f"loss {loss:.3f}" + (f", {skipped} skipped steps" if skipped else ""))

            if settings.processes:
                folder = self.run_dir / f".{name}.job"
                fit(job, samples, folder, self.cluster, log).rename(temporary)
                shutil.rmtree(folder)
            else:
                use_threads(self.recipe.engine)
                save_model(train(job, codec, samples, self.run_dir, [LogCallback(log)]).model, codec, temporary)
        save_agent(self.recipe.agent, temporary)
        put_folder(temporary, out)
        say(f"{name}: {time.monotonic() - began:.0f} s")
        return out

    def steps_done(self) -> int:
        """The last iteration of a finished stage in metrics.jsonl; later entries belong to a stage that was killed."""
        rows = read_metrics(self.run_dir / "metrics.jsonl")
        return max((row["iteration"] for row in rows if (self.run_dir / str(row.get("stage"))).is_dir()), default=0)


def remove_unfinished(run_dir: Path, *folders: Path) -> None:
    """Removes what a killed process left: partial checkpoints, jobs, and temporary files here and in `folders`."""
    for name in FOLDERS:
        for rest in (*run_dir.glob(f".{name}.tmp"), *run_dir.glob(f".{name}.job")):
            shutil.rmtree(rest, ignore_errors=True)
    for folder in (run_dir, *folders):
        remove_leftovers(folder)


def put_final(checkpoint: Path, run_dir: Path, exclude: Sequence[str] = ()) -> Path:
    """Copies a checkpoint, without the files named in `exclude`, to `final/` and returns that folder."""
    final, temporary = run_dir / "final", run_dir / ".final.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(checkpoint, temporary, ignore=shutil.ignore_patterns(*exclude))
    sync_folder(temporary)  # before the old one is deleted
    shutil.rmtree(final, ignore_errors=True)
    put_folder(temporary, final)
    return final


def run(recipe: Recipe, run_dir: Path, stages: Sequence[int] = STAGES) -> Path:
    """Runs the stages and returns `final/`, a copy of the last checkpoint. Raises ConfigError.

    On all nodes except the first it only joins node 0's training jobs.
    """
    recipe = fit_recipe(recipe)
    check(recipe)
    if recipe.sft.node_rank:
        follow(recipe.sft)
        return run_dir / "final"
    with held(run_dir):
        return _run(recipe, run_dir, stages)


def _run(recipe: Recipe, run_dir: Path, stages: Sequence[int]) -> Path:
    check_stages(recipe, run_dir, stages)
    check_claim(recipe, run_dir, "sft")
    header(
        {
            "model": recipe.model or "a tiny model, trained from scratch",
            "algorithm": f"SFT, {'stage' if len(stages) == 1 else 'stages'} {' and '.join(map(str, stages))}",
            "suite": recipe.suite.type,
            "run": run_dir,
        }
    )
    sft = SftRun(recipe, run_dir)
    claim(recipe, run_dir, "sft")
    remove_unfinished(run_dir)
    if sft.data.sources:
        say(f"sources: {', '.join(source.name for source in sft.data.sources)}")
    checkpoint = sft.pretrain(sft.data.base())
    steps = sft.data.expert_steps()
    if 1 in stages:
        checkpoint = sft.stage1(steps, checkpoint)
    elif (run_dir / "stage1").is_dir():
        checkpoint = run_dir / "stage1"
    if 2 in stages:
        checkpoint = sft.stage2(steps, checkpoint)
    final = put_final(checkpoint, run_dir)
    sft.cluster.close()
    say(next_commands(final, recipe, run_dir))
    return final
