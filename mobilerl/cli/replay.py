"""`mobilerl replay`: takes the optimizer steps of an iteration again, with any engine, without a phone."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.reading import CONFIG_FILE, read_saved
from mobilerl.records.batches import read_batches
from mobilerl.system.terminal import make_console, make_table

if TYPE_CHECKING:
    from mobilerl.records import TrainingSample

SHOWN = ("loss", "grad_norm", "rollout_k3", "rollout_prob_diff_max", "seconds", "gpu_gib")


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "replay",
        parents=[common],
        allow_abbrev=False,
        help="take the optimizer steps of an iteration again, to compare engines, versions and cards",
        epilog="train.keep_batches keeps the mini-batches. The steps start from the run's checkpoint before the "
        "iteration if there is one, with its optimizer, else from --model, by default the run's start model. Every "
        "setting is a flag as well: --engine.type verl",
    )
    parser.add_argument("folder", type=Path, metavar="RUN/batches/iter-NNNNNN", help="mini-batches of an iteration")
    parser.set_defaults(run=run, takes_settings=True)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    run_dir = args.folder.resolve().parent.parent
    if not (run_dir / CONFIG_FILE).is_file():
        raise ConfigError(f"{args.folder}: no {CONFIG_FILE} of a run two folders above it")
    try:
        batches = read_batches(args.folder)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    recipe = read_saved(run_dir / CONFIG_FILE, settings)
    before = run_dir / "checkpoints" / f"iter-{int(args.folder.name.partition('-')[2]) - 1:06d}"
    table = make_table("step", "samples", *SHOWN)
    for number, (batch, row) in enumerate(zip(batches, take_again(recipe, batches, before), strict=True)):
        values = (f"{row[name]:.6g}" if name in row else "" for name in SHOWN)
        table.add_row(str(number), str(len(batch)), *values)
    make_console().print(table)
    return 0


def take_again(recipe: Recipe, batches: Sequence[Sequence[TrainingSample]], before: Path) -> Iterator[dict[str, float]]:
    """Takes an optimizer step per mini-batch, from the checkpoint `before` if there is one, else the recipe's model.

    Yields its metrics with `seconds` and, in this process, the peak of the GPU's memory as `gpu_gib`.
    """
    import torch

    from mobilerl.algorithms.base import make_algorithm
    from mobilerl.engines.registry import make_trainer_engine
    from mobilerl.training.checkpoint import load_engine
    from mobilerl.training.learner import take_step
    from mobilerl.training.setup import make_resources

    engine = make_trainer_engine(recipe)
    try:
        if before.is_dir():
            load_engine(before, engine)
        algorithm = make_algorithm(recipe.algorithm, make_resources(recipe, engine))
        for number, batch in enumerate(batches):
            began = time.perf_counter()
            row = take_step(engine, algorithm, batch, first=number == 0)
            row["seconds"] = time.perf_counter() - began
            if torch.cuda.is_available():
                row["gpu_gib"] = torch.cuda.max_memory_allocated() / 2**30
            yield row
    finally:
        engine.close()
