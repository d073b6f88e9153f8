"""What a warm-up begins with and learns from: its first checkpoint, demonstrations on the phone, recorded ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

import torch

from envs.base import Task
from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl import tiny
from mobilerl.agent.context import ContextPolicy
from mobilerl.atomic_files import put_folder, write_atomic
from mobilerl.config import ConfigError, Recipe
from mobilerl.setup import check_checkpoint, make_phones
from sft.demonstrations import demonstrations
from sft.samples import ExpertStep
from sft.sources.report import Report
from sft.sources.stream import Source, SourceSpec, open_sources, steps
from sft.vocabulary import corpus

SHUFFLED = 256
"""Samples of each source of recorded demonstrations among which it is shuffled."""


class Data:
    """What one warm-up learns from. `context`: how the agent is asked, which decides what of a source can be used."""

    def __init__(self, recipe: Recipe, run_dir: Path, context: ContextPolicy, say: Callable[[str], None]) -> None:
        self.recipe, self.run_dir, self.context, self.say = recipe, run_dir, context, say
        self.phone = undisturbed_phone(recipe)

    def base(self) -> Path:
        """The checkpoint to start from; a tiny untrained one when the recipe names none."""
        if self.recipe.model:
            check_checkpoint(self.recipe.model)
            return Path(self.recipe.model)
        path = self.run_dir / "init"
        if not path.is_dir():
            shape = self.recipe.tiny
            torch.manual_seed(self.recipe.sft.seed)
            temporary = self.run_dir / ".init.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            tiny.create(
                temporary, corpus(self.phone), shape.hidden, shape.layers, shape.heads, max_pixels=shape.max_pixels
            )
            put_folder(temporary, path)
        return path

    def demonstrated_tasks(self) -> list[Task]:
        """Raises ValueError when a held-out instance is among them."""
        tasks = suite.train_tasks(self.recipe.sft.demos_per_template, demo=True)
        suite.check_no_leak(tasks, suite.test_tasks(1))
        return tasks

    def expert_steps(self) -> list[ExpertStep]:
        tasks = self.demonstrated_tasks()
        made = demonstrations(self.phone, tasks)
        self.say(f"{len(tasks)} demonstrations, {len(made)} steps, of {len(suite.templates('train', True))} templates")
        return made

    @cached_property
    def sources(self) -> list[Source]:
        """Raises ConfigError for a source that cannot be read, or that gives nothing for this agent's prompts."""
        specs = [SourceSpec(**dict(source)) for source in self.recipe.sft.sources]
        try:
            opened = open_sources(specs) if specs else []
            for source in opened:
                source.check_usable("train", self.context)
            return opened
        except ValueError as fault:
            raise ConfigError(str(fault)) from None

    def recorded(self) -> Iterator[ExpertStep]:
        """Steps of the sources' training episodes; then `sources.json` says what became of the others."""
        settings, report = self.recipe.sft, Report()
        if not self.sources:
            return
        try:
            stream = steps(self.sources, "train", self.context, report, settings.seed, SHUFFLED)
            yield from islice(stream, settings.source_steps)
        except ValueError as fault:
            raise ConfigError(str(fault)) from None
        write_atomic(self.run_dir / "sources.json", report.to_json().encode())
        self.say(str(report))

    @cached_property
    def words(self) -> list[str]:
        """Words the lessons are made of: all that the phone shows."""
        return sorted({w for text in corpus(self.phone) for w in tiny.words_of(text) if w.isalpha()})


def undisturbed_phone(recipe: Recipe) -> PhoneEnv:
    """One phone without pop-ups: recorded demonstrations do not show them."""
    return make_phones(recipe.phone.model_copy(update={"popup_rate": 0.0}), count=1)[0]
