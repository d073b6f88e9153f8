"""Evaluations of a run, and paired comparisons of two of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mobilerl.eval.report import difference, read_results
from mobilerl.records import Status

RESULTS = ("results.json", "*/results.json", "eval/**/results.json")
"""Locations of results: the `--out` of `mobilerl eval`, or the folder that contains it, can be viewed like a run."""


def evaluation_folders(run: Path) -> list[Path]:
    """Folders with a results.json: the given one, those directly in it, and those under eval/."""
    return sorted({path.parent for pattern in RESULTS for path in run.glob(pattern)})


def evaluation_name(folder: Path, run: Path) -> str:
    """Path of an evaluation's folder in its run without "eval/", or the name of the folder if it is the run itself."""
    return folder.relative_to(run).as_posix().removeprefix("eval/") if folder != run else run.resolve().name


def evaluations_of(run: Path) -> list[dict[str, Any]]:
    """Results of all evaluations with their `name`, by suite and age; "before" comes first, "after" last."""

    def age(folder: Path) -> tuple[int, float]:
        place = 0 if "before" in folder.name else 2 if "after" in folder.name else 1
        return place, (folder / "results.json").stat().st_mtime

    folders = sorted(evaluation_folders(run), key=age)
    found = [{"name": evaluation_name(folder, run), **read_results(folder / "results.json")} for folder in folders]
    return sorted(found, key=lambda e: e["suite"])


def pairs_within(evaluations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pairs of the first and the last evaluation of each suite."""
    suites = [[e for e in evaluations if e["suite"] == suite] for suite in sorted({e["suite"] for e in evaluations})]
    return [pair(same[0], same[-1]) for same in suites if len(same) > 1]


def pairs_with_others(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Pairs of evaluations of the first run with those of each other run, whose position is `other`."""
    return [{**p, "other": i} for i, other in enumerate(runs[1:], start=1) for p in pairs_between(runs[0], other)]


def pairs_between(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Pairs of evaluations of two runs with the same suite and name or, if there are none, the last of each suite."""
    named = {(e["suite"], e["name"]): e for e in b}
    same = [pair(named[e["suite"], e["name"]], e) for e in a if (e["suite"], e["name"]) in named]
    if same:
        return same
    last_a, last_b = {e["suite"]: e for e in a}, {e["suite"]: e for e in b}
    return [pair(last_b[suite], last_a[suite]) for suite in last_a if suite in last_b]


def pair(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Compares two evaluations: {suite, before, after, rates, difference, interval, instances, counts, rows}.

    A row is [task id, template, before [successes, trials], after, kind], where `kind` compares the success rates: won,
    lost, both or neither. If the two cannot be compared, `reason` says why and replaces the last five keys.
    """
    found = {
        "suite": before["suite"],
        "before": before["name"],
        "after": after["name"],
        "rates": [before["success_rate"], after["success_rate"]],
    }
    try:
        paired = difference(before, after)
    except ValueError as error:
        return found | {"reason": str(error)}
    rows = _rows(before, after)
    counts = Counter(row[4] for row in rows)
    return found | {
        "difference": paired.difference,
        "interval": [paired.bootstrap.low, paired.bootstrap.high],
        "instances": paired.instances,
        "counts": {kind: counts[kind] for kind in ("won", "lost", "both", "neither")},
        "rows": rows,
    }


def _rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[list[Any]]:
    counts_before, counts_after = _counts(before), _counts(after)
    rows = []
    for task, (template, *old) in counts_before.items():
        _, *new = counts_after[task]
        if old[1] and new[1]:  # every trial may have been an infra error
            change = new[0] / new[1] - old[0] / old[1]
            kind = "won" if change > 0 else "lost" if change < 0 else "both" if new[0] else "neither"
            rows.append([task, template, old, new, kind])
    return rows


def _counts(results: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Counts by task id, [template, successes, trials], without infra errors."""
    counts: dict[str, list[Any]] = {}
    for episode in results["instances"]:
        count = counts.setdefault(episode["task_id"], [episode["template"], 0, 0])
        if episode["status"] != Status.INFRA_ERROR:
            count[1] += bool(episode["success"])
            count[2] += 1
    return counts
