"""A training run before it begins: what its recipe leaves open is found out once, for checks, dry run and loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mobilerl.config import Recipe
from mobilerl.suites.base import Suite, make_suite
from mobilerl.suites.fleet import fleet_type
from mobilerl.training.run_dir import with_checkpoints_agent
from mobilerl.training.start_model import with_start_model


@dataclass(frozen=True, slots=True)
class Run:
    """A run in `run_dir`."""

    recipe: Recipe
    """With the start model as a local folder, and with that model's agent."""
    run_dir: Path
    resume: bool
    suite: Suite

    @classmethod
    def open(cls, recipe: Recipe, run_dir: Path, resume: bool, flags: Sequence[str] = ()) -> Run:
        """Resolves a recipe, with those flags of the command line. Writes nothing. Raises ConfigError."""
        recipe = with_checkpoints_agent(with_start_model(recipe, run_dir, resume), flags)
        return cls(recipe, run_dir, resume, make_suite(recipe))

    @property
    def in_process(self) -> bool:
        """Whether episodes need nothing outside this process, which makes runs repeatable."""
        return fleet_type(self.recipe.fleet).in_process and self.suite.in_process
