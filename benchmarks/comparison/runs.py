"""One run of the comparison: its learning curve, its evaluation, its time, and whether it can be compared.

RUN_DIR/sft/eval/sim/results.json         the policy all runs start from
RUN_DIR/VARIANT/seed-N/job.json           what was run, for how long, and whether it finished
                      /metrics.jsonl, eval/sim/results.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from mobilerl.atomic_files import write_atomic
from mobilerl.eval.report import read_results
from mobilerl.records import Status
from mobilerl.train.tracking import read_metrics

SFT = "sft"
METRICS = "metrics.jsonl"
RESULTS = Path("eval", "sim", "results.json")
PROTOCOL = tuple("split instances_per_template trials templates temperature popup_rate screen step_budget seed".split())
"""Fields of an evaluation's protocol that must be equal for two of them to be compared."""


def run_folder(run_dir: Path, variant: str, seed: int) -> Path:
    return run_dir / variant / f"seed-{seed}"


@dataclass(slots=True)
class Job:
    """The file job.json: the script's arguments, the initial weights, and the progress."""

    flags: list[str]
    sft: str
    """`weights_digest` of the checkpoint that the run starts from."""
    wall_s: float = 0.0
    """Seconds over all calls."""
    finished: bool = False
    """Whether the script has succeeded."""

    @classmethod
    def read(cls, folder: Path) -> Job | None:
        path = folder / "job.json"
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not a job's record: {error}") from None

    def write(self, folder: Path) -> None:
        write_atomic(folder / "job.json", (json.dumps(asdict(self)) + "\n").encode())


@dataclass(frozen=True, slots=True)
class Point:
    """Environment steps, episodes, successes and seconds of a run up to the end of an iteration."""

    steps: int
    episodes: float
    successes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    seed: int
    points: tuple[Point, ...]
    results: Mapping[str, Any] | None
    wall_s: float | None
    """Training time over all calls; that of the script for a run without episodes."""
    training_fault: str
    """Why its training cannot be compared; empty if it can."""

    @property
    def fault(self) -> str:
        return self.training_fault or ("" if self.results else "was not evaluated")


def read_run(run_dir: Path, variant: str, seed: int, budget: int | None, sft: str) -> Run:
    """`budget`: environment steps; None for an offline variant. `sft`: `weights_digest` of the checkpoint that all runs
    start from. Raises ValueError for a damaged file."""
    folder = run_folder(run_dir, variant, seed)
    points = read_points(folder / METRICS)
    results = read_results(folder / RESULTS) if (folder / RESULTS).is_file() else None
    job = Job.read(folder)
    wall_s = points[-1].seconds if points else job.wall_s if job else None
    return Run(seed, points, results, wall_s, _training_fault(job, points, budget, sft))


def read_points(path: Path) -> tuple[Point, ...]:
    """One value per iteration that collected episodes."""
    points: list[Point] = []
    episodes = successes = 0.0
    for row in read_metrics(path):
        steps = row.get("rollout/env_steps")
        if steps is None:
            continue
        collected = row.get("rollout/trajectories") or 0
        episodes += collected
        successes += collected * (row.get("rollout/success_rate") or 0.0)
        if collected and steps > (points[-1].steps if points else 0):
            points.append(Point(steps, episodes, successes, row["time_s"]))
    return tuple(points)


def _training_fault(job: Job | None, points: Sequence[Point], budget: int | None, sft: str) -> str:
    """A run ends with the iteration in which it reaches its budget, so it may exceed it a little."""
    if job is None:
        return "was not run"
    if job.sft != sft:
        return "started from another SFT checkpoint"
    steps = points[-1].steps if points else 0
    if not job.finished:
        return f"did not finish ({steps:,} environment steps)"
    if budget is not None and steps < budget:
        return f"stopped at {steps:,} of {budget:,} environment steps"
    if budget is not None and len(points) > 1 and points[-2].steps >= budget:
        return f"continued to {steps:,} environment steps with a budget of {budget:,}"
    return ""


def template_rates(results: Mapping[str, Any]) -> dict[str, float]:
    """Success rate of each template with at least one episode that was not lost to an infrastructure error."""
    outcomes: dict[str, list[bool]] = {}
    for episode in _valid(results):
        outcomes.setdefault(episode["template"], []).append(episode["success"])
    return {name: fmean(values) for name, values in sorted(outcomes.items())}


def mean_length(results: Mapping[str, Any]) -> float:
    """Steps of an episode."""
    return fmean(episode["steps"] for episode in _valid(results))


def _valid(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [e for e in results["instances"] if e["status"] != Status.INFRA_ERROR]


def check_comparable(evaluations: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises ValueError unless all evaluations, by name, have the same protocol and instances."""
    (first, reference), *others = evaluations.items()
    instances = {e["task_id"] for e in reference["instances"]}
    for name, results in others:
        for key in PROTOCOL:
            a, b = reference["protocol"].get(key), results["protocol"].get(key)
            if a != b:
                raise ValueError(f"the evaluations of {first} and {name} differ in {key} ({a!r} and {b!r})")
        if {e["task_id"] for e in results["instances"]} != instances:
            raise ValueError(f"the evaluations of {first} and {name} have different instances: repeat both")
