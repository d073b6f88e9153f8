"""Groups of a small task, and their entries in the log of tasks and devices."""

from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.envs.base import Task
from mobilerl.records import Group, Status, Trajectory
from mobilerl.training.run_log import StatusLog


def group(name: str, *rewards: float) -> Group:
    task = Task(name, f"T{name}", f"Do {name}", {}, 0, 10, "sim", "Clock")
    trajectories = [Trajectory(f"{name}-{i}", task, (), r, Status.FINISHED, "phone-0") for i, r in enumerate(rewards)]
    return Group(task, tuple(trajectories))


def record(log: StatusLog, curriculum: FailureCurriculum, iteration: int, *groups: Group, devices=()) -> None:
    curriculum.update({g.task.id: [t.reward for t in g.trajectories] for g in groups})
    log.record(iteration, curriculum, groups, lambda task: task.id, devices)
