"""What one run left behind: its learning curve, its evaluation, its time, and whether it can be compared.

RUN_DIR/warm-up/eval/sim/results.json     the policy all runs start from
RUN_DIR/VARIANT/seed-N/job.json           what was run, for how long, and whether it came to its end
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

METRICS = "metrics.jsonl"
RESULTS = Path("eval", "sim", "results.json")
STEPS = "rollout/env_steps"
SAME = ("split", "instances_per_template", "trials", "templates", "temperature", "popup_rate", "screen", "step_budget",
        "seed")  # fmt: skip
"""What of an evaluation's protocol must be equal for two of them to be compared."""


def run_folder(run_dir: Path, variant: str, seed: int) -> Path:
    return run_dir / variant / f"seed-{seed}"


@dataclass(slots=True)
class Job:
    """The file job.json: the script's arguments, the weights it began with, and how far it has come."""

    words: list[str]
    warm_up: str
    """`weights_digest` of the policy that the run starts from."""
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
            raise ValueError(f"{path}: not a job's record: {error}") from None

    def write(self, folder: Path) -> None:
        write_atomic(folder / "job.json", (json.dumps(asdict(self)) + "\n").encode())


@dataclass(frozen=True, slots=True)
class Point:
    """After an iteration: environment steps, episodes, successes and seconds of the run so far."""

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
    """Of its online training, over all calls; of its script where it has not played."""
    training_fault: str
    """Why its training cannot be compared; empty when it can."""

    @property
    def fault(self) -> str:
        return self.training_fault or ("" if self.results else "was not evaluated")

    @property
    def steps(self) -> int | None:
        return self.points[-1].steps if self.points else None


def read_run(run_dir: Path, variant: str, seed: int, budget: int | None, warm_up: str) -> Run:
    """`budget`: environment steps; None for a variant that trains offline. `warm_up`: `weights_digest` of what all runs
    start from. Raises ValueError for a damaged file."""
    folder = run_folder(run_dir, variant, seed)
    points = read_points(folder / METRICS)
    results = read_results(folder / RESULTS) if (folder / RESULTS).is_file() else None
    job = Job.read(folder)
    wall_s = points[-1].seconds if points else job.wall_s if job else None
    return Run(seed, points, results, wall_s, _training_fault(job, points, budget, warm_up))


def read_points(path: Path) -> tuple[Point, ...]:
    """Of every iteration that has played; rows before them (learning from stored trajectories) have no steps."""
    points: list[Point] = []
    episodes = successes = 0.0
    for row in read_metrics(path):
        steps = row.get(STEPS)
        if steps is None:
            continue
        played = row.get("rollout/trajectories") or 0
        episodes += played
        successes += played * (row.get("rollout/success_rate") or 0.0)
        if played and steps > (points[-1].steps if points else 0):
            points.append(Point(steps, episodes, successes, row["time_s"]))
    return tuple(points)


def _training_fault(job: Job | None, points: Sequence[Point], budget: int | None, warm_up: str) -> str:
    """A run stops with the iteration in which it reaches its budget: a little above it is as it must be."""
    if job is None:
        return "was not run"
    if job.warm_up != warm_up:
        return "began from another warm-up"
    if not job.finished:
        return f"did not come to its end{f' ({points[-1].steps:,} environment steps)' if points else ''}"
    if budget is None:
        return ""
    if not points or points[-1].steps < budget:
        return f"stopped at {points[-1].steps if points else 0:,} of {budget:,} environment steps"
    if len(points) > 1 and points[-2].steps >= budget:
        return f"went on to {points[-1].steps:,} environment steps, where {budget:,} are the budget"
    return ""


def template_rates(results: Mapping[str, Any]) -> dict[str, float]:
    """Success rate of each template; a template all of whose episodes the device spoilt is not there."""
    outcomes: dict[str, list[bool]] = {}
    for episode in _valid(results):
        outcomes.setdefault(episode["template"], []).append(episode["success"])
    return {name: fmean(values) for name, values in sorted(outcomes.items())}


def mean_length(results: Mapping[str, Any]) -> float:
    """Steps of an episode."""
    return fmean(episode["steps"] for episode in _valid(results))


def _valid(results: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [e for e in results["instances"] if e["status"] != Status.INFRA_ERROR]


def check_alike(evaluations: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises ValueError unless all evaluations, by name, were played by one protocol on the same instances."""
    (first, reference), *others = evaluations.items()
    instances = {e["task_id"] for e in reference["instances"]}
    for name, results in others:
        for key in SAME:
            a, b = reference["protocol"].get(key), results["protocol"].get(key)
            if a != b:
                raise ValueError(f"the evaluations of {first} and {name} differ in {key} ({a!r} and {b!r}): "
                                 "evaluate both in the same way")  # fmt: skip
        if {e["task_id"] for e in results["instances"]} != instances:
            raise ValueError(f"the evaluations of {first} and {name} are of different instances: evaluate both anew")
