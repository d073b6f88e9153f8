"""`python -m mobilerl.eval.table [--json FILE] NAME=RESULTS ...`: prints a Markdown table of evaluations.

Differences are to the first row with the same instances. Results with the same name are one row: the same set-up with
several seeds. Where a row or the first one has several, intervals are over seeds and task templates (`eval.intervals`);
otherwise that of a rate is over episodes (Wilson), and that of a difference resamples instances, paired.

`--json` writes what the table is made of, the outcome of every episode; with no NAME=RESULTS it is read instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mobilerl.eval.intervals import crossed, rates_table
from mobilerl.eval.report import UNSEEN, difference, percent, read_results
from mobilerl.eval.statistics import Interval, wilson_interval
from mobilerl.records import Status
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import printable

PARTS = ("phrasings", "pairs", "apps")
"""Held-out parts of generated tasks that are shown in addition to the headline."""
HEADER = (
    "policy",
    "success",
    "95% interval",
    "by seed",
    "unseen templates",
    *(f"unseen {part}" for part in PARTS),
    "pass@k",
    "episodes",
    "difference",
    "95% of difference",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table: a name and the results of its seeds."""

    name: str
    results: tuple[Mapping[str, Any], ...]

    def pool_seeds(self, part: str = "") -> dict[str, Any]:
        """Pools all seeds (of a part) as if they were trials of one evaluation, for `report.difference`."""
        results = [r["parts"][part] if part else r for r in self.results]
        return {"suite": self.results[0]["suite"], "instances": [e for r in results for e in r["instances"]]}

    @property
    def instances(self) -> frozenset[str]:
        return frozenset(e["task_id"] for r in self.results for e in r["instances"])


