"""Sources of groups, on a fake collector whose groups end late, out of order, or not at all."""

import asyncio
import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_groups import make_task, make_trajectory

from mobilerl.config import CurriculumSection
from mobilerl.envs.base import InfraError
from mobilerl.records import Cause, Group, LostGroup
from mobilerl.training import source as source_module
from mobilerl.training.source import AsyncSource, PipelinedSource, take_some
from mobilerl.training.tasks import TaskSampler


class FakeCollector:
    """Samples each group with the version at a random moment before it ends; loses some groups."""

    def __init__(self, rng: random.Random, lost_rate: float) -> None:
        self.rng, self.lost_rate = rng, lost_rate
        self.version = 0
        self.counts: Counter[str] = Counter()
        self.lost: list[LostGroup] = []
        self.labels: list[str] = []
        self.open: list[tuple[str, object, int | None]] = []
        """Label, task, and the version that samples it once a device has started it."""
        self.most_open = 0

    def take_lost(self):
        taken, self.lost = self.lost, []
        return taken

    async def dispatch(self, task, label, size=None):
        self.labels.append(label)
        self.open.append((label, task, None))
        self.most_open = max(self.most_open, len(self.open))

    def pass_time(self):
        """Devices start some of the waiting groups."""
        self.open = [
            (label, task, self.version if v is None and self.rng.random() < 0.5 else v) for label, task, v in self.open
        ]

    async def ready(self, n):
        for _ in range(n):
            self.pass_time()
            label, task, version = self.open.pop(self.rng.randrange(len(self.open)))
            if self.rng.random() < self.lost_rate:
                self.counts["lost_groups"] += 1
                self.lost.append(LostGroup(task, Cause.DEVICE, "offline"))
                continue
            version = self.version if version is None else version
            yield Group(task, (make_trajectory(f"{label}-00", 1.0, 2, task, version),))


def make_sampler() -> TaskSampler:
    return TaskSampler([make_task(str(i), f"T{i}") for i in range(4)], CurriculumSection())


@given(
    takes=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=12),
    staleness=st.integers(1, 4),
    lost_rate=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**16),
)
def test_ahead_keeps_its_bounds(takes, staleness, lost_rate, seed):
    """Each inner list is an iteration, a take and its refills; a version is published after each."""
    collector = FakeCollector(random.Random(seed), lost_rate)
    source = AsyncSource(collector, make_sampler(), random.Random(seed), staleness, lambda: collector.version)

    async def iterate():
        used = []
        for number, sizes in enumerate(takes):
            for refill, n in enumerate(sizes):
                before = collector.counts["lost_groups"]
                groups = await source.take(n, f"{number:06d}-{refill}")
                assert len(groups) + collector.counts["lost_groups"] - before == n
                for trajectory in (t for g in groups for t in g.trajectories):
                    assert all(collector.version - r.version <= staleness for r in trajectory.samples())
                    used.append(trajectory.id)
            collector.pass_time()
            collector.version += 1
        return used

    used = asyncio.run(iterate())
    assert len(used) == len(set(used)), "a group was used twice"
    assert len(collector.labels) == len(set(collector.labels)), "a label was given twice"
    assert collector.most_open <= max(n for sizes in takes for n in sizes) * (1 + staleness)


class FakeWorkers:
    """Records each request with the learner's version at that time."""

    def __init__(self) -> None:
        self.version = 0
        self.asked: list[tuple[str, int]] = []

    async def rollout(self, tasks, prefix):
        self.asked.append((prefix, self.version))
        version = self.version
        await asyncio.sleep(0.01)
        return [Group(task, (make_trajectory(f"{prefix}-{i}", 1.0, 2, task, version),)) for i, task in enumerate(tasks)]

    def take(self, answers):
        return answers

    def take_lost(self):
        return []


def test_workers_collect_the_next_iteration_during_the_update():
    workers = FakeWorkers()
    source = PipelinedSource(workers, make_sampler(), random.Random(0))

    async def iterate():
        ages = []
        for i in range(1, 5):
            groups = await source.take(3, f"{i}")
            assert len(workers.asked) == i + 1, "the next iteration has been started"
            ages.append({workers.version - s.completion.version for g in groups for s in g.trajectories[0].steps})
            workers.version += 1  # the update
        return ages

    assert asyncio.run(iterate()) == [{0}, {1}, {1}, {1}]
    assert workers.asked == [("1", 0), ("1-ahead", 0), ("2-ahead", 1), ("3-ahead", 2), ("4-ahead", 3)]


class Outage:
    """Gives no groups at first."""

    def __init__(self, empty: int) -> None:
        self.empty, self.labels = empty, []

    async def take(self, n, label, draw):
        self.labels.append(label)
        return [Group(make_task("a"), ())] * n if len(self.labels) > self.empty else []


BROKEN = SimpleNamespace(counts=Counter(), last_fault="connection refused")


def test_a_lasting_outage_ends_the_run(monkeypatch):
    monkeypatch.setattr(source_module, "PAUSE_S", 0.01)
    with pytest.raises(InfraError, match="0.05 s.*connection refused"):
        asyncio.run(take_some(Outage(10**9), 3, "7-0", 0.05, BROKEN))
