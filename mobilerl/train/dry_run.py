"""`--dry-run`: what a recipe is when everything is resolved, whether it can run, and what it will cost.

The resolved recipe goes to standard output and can be saved and used; the rest goes to standard error.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from rich.box import SIMPLE

from envs.phone.tasks import suite
from mobilerl.config import ConfigError, Recipe
from mobilerl.config.toml import null_flags, to_toml
from mobilerl.fleet import check_packages, spare_devices
from mobilerl.setup import check_checkpoint
from mobilerl.tables import make_console, make_table
from mobilerl.train.checkpoint import latest
from mobilerl.train.cost import disk_total, memory_total, training_cost
from mobilerl.train.cost_parts import MB, Item
from mobilerl.train.model_shape import ModelShape
from mobilerl.train.stored import check_stored
from mobilerl.train.warm_up_cost import warm_up_cost

SERIAL = re.compile(r"[\w.\-]+(:\d{1,5})?|\[[0-9a-fA-F:]+\]:\d{1,5}")


def dry_run(recipe: Recipe, run_dir: Path, resume: bool) -> int:
    """Of `mobilerl train`. Raises ConfigError for what would stop the run at its start. Starts nothing, asks nobody."""
    check(recipe, run_dir)
    recipe = _resolved(recipe, run_dir, resume)
    shape = ModelShape.of_checkpoint(Path(recipe.model))
    items = training_cost(recipe, step_budgets(recipe), shape)
    _print(recipe, items, run_dir, f"mobilerl train --run-dir {shlex.quote(str(run_dir))}")
    return 0


def dry_run_sft(recipe: Recipe, run_dir: Path, stages: Collection[int] = (1, 2)) -> int:
    """Of `mobilerl sft`, whole or one stage of it."""
    from sft.placement import check, check_stages

    check_writable(run_dir)
    if recipe.model:
        check_checkpoint(recipe.model)
    check(recipe)
    check_stages(recipe, run_dir, stages)
    shape = ModelShape.of_checkpoint(Path(recipe.model)) if recipe.model else ModelShape.of_tiny(recipe.tiny)
    demonstrated = [template.steps for template in suite.templates("train", True)]
    items = warm_up_cost(recipe, demonstrated, shape, stages)
    only = "" if len(stages) > 1 else f" --stage {min(stages)}"
    _print(recipe, items, run_dir, f"mobilerl sft --run-dir {shlex.quote(str(run_dir))}{only}")
    return 0


# --- checks ------------------------------------------------------------------------------------------------------


def check(recipe: Recipe, run_dir: Path) -> None:
    """What can be known to be wrong before a run directory is claimed. Raises ConfigError or ValueError."""
    check_writable(run_dir)
    check_devices(recipe)
    _check_engine(recipe)
    _check_offline(recipe, run_dir)
    step_budgets(recipe)


def check_writable(run_dir: Path) -> None:
    """Raises ConfigError when the run directory cannot be made or written to."""
    place = run_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ConfigError(f"--run-dir {run_dir}: {place} is a file; choose another --run-dir")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"--run-dir {run_dir}: no permission to write in {place}; choose another --run-dir")


def _resolved(recipe: Recipe, run_dir: Path, resume: bool) -> Recipe:
    """As the run would find it: with the agent settings of its checkpoint, and checked against a run that is there."""
    from mobilerl.train.run_dir import CONFIG_FILE, open_run

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / run_dir.name
        if (run_dir / CONFIG_FILE).is_file():
            copy.mkdir()
            shutil.copy(run_dir / CONFIG_FILE, copy)
        try:
            return open_run(recipe, copy, resume)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(copy), str(run_dir))) from None


def check_devices(recipe: Recipe) -> None:
    """Raises ConfigError for devices that cannot be used, as far as that can be seen without asking for them."""
    fleet = recipe.fleet
    check_packages(fleet)
    for serial in fleet.serials:
        if not SERIAL.fullmatch(serial):
            raise ConfigError(
                f"fleet.serials: {serial!r} is no serial; give it as `adb devices` prints it, or HOST:PORT"
            )
    if len(set(fleet.serials)) < len(fleet.serials):
        raise ConfigError("fleet.serials names a device twice: each can play one episode at a time")
    spare_devices(recipe)  # raises where there are fewer serials than devices
    for given in fleet.environment:
        if "=" not in given and given not in os.environ:
            raise ConfigError(f"fleet.environment: {given} is not set here; write {given}=VALUE, or export it")


def _check_engine(recipe: Recipe) -> None:
    if recipe.engine.type == "verl":
        from mobilerl.engines.verl.packages import check_packages

        check_packages()
    elif recipe.engine.sampler == "vllm":
        from mobilerl.engines.vllm.installed import check_installed

        check_installed()
    elif find_spec("torch") is None:
        raise ConfigError("torch is not installed: pip install torch==2.13.0, then pip install 'mobilerl[local]'")


def _check_offline(recipe: Recipe, run_dir: Path) -> None:
    """Of a run that has a checkpoint they are not needed any more."""
    if not recipe.offline.trajectories or latest(run_dir) is not None:
        return
    vocabulary = ModelShape.of_checkpoint(Path(recipe.model)).vocabulary if recipe.model else None
    try:
        check_stored(Path(recipe.offline.trajectories), vocabulary)
    except ValueError as error:
        raise ConfigError(f"offline.trajectories: {error}") from None


def step_budgets(recipe: Recipe) -> list[int]:
    """The most steps of every training task. Raises ConfigError or ValueError for tasks that do not exist."""
    if recipe.phone.suite == "sim":
        from mobilerl.train.tasks import training_tasks

        return [task.max_steps for task in training_tasks(recipe.tasks)]
    from envs.androidworld.tasks import FACTS, trainable

    names = trainable(recipe.tasks.templates, recipe.plays_free_rewards)
    cap = recipe.androidworld.step_cap
    return [
        min(FACTS[name].budget, cap or FACTS[name].budget) for name in names for _ in range(recipe.tasks.per_template)
    ]


# --- what is printed ---------------------------------------------------------------------------------------------


def _print(recipe: Recipe, items: Sequence[Item], run_dir: Path, command: str) -> None:
    flags = null_flags(recipe)
    print(f"# the resolved recipe of: {command}")
    if flags:
        print(f"# TOML cannot say null; to use this file, give as well: {shlex.join(flags)}")
    print(to_toml(recipe), end="")
    console = make_console(stderr=True)
    table = make_table("", "what it will cost", "at least", "at most", "how it is worked out", box=SIMPLE)
    for column in table.columns[2:4]:
        column.justify, column.no_wrap = "right", True
    group = ""
    for item in items:
        if group and item.group != group:
            table.add_section()
        low = "" if item.low is None else _number(item.low)
        table.add_row(
            item.group if item.group != group else "", item.what, low, f"{_number(item.high)} {item.unit}", item.how
        )
        group = item.group
    console.print(table)
    for line in _warnings(items, run_dir):
        console.print(f"[yellow]{line}[/yellow]", soft_wrap=True, highlight=False)
    console.print("nothing was started; `mobilerl doctor` with the same recipe examines this machine", highlight=False)


def _warnings(items: Sequence[Item], run_dir: Path) -> list[str]:
    """What this machine may not have enough of."""
    found, memory = [], memory_total(items)
    available = available_mb()
    if memory > available:
        cure = "less of engine.micro_tokens, phone.count, collect.workers or algorithm.replay.capacity helps"
        found.append(f"about {memory:.0f} MiB of memory may be needed, {available:.0f} MiB are available: {cure}")
    place = next(p for p in (run_dir, *run_dir.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free / MB
    if disk_total(items) > free:
        found.append(f"about {disk_total(items):.0f} MiB of disk may be needed, {free:.0f} MiB are free in {place}")
    return found


def available_mb() -> float:
    """MiB of memory that could be had now, with what the kernel would give up of the files it keeps."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))) / 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MB


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
