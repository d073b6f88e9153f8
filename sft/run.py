"""Supervised fine-tuning, from scratch or from a checkpoint, into `final/`: demonstrations, stage 1, stage 2."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.config.claims import check_claim, claim, left_by_a_run
from mobilerl.config.reading import lock_run_dir
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.policy.context import make_context
from mobilerl.sft.checks import check, check_data, check_stages, fit_recipe
from mobilerl.sft.data import SftData
from mobilerl.sft.demonstrations import single_steps
from mobilerl.sft.distributed import follow
from mobilerl.sft.jobs import job_folder, remove_jobs
from mobilerl.sft.pretraining import (
    GOALS_BATCH_SIZE,
    PRETRAINING_BATCH_SIZE,
    copying_samples,
    goal_samples,
    reading_samples,
)
from mobilerl.sft.proposers import reasoned
from mobilerl.sft.samples import ExpertStep, Sample, encode, encode_all
from mobilerl.sft.seeing import describing_samples, learn_to_see
from mobilerl.sft.training import StageTrainer
from mobilerl.system.atomic_files import put_folder, remove_leftovers, sync_folder
from mobilerl.system.terminal import header, progress_bar, say
from mobilerl.training.announcements import next_commands

STAGES = (1, 2)
FOLDERS = ("init", "seeing", "describing", "copying", "reading", "goals", "stage1", "stage2-round*", "final")
"""Checkpoint folders. Each is written as `.NAME.tmp`, from the job in `.NAME.job`, and then renamed."""
PRETRAINING_RATE = 2e-3
"""Peak learning rate of pre-training on screens."""
DESCRIBED = 3
"""Number of screenshots that are described for each that the vision tower alone learns from."""
COPYING_SHARE = 0.4
"""Number of copying samples in reading pre-training, as a fraction of the reading samples."""
REFRESH_SHARE = 0.1
"""Number of new reading samples in the stages, as a fraction of their samples, so that reading is not forgotten."""


class SftRun(StageTrainer):
    """One SFT run. Each training ends in a checkpoint folder, and is not repeated when the run is resumed."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        super().__init__(recipe, run_dir)
        self.context = make_context(recipe.agent)
        self.reading = 0 if recipe.model else recipe.sft.reading_samples
        """Number of samples for reading pre-training."""
        self.data = SftData(recipe, run_dir, self.context, say)

    def pretrain(self, base: Path) -> Path:
        """Pre-training of a model trained from scratch: seeing, reading, and goals without screens."""
        base = self._see(base)
        if not self.reading and not self.recipe.sft.goal_samples:
            return base
        codec = Codec.load(base)
        goals_wanted = self.recipe.sft.goal_samples and tiny.is_tiny(codec.tokenizer)

        def copying() -> Iterator[Sample]:
            count = round(COPYING_SHARE * self.reading)
            return copying_samples(self.data.words, codec, count, random.Random(f"{self.seed}/copying"))

        def reading() -> Iterator[Sample]:
            return reading_samples(self.data.words, codec, self.reading, random.Random(f"{self.seed}/reading"))

        def goals() -> Iterator[Sample]:
            made = self.data.wordings(self.recipe.sft.goal_samples)
            done = goal_samples(made, self.data.words, codec, random.Random(f"{self.seed}/done"))
            return self._add_reading("goals", codec, done)

        reading_rate, goals_rate = PRETRAINING_RATE, min(PRETRAINING_RATE, self.recipe.sft.learning_rate)
        trainings: list[tuple[str, Callable[[], Iterable[Sample]], int, float, int]] = [
            ("copying", copying, PRETRAINING_BATCH_SIZE, reading_rate, self.reading),
            ("reading", reading, PRETRAINING_BATCH_SIZE, reading_rate, self.reading),
            ("goals", goals, GOALS_BATCH_SIZE, goals_rate, goals_wanted),
        ]
        for name, make, batch_size, rate, wanted in trainings:
            if wanted:
                base = self.find_finished(name) or self.train(name, base, codec, make(), 1.0, batch_size, rate)
        return base

    def _see(self, base: Path) -> Path:
        """Seeing pre-training, if the recipe asks for it and the model is trained from scratch."""
        wanted = self.recipe.agent.screenshots and not self.recipe.model
        count = self.recipe.sft.seeing_samples if wanted else 0
        if not count:
            return base
        codec = Codec.load(base, self.recipe.engine.max_pixels)
        seen = self.find_finished("seeing") or self._train_tower(base, codec, count)
        rng = random.Random(f"{self.seed}/describing")
        samples = describing_samples(self.data.expert_steps, codec, DESCRIBED * count, rng)
        rate = min(PRETRAINING_RATE, 2 * self.recipe.sft.learning_rate)
        return self.find_finished("describing") or self.train(
            "describing", seen, codec, samples, 1.0, PRETRAINING_BATCH_SIZE, rate
        )

    def _train_tower(self, base: Path, codec: Codec, count: int) -> Path:
        temporary = self.run_dir / ".seeing.tmp"
        began = time.monotonic()
        with progress_bar("seeing: steps") as show:
            learn_to_see(base, temporary, codec, self.data.expert_steps, count, self.seed, show)
        put_folder(temporary, self.run_dir / "seeing")
        say(f"seeing: {count} screenshots, {time.monotonic() - began:.0f} s")
        return self.run_dir / "seeing"

    def _add_reading(self, name: str, codec: Codec, samples: Iterable[Sample]) -> Iterator[Sample]:
        """For a tiny model, adds some new reading samples, since it forgets words that do not occur, and as many
        described screenshots, since actions alone are learned by guessing, which unlearns to look."""
        count = 0
        for sample in samples:
            count += 1
            yield sample
        if self.recipe.sft.seeing_samples and not self.recipe.model:
            yield from describing_samples(self.data.expert_steps, codec, count, random.Random(f"{self.seed}/{name}"))
        if self.recipe.sft.reading_samples and tiny.is_tiny(codec.tokenizer):
            rng = random.Random(f"{self.seed}/{name}")
            yield from reading_samples(self.data.words, codec, int(REFRESH_SHARE * count), rng)

    def stage1(self, base: Path) -> Path:
        """Reasoning-free SFT on experts' and recorded actions without thoughts, and on single-step instructions."""
        if made := self.find_finished("stage1"):
            return made
        codec = Codec.load(base, self.recipe.engine.max_pixels, self.recipe.engine.thinking)
        samples = self._add_reading("stage1", codec, encode_all(self._stage1_steps(), self.context, codec))
        return self.train("stage1", base, codec, samples, self.recipe.sft.stage1_epochs)

    def _stage1_steps(self) -> Iterator[ExpertStep]:
        """After reading pre-training, which covers single steps, these are left out."""
        experts = self.data.expert_steps
        yield from experts
        if not self.reading:
            yield from single_steps(experts, random.Random(self.seed))
        yield from self.data.read_recorded(1)

    def stage2(self, base: Path) -> Path:
        """Reasoning SFT: in each round, trains on the proposals that lead to the action of an expert or a recording."""
        for number in range(1, self.recipe.sft.stage2_rounds + 1):
            name = f"stage2-round{number}"
            if made := self.find_finished(name):
                base = made
                continue
            codec = Codec.load(base, self.recipe.engine.max_pixels, self.recipe.engine.thinking)
            samples = self._add_reading(name, codec, self._stage2_samples(number, base, codec))
            base = self.train(name, base, codec, samples, self.recipe.sft.stage2_epochs)
        return base

    def _stage2_samples(self, number: int, base: Path, codec: Codec) -> Iterator[Sample]:
        experts, recorded = self.data.expert_steps, self.data.read_recorded(2)
        for step, thought in reasoned(self.recipe, number, self.run_dir, base, self.context, experts, recorded):
            yield encode(step, self.context, codec, thought)


def remove_unfinished(run_dir: Path, *folders: Path) -> None:
    """Removes what a killed process left: partial checkpoints, jobs of finished ones, and temporary files here and in
    `folders`. The job of an unfinished checkpoint stays, to be resumed, unless the directory is still free for another
    recipe."""
    if not left_by_a_run(run_dir):
        remove_jobs(run_dir)
    for name in FOLDERS:
        finished = (job_folder(run_dir, folder.name) for folder in run_dir.glob(name))
        for rest in (*run_dir.glob(f".{name}.tmp"), *finished):
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
    with lock_run_dir(run_dir):
        return _run(recipe, run_dir, stages)


def _run(recipe: Recipe, run_dir: Path, stages: Sequence[int]) -> Path:
    check_stages(recipe, run_dir, stages)
    check_data(recipe, stages)
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
    if 1 in stages:
        checkpoint = sft.stage1(checkpoint)
    elif (run_dir / "stage1").is_dir():
        checkpoint = run_dir / "stage1"
    if 2 in stages:
        checkpoint = sft.stage2(checkpoint)
    final = put_final(checkpoint, run_dir)
    sft.cluster.close()
    say(next_commands(final, recipe, run_dir))
    return final
