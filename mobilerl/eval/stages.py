"""`python -m mobilerl.eval.stages [--json FILE] NAME=DIR ...`: what each training stage learns and forgets.

`DIR/sim` and `DIR/generated` are evaluations of the checkpoint after a stage, all on the same instances. The table has
a column for each part of them, and the largest loss of any part since the stage before. `--json` writes the figures
that the table is made of; with no NAME=DIR it is read instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.eval.report import UNSEEN, read_results
from mobilerl.eval.statistics import wilson_interval
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import printable

COLUMNS = {
    "phone": "the phone's templates",
    "unseen": "unseen templates",
    "instances": "generated: instances",
    "phrasings": "phrasings",
    "pairs": "pairs",
    "apps": "apps",
}
"""Parts of the evaluations, with their titles."""


def gather(stages: Mapping[str, Path]) -> dict[str, Any]:
    """Successes and trials of every part after every stage. Raises ValueError for results that are not comparable."""
    found, known = [], None
    for name, folder in stages.items():
        sim, generated = (read_results(folder / suite / "results.json") for suite in ("sim", "generated"))
        if UNSEEN not in sim or "parts" not in generated:
            raise ValueError(f"{folder}: evaluate all templates of `sim` and all parts of `generated`")
        parts = {"phone": sim, "unseen": sim[UNSEEN], generated["part"]: generated, **generated["parts"]}
        instances = {part: sorted(e["task_id"] for e in results["instances"]) for part, results in parts.items()}
        if known not in (None, instances):
            raise ValueError(
                f"{folder} has other instances than the stages before: use the same --split and --instances"
            )
        known = instances
        counts = {part: {"successes": parts[part]["successes"], "trials": parts[part]["trials"]} for part in COLUMNS}
        found.append({"name": name, "parts": counts})
    return {"schema": 1, "stages": found}


def markdown(found: Mapping[str, Any]) -> str:
    """The table: success rates with Wilson intervals over episodes, in percent, and losses in points."""
    lines = [["after", *COLUMNS.values(), "most forgotten"], ["---"] * (len(COLUMNS) + 2)]
    before: dict[str, float] = {}
    for stage in found["stages"]:
        rates = {part: stage["parts"][part]["successes"] / stage["parts"][part]["trials"] for part in COLUMNS}
        losses = {part: before[part] - rates[part] for part in before}
        worst = max(losses, key=losses.__getitem__, default="")
        lost = (
            f"{COLUMNS[worst]}: {-100 * losses[worst]:.1f}"
            if worst and losses[worst] > 0
            else "nothing"
            if before
            else ""
        )
        lines.append([stage["name"], *(_cell(stage["parts"][part]) for part in COLUMNS), lost])
        before = rates
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(counts: Mapping[str, int]) -> str:
    interval = wilson_interval(counts["successes"], counts["trials"])
    rate = f"{100 * counts['successes'] / counts['trials']:.1f} %"
    return f"{rate} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m mobilerl.eval.stages", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, help="file with the figures")
    parser.add_argument(
        "stages", nargs="*", metavar="NAME=DIR", help="a stage's name and the folder of its evaluations"
    )
    args = parser.parse_args(words)
    try:
        if args.stages:
            found = gather({name: Path(folder) for name, _, folder in (word.partition("=") for word in args.stages)})
            if args.json:
                write_atomic(args.json, (json.dumps(found, indent=1) + "\n").encode())
        elif args.json:
            found = json.loads(args.json.read_bytes())
        else:
            raise ValueError("give NAME=DIR for every stage, or --json with a file of figures")
        print(markdown(found))
    except (ValueError, OSError) as error:
        print(f"mobilerl: error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
