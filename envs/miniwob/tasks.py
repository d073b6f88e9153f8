"""The tasks of MiniWoB++: all pages of the installed package, and the lists that are published."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from mobilerl.envs.base import Task

Split = Literal["train", "demo", "dev", "test"]
SUITE, HOST = "miniwob", "miniwob"
PACKAGE = "miniwob"
SPANS: dict[str, int] = {"train": 0, "demo": 1_000_000, "dev": 2_000_000, "test": 3_000_000}
"""First seed of each kind of instances; there are `SPAN` of each."""
SPAN = 1_000_000
MAX_STEPS = 30
"""Step budget: AndroidWorld's for its MiniWoB++ tasks, ten times their complexity of 3."""
NOT_MOBILE = frozenset(
    """
    ascending-numbers book-flight-nodelay button-delay buy-ticket chase-circle choose-date-nodelay
    click-collapsible-2-nodelay click-collapsible-nodelay click-menu click-pie-nodelay daily-calendar drag-circle
    drag-cube drag-items drag-items-grid drag-shapes drag-shapes-2 drag-single-shape drag-sort-numbers draw-circle
    draw-line find-greatest form-sequence form-sequence-2 form-sequence-3 generate-number hot-cold hover-shape
    moving-items number-checkboxes odd-or-even order-food phone-book sign-agreement stock-market text-editor
    use-autocomplete-nodelay use-slider-2 use-spinner
    """.split()
)
"""Tasks of miniwob 1.1.0 that are not among the 92 of MobileMiniWoB++ (Rawles et al. 2025). One of the 92, drag-item,
is not in the package."""


class NoMiniWoB(ValueError):
    """The package is not installed."""


@cache
def folder() -> Path:
    """The package's folder of pages. Raises NoMiniWoB."""
    found = importlib.util.find_spec(PACKAGE)
    places = list(found.submodule_search_locations or ()) if found else []
    if not places:
        raise NoMiniWoB("MiniWoB++ is not installed: pip install --no-deps miniwob")
    return Path(places[0]) / "html"


@cache
def templates() -> tuple[str, ...]:
    """Names of all tasks. Raises NoMiniWoB."""
    return tuple(sorted(path.stem for path in (folder() / "miniwob").glob("*.html")))


def mobile_templates() -> list[str]:
    """The 91 tasks of MobileMiniWoB++ that the package has. Raises NoMiniWoB."""
    return [name for name in templates() if name not in NOT_MOBILE]


def make_task(template: str, split: Split, number: int, max_steps: int = MAX_STEPS) -> Task:
    """Instance `number` of a task. The page draws its parameters, and so words the instruction, from the seed."""
    seed = SPANS[split] + number % SPAN
    mode = "train" if split in ("train", "demo") else "test"
    return Task(
        id=f"{SUITE}/{template}/{seed}",
        template=template,
        instruction=f"({template} of MiniWoB++, seed {seed})",
        params={"mode": mode},
        seed=seed,
        max_steps=max_steps,
        suite=SUITE,
        app="MiniWoB++",
    )


def make_tasks(names: Sequence[str], split: Split, numbers: range, max_steps: int = MAX_STEPS) -> list[Task]:
    return [make_task(name, split, number, max_steps) for name in names for number in numbers]


def is_held_out(task: Task) -> bool:
    """Whether the seed of a task is one for development or testing."""
    return task.seed >= SPANS["dev"]
