"""`mobilerl bench compare`: one file of results beside another."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobilerl.commands.bench.tables import print_table


def add(names: Any, common: argparse.ArgumentParser) -> None:
    compare = names.add_parser("compare", parents=[common], help="compare two files of --save; status 1 if one figure "
                               "got worse by more than --factor")  # fmt: skip
    compare.add_argument("baseline", metavar="BASELINE", help="such as benchmarks/baselines/learner.json")
    compare.add_argument("new", metavar="NEW")
    compare.add_argument("--factor", type=float, default=1.25, help="that counts as worse (default 1.25)")
    compare.add_argument("--json", action="store_true", help="print JSON")
    compare.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from benchmarks.compare import compare, load

    check_factor(args.factor)
    changes, differ = compare(load(Path(args.baseline)), load(Path(args.new)))
    rows = [{"figure": c.name, "before": c.before, "now": c.after, "times as good": c.ratio,
             "": "worse" if c.worse(args.factor) else ""} for c in changes]  # fmt: skip
    if args.json:
        print(json.dumps({"changes": rows, "measured differently": differ}))
    else:
        print_table(rows)
        for line in differ:
            print(f"measured differently: {line}")
    return int(any(row[""] for row in rows))


def check_factor(factor: float) -> None:
    if not 1 <= factor < math.inf:
        raise ValueError(f"--factor is {factor}; it must be at least 1")