def read_entries(words: Sequence[str]) -> list[Entry]:
    """Reads NAME=PATH words in order, merging equal names. Raises ValueError for an invalid word or file."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for word in words:
        name, _, path = word.partition("=")
        if not name or not path:
            raise ValueError(f"{word!r} is not NAME=RESULTS, such as SFT=runs/sft/eval/sim/results.json")
        found.setdefault(name, []).append(read_results(Path(path)))
    return [Entry(name, tuple(results)) for name, results in found.items()]


def write_figures(path: Path, entries: Sequence[Entry]) -> None:
    """Writes what `markdown` needs of the entries, with a line for each evaluation."""
    rows = [{"name": entry.name, **_figures(results)} for entry in entries for results in entry.results]
    lines = ",\n".join(json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows)
    write_atomic(path, f'{{"schema": 1, "rows": [\n{lines}\n]}}\n'.encode())


def _figures(results: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: results[name] for name in ("suite", "success_rate", "successes", "trials", "pass_at_k")}
    if UNSEEN in results:
        kept[UNSEEN] = {"success_rate": results[UNSEEN]["success_rate"]}
    if "parts" in results:
        kept["parts"] = {part: _figures(found) for part, found in results["parts"].items()}
    episodes = [
        [e["task_id"], e["template"], e["trial"], None if e["status"] == Status.INFRA_ERROR else int(e["success"])]
        for e in results["instances"]
    ]
    return kept | {"episodes": episodes}


def read_figures(path: Path) -> list[Entry]:
    """Reads the entries of a file by `write_figures`. Raises ValueError if it is not one."""
    try:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in json.loads(path.read_bytes())["rows"]:
            found.setdefault(row["name"], []).append(_with_instances(row))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a file of `python -m mobilerl.eval.table --json`: {error!r}") from None
    return [Entry(name, tuple(results)) for name, results in found.items()]


def _with_instances(row: Mapping[str, Any]) -> dict[str, Any]:
    instances = [
        {
            "task_id": task_id,
            "template": template,
            "trial": trial,
            "success": bool(success),
            "status": Status.INFRA_ERROR if success is None else Status.FINISHED,
        }
        for task_id, template, trial, success in row["episodes"]
    ]
    parts = {part: _with_instances(found) for part, found in row.get("parts", {}).items()}
    return {**row, "instances": instances, **({"parts": parts} if parts else {})}


def markdown(entries: Sequence[Entry]) -> str:
    """Formats the table, leaving out empty columns."""
    rows = []
    for i, entry in enumerate(entries):
        base = next((e for e in entries[:i] if e.instances == entry.instances), None)
        rows.append([*_rates(entry, base), *_change(base, entry)])
    columns = [(name, *cells) for name, *cells in zip(HEADER, *rows, strict=True) if any(cells)]
    widths = [max(map(len, column)) for column in columns]
    head, *body = zip(*columns, strict=True)
    return "\n".join(_line(cells, widths) for cells in (head, ["-" * w for w in widths], *body))


def _rates(entry: Entry, base: Entry | None) -> list[str]:
    trials = sum(r["trials"] for r in entry.results)
    successes = sum(r["successes"] for r in entry.results)
    several = crossed(rates_table(entry.results)) if len(entry.results) > 1 else None
    interval = several.interval if several else wilson_interval(successes, trials)
    seeds = [percent(r["success_rate"]) for r in entry.results]
    unseen = [r[UNSEEN]["success_rate"] for r in entry.results if UNSEEN in r]
    return [
        entry.name,
        percent(successes / trials if trials else None),
        f"{percent(max(interval.low, 0))} to {percent(min(interval.high, 1))}",
        ", ".join(seeds) if len(seeds) > 1 else "",
        percent(fmean(unseen)) if unseen and None not in unseen else "",
        *(_part(entry, base, part) for part in PARTS),
        _pass_k(entry),
        str(trials),
    ]


def _part(entry: Entry, base: Entry | None, part: str) -> str:
    """Success rate of a part and, in parentheses, its difference to the base."""
    rates = [r["parts"][part]["success_rate"] for r in entry.results if part in r.get("parts", {})]
    if not rates or None in rates:
        return ""
    if base is None or any(part not in r.get("parts", {}) for r in base.results):
        return percent(fmean(rates))
    return f"{percent(fmean(rates))} ({', '.join(_change(base, entry, part))})"


def _pass_k(entry: Entry) -> str:
    """pass@k for the largest k that all seeds have, if that is above 1."""
    common = set.intersection(*(set(map(int, r["pass_at_k"])) for r in entry.results))
    k = max(common, default=1)
    return f"pass@{k} {percent(fmean(r['pass_at_k'][str(k)] for r in entry.results))}" if k > 1 else ""


def _change(base: Entry | None, entry: Entry, part: str = "") -> tuple[str, str]:
    if base is None or len(entry.instances) < 2:  # an interval resamples instances
        return "", ""
    found = difference(base.pool_seeds(part), entry.pool_seeds(part))
    interval = _over_seeds(base, entry, part) or found.bootstrap
    return f"{100 * found.difference:+.1f} points", f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _over_seeds(base: Entry, entry: Entry, part: str) -> Interval | None:
    """Interval of the difference over seeds and templates; None for single seeds."""
    if len(base.results) == len(entry.results) == 1:
        return None
    before, after = ([r["parts"][part] if part else r for r in e.results] for e in (base, entry))
    rates = rates_table([*after, *before])
    found = crossed(rates[: len(after)], rates[len(after) :])
    return found.interval if found else None


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.replace("|", "/").ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m mobilerl.eval.table", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, help="file with the figures")
    parser.add_argument("results", nargs="*", metavar="NAME=RESULTS", help="a row's name and a results.json of it")
    args = parser.parse_args(words)
    try:
        if args.results:
            entries = read_entries(args.results)
            if args.json:
                write_figures(args.json, entries)
        elif args.json:
            entries = read_figures(args.json)
        else:
            raise ValueError("give at least one NAME=RESULTS, or --json with a file of figures")
        print(markdown(entries))
    except ValueError as error:
        print(f"mobilerl: error: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
