"""Fuzzes everything that reads what others wrote, for as long as is wanted.

    python -m benchmarks.fuzz --seconds 600                     every target for ten minutes
    python -m benchmarks.fuzz --seconds 60 --only adbd,reply    some of them
    python -m benchmarks.fuzz --only reply --seed 81            that chunk of examples again

The targets are those of tests/fuzz, which the tests run for a second each. A target ends at its first crash, which
is made as small as it gets and printed with the seed that gives it again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

TARGETS = Path(__file__).parents[1] / "tests" / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target (default 60)")
    parser.add_argument("--only", default="", metavar="NAMES", help="targets by name, with commas between them")
    parser.add_argument("--seed", type=int, default=None, help="of the first chunk of examples (default: any)")
    parser.add_argument("--json", action="store_true", help="figures as one JSON object, crashes on standard error")
    args = parser.parse_args()
    if not TARGETS.is_dir():
        parser.error(f"{TARGETS} is missing: fuzzing needs a checkout of the repository")
    sys.path.insert(0, str(TARGETS))
    from all_targets import TARGETS as known
    from fuzzing import run_for

    wanted = [name.strip() for name in args.only.split(",") if name.strip()]
    if unknown := set(wanted) - {t.name for t in known}:
        parser.error(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(t.name for t in known)}")
    seed = random.SystemRandom().randrange(1 << 30) if args.seed is None else args.seed
    rows = []
    if not args.json:
        print(f"{'target':22}{'examples':>10}{'seconds':>9}{'slowest s':>11}{'crashes':>9}")
    for target in known:
        if wanted and target.name not in wanted:
            continue
        outcome = run_for(target, args.seconds, seed)
        rows.append(outcome)
        if not args.json:
            figures = f"{outcome.examples:10}{outcome.seconds:9.1f}{outcome.slowest_s:11.3f}{bool(outcome.crash):9}"
            print(f"{target.name:22}{figures}", flush=True)
        if outcome.crash:
            print(f"{target.name}: {outcome.crash}", file=sys.stderr, flush=True)
    total = {
        "targets": len(rows), "examples": sum(r.examples for r in rows),
        "seconds": round(sum(r.seconds for r in rows), 1), "crashes": sum(bool(r.crash) for r in rows),
    }  # fmt: skip
    if args.json:
        each = {r.name: {"examples": r.examples, "seconds": round(r.seconds, 1), "slowest_s": round(r.slowest_s, 3),
                         "crashed": bool(r.crash)} for r in rows}  # fmt: skip
        print(json.dumps({**total, "each": each}, indent=2))
    else:
        print("in all: " + ", ".join(f"{value} {name}" for name, value in total.items()))
    return 1 if total["crashes"] else 0


if __name__ == "__main__":
    sys.exit(main())
