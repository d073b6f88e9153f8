"""The starting checkpoint and the data of SFT: demonstrations on the phone, and recorded ones."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.training import SourceSection
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import check_checkpoint
from mobilerl.policy.context import ContextPolicy, make_context
from mobilerl.sft.demonstrations import corpus, demonstrations, generated_corpus
from mobilerl.sft.samples import ExpertStep
from mobilerl.sft.sources.report import Report
from mobilerl.sft.sources.stream import Source, open_sources, steps
from mobilerl.suites.base import Demonstrating, demonstrated_tasks, evaluations, has_demonstrations, make_suite
from mobilerl.suites.phone.training import make_phones
from mobilerl.system.atomic_files import put_folder, write_atomic
from mobilerl.system.terminal import progress_bar

INSTANCES_AT_A_TIME = 10
"""Instances of every template that a process demonstrates before it returns its steps."""
MANY_PARTS = 20
"""Number of such parts for which another process is worth its start, on as many cores as there are."""
SHUFFLE_BUFFER = 256
"""Size of the shuffle buffer of each source, in samples."""


class SftData:
    """Data of one SFT run. `context` is the prompt format, which determines what a source can provide."""

    def __init__(self, recipe: Recipe, run_dir: Path, context: ContextPolicy, say: Callable[[str], None]) -> None:
        self.recipe, self.run_dir, self.context, self.say = recipe, run_dir, context, say
        self.phone = demonstration_phone(recipe)

    def base(self) -> Path:
        """The checkpoint to start from, or a tiny untrained one if the recipe names none."""
        if self.recipe.model:
            check_checkpoint(self.recipe.model)
            return Path(self.recipe.model)
        path = self.run_dir / "init"
        if not path.is_dir():
            torch.manual_seed(self.recipe.train.seed)
            temporary = self.run_dir / ".init.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            tiny.create(temporary, self.texts, **self.recipe.tiny.model_dump())
            put_folder(temporary, path)
        return path

    @cached_property
    def expert_steps(self) -> list[ExpertStep]:
        """Steps of the experts' demonstrations, if there are any. Raises ValueError if a held-out instance is among
        them."""
        if not has_demonstrations(self.recipe):
            return []
        number = self.recipe.sft.demos_per_template
        parts = [range(i, min(i + INSTANCES_AT_A_TIME, number)) for i in range(0, number, INSTANCES_AT_A_TIME)]
        made: list[ExpertStep] = []
        with ExitStack() as stack:
            show = stack.enter_context(progress_bar("instances demonstrated"))
            run: Callable[..., Iterable[list[ExpertStep]]] = map
            processes = max(self.recipe.sft.processes, min(os.cpu_count() or 1, len(parts) // MANY_PARTS))
            if processes > 1:
                run = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"))).map
            for part, shown in zip(parts, run(_demonstrate, repeat(self.recipe), parts), strict=True):
                made += shown
                show(part.stop, number)
        tasks = {step.task.id: step.task.template for step in made}
        self.say(f"{len(tasks)} demonstrations, {len(made)} steps, of {len(set(tasks.values()))} templates")
        return made

    @cached_property
    def sources(self) -> list[Source]:
        """The opened sources. Raises ConfigError if one cannot be read, or has no sample for this agent's prompts."""
        return opened_sources(self.recipe, self.context)

    def read_recorded(self, stage: int) -> Iterator[ExpertStep]:
        """Steps of the sources' training episodes for an epoch of stage 1, or a round of stage 2.

        Their statistics are written to `sources.json` at the end of stage 1.
        """
        if not self.sources:
            return
        report = Report()
        limits = [stage2_limit(section) if stage == 2 else section.limit for section in self.recipe.sft.sources]
        yield from steps(self.sources, "train", self.context, report, self.recipe.train.seed, SHUFFLE_BUFFER, limits)
        if stage == 1:
            write_atomic(self.run_dir / "sources.json", report.to_json().encode())
        self.say(str(report))

    def wordings(self, count: int) -> Iterator[tuple[str, list[str]]]:
        """Goals of training tasks, each with the list of what it asks for."""
        suite: Any = make_suite(self.recipe)
        return suite.wordings(count, random.Random(f"{self.recipe.train.seed}/goals"))

    @cached_property
    def texts(self) -> list[str]:
        """All texts that the embedded phone shows, and with generated apps the texts from which these are made."""
        made = generated_corpus() if "generated" in evaluations(self.recipe) else []
        phone = demonstration_phone(self.recipe, screenshots=False)
        return corpus(phone, self.recipe.tasks.templates) + made

    @cached_property
    def words(self) -> list[str]:
        """The words of reading pre-training."""
        return sorted({w for text in self.texts for w in tiny.words_of(text) if w.isalpha()})


def opened_sources(recipe: Recipe, context: ContextPolicy) -> list[Source]:
    """Opens the recipe's sources. Raises ConfigError if one cannot be read, or has no sample for these prompts."""
    try:
        return open_sources(recipe.sft.sources, "train", context)
    except ValueError as fault:
        raise ConfigError(str(fault)) from None


def stage2_limit(section: SourceSection) -> int | None:
    """Maximum number of steps of a source in a round of stage 2; None for all."""
    return section.limit if section.stage2_limit is None else section.stage2_limit


def _demonstrate(recipe: Recipe, instances: range) -> list[ExpertStep]:
    """Drops the XML of the screens, which is no longer needed and makes up most of the data to be sent."""
    tasks, suite = demonstrated_tasks(recipe, instances), make_suite(recipe)
    context, marks = make_context(recipe.agent), recipe.agent.random_marks
    if isinstance(suite, Demonstrating):
        made = demonstrations(*(suite.demonstrator(), tasks, context, marks), suite.make_expert)
    else:
        made = demonstrations(demonstration_phone(recipe), tasks, context, marks)
    return [replace(step, observation=replace(step.observation, xml="")) for step in made]


def demonstration_phone(recipe: Recipe, screenshots: bool = True) -> PhoneEnv:
    """One phone with the pop-ups of demonstrations. It draws screenshots if the agent sees any."""
    phone = recipe.phone.model_copy(update={"popup_rate": recipe.sft.popup_rate})
    return make_phones(phone, count=1, screenshots=screenshots and recipe.agent.screenshots > 0)[0]
