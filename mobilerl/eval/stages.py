"""`python -m mobilerl.eval.stages [--json FILE] NAME=DIR ...`: what each training stage learns and forgets.

`DIR/sim` and `DIR/generated` are evaluations of the checkpoint after a stage, all on the same instances; folders with
the same name are one stage, trained with several seeds. The table has a column for each part of them, and the largest
loss of any part since the stage before. Intervals are over seeds and task templates (`eval.intervals`); p is adjusted
by Holm's method for the parts of a stage. `--json` writes the figures that the table is made of; with no NAME=DIR it is
read instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mobilerl.eval.intervals import crossed, valid_episodes
from mobilerl.eval.report import UNSEEN, read_results
from mobilerl.eval.statistics import holm
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import printable

SCHEMA = 2
COLUMNS = {
    "phone": "the phone's templates",
    "unseen": "unseen templates",
    "instances": "generated: instances",
    "phrasings": "phrasings",
    "pairs": "pairs",
    "apps": "apps",
}
"""Parts of the evaluations, with their titles."""

Counts = dict[str, dict[str, tuple[int, int]]]
"""Successes and trials of one seed, by part and template."""


def gather(stages: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """Counts of every seed after every stage. Raises ValueError for results that are not comparable."""
    known: dict[str, list[str]] | None = None
    found = []
    for name, folders in stages.items():
        seeds = []
        for folder in folders:
            parts = _read_parts(folder)
            instances = {part: sorted(e["task_id"] for e in results["instances"]) for part, results in parts.items()}
            if known not in (None, instances):
                raise ValueError(
                    f"{folder} has other instances than the stages before: use the same --split and --instances"
                )
            known = instances
            seeds.append({part: _count(parts[part]) for part in COLUMNS})
        found.append({"name": name, "seeds": seeds})
    return {"schema": SCHEMA, "stages": found}


def _read_parts(folder: Path) -> dict[str, Mapping[str, Any]]:
    sim, generated = (read_results(folder / suite / "results.json") for suite in ("sim", "generated"))
    if UNSEEN not in sim or "parts" not in generated:
        raise ValueError(f"{folder}: evaluate all templates of `sim` and all parts of `generated`")
    return {"phone": sim, "unseen": sim[UNSEEN], generated["part"]: generated, **generated["parts"]}


def _count(results: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for episode in valid_episodes(results):
        successes, trials = counts.get(episode["template"], (0, 0))
        counts[episode["template"]] = successes + episode["success"], trials + 1
    return counts


def markdown(found: Mapping[str, Any]) -> str:
    """The table: success rates and below them the differences to the stage before, in percent, with intervals and p."""
    lines = [["after", *COLUMNS.values(), "most forgotten"], ["---"] * (len(COLUMNS) + 2)]
    before: list[Counts] | None = None
    for stage in found["stages"]:
        seeds: list[Counts] = stage["seeds"]
        several = f", {len(seeds)} seeds" if len(seeds) > 1 else ""
        rates = [_rate(*_tables(part, seeds)) for part in COLUMNS]
        lines.append([stage["name"] + several, *rates, _most_forgotten(before, seeds) if before else ""])
        if before:
            lines.append(["difference", *_differences(seeds, before), ""])
        before = seeds
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _tables(part: str, *stages: Sequence[Counts]) -> list[np.ndarray]:
    """For each stage, success rates by seed and template; of the templates that all have episodes of."""
    counted = [seed[part] for seeds in stages for seed in seeds]
    names = sorted(set.intersection(*map(set, counted)))
    return [np.array([[s / n for s, n in (seed[part][name] for name in names)] for seed in seeds]) for seeds in stages]


def _most_forgotten(before: Sequence[Counts], after: Sequence[Counts]) -> str:
    changes = {part: float(np.subtract(*(t.mean() for t in _tables(part, after, before)))) for part in COLUMNS}
    worst = min(changes, key=changes.__getitem__)
    return f"{COLUMNS[worst]}: {100 * changes[worst]:.1f}" if changes[worst] < 0 else "nothing"


def _rate(table: np.ndarray) -> str:
    text, estimate = f"{100 * float(table.mean()):.1f} %", crossed(table)
    if estimate is None:
        return text
    low, high = estimate.interval.low, estimate.interval.high
    return f"{text} ({100 * max(low, 0):.1f} to {100 * min(high, 1):.1f})"


def _differences(after: Sequence[Counts], before: Sequence[Counts]) -> list[str]:
    tables = [_tables(part, after, before) for part in COLUMNS]
    estimates = [crossed(*pair) for pair in tables]
    adjusted = iter(holm([estimate.p for estimate in estimates if estimate]))
    cells = []
    for (new, old), estimate in zip(tables, estimates, strict=True):
        text = f"{100 * (float(new.mean()) - float(old.mean())):+.1f}"
        if estimate:
            low, high = estimate.interval.low, estimate.interval.high
            p = next(adjusted)
            text += f" ({100 * low:+.1f} to {100 * high:+.1f}, p {f'{p:.2g}' if p >= 0.001 else '< 0.001'})"
        cells.append(text)
    return cells


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m mobilerl.eval.stages", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, help="file with the figures")
    parser.add_argument(
        "stages", nargs="*", metavar="NAME=DIR", help="a stage's name and the folder of its evaluations"
    )
    args = parser.parse_args(words)
    try:
        if args.stages:
            folders: dict[str, list[Path]] = {}
            for name, _, folder in (word.partition("=") for word in args.stages):
                folders.setdefault(name, []).append(Path(folder))
            found = gather(folders)
            if args.json:
                write_atomic(args.json, (json.dumps(found, indent=1) + "\n").encode())
        elif args.json:
            found = json.loads(args.json.read_bytes())
            if found.get("schema") != SCHEMA:
                raise ValueError(
                    f"{args.json}: schema {found.get('schema')} instead of {SCHEMA}; gather the stages again"
                )
        else:
            raise ValueError("give NAME=DIR for every stage, or --json with a file of figures")
        print(markdown(found))
    except (ValueError, OSError) as error:
        print(f"mobilerl: error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
