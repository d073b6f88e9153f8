"""Where groups come from, on a fake collector whose groups end late, out of order, or not at all."""

import asyncio
import random
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_groups import make_task, make_trajectory

from envs.base import InfraError
from mobilerl.config import CurriculumSection
from mobilerl.records import Cause, Group, LostGroup
from mobilerl.train import source as source_module
from mobilerl.train.source import Ahead, InTurns, OneAhead, take_some
from mobilerl.train.tasks import TaskSampler


class FakeCollector:
    """A dispatched group is sampled by whatever version is current at some moment before it ends; some are lost."""

    def __init__(self, rng: random.Random, lost_rate: float) -> None:
        self.rng, self.lost_rate = rng, lost_rate
        self.version = 0
        self.counts: Counter[str] = Counter()
        self.lost: list[LostGroup] = []
        self.labels: list[str] = []
        self.open: list[tuple[str, object, int | None]] = []
        """Label, task, and the version it is played with once a device has taken it."""
        self.most_open = 0
        self.published = 0

    async def dispatch(self, task, label, size=None):
        self.labels.append(label)
        self.open.append((label, task, None))
        self.most_open = max(self.most_open, len(self.open))

    def pass_time(self):
        """Devices take some of the groups that wait."""
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

    async def collect(self, tasks, prefix, size=None):
        for i, task in enumerate(tasks):
            await self.dispatch(task, f"{prefix}-{i:03d}")
        return [g async for g in self.ready(len(tasks))]


def make_sampler() -> TaskSampler:
    return TaskSampler([make_task(str(i), f"T{i}") for i in range(4)], CurriculumSection())


@given(
    takes=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=3), min_size=1, max_size=12),
    staleness=st.integers(1, 4),
    lost_rate=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**16),
)
def test_ahead_keeps_its_bounds(takes, staleness, lost_rate, seed):
    """Each inner list is an iteration: a take, then refills; after each iteration a version is published."""
    collector = FakeCollector(random.Random(seed), lost_rate)
    source = Ahead(collector, make_sampler(), random.Random(seed), staleness, lambda: collector.version)

    async def iterate():
        used = []
        for number, sizes in enumerate(takes):
            for refill, n in enumerate(sizes):
                before = collector.counts["lost_groups"]
                groups = await source.take(n, f"{number:06d}-{refill}")
                assert len(groups) + collector.counts["lost_groups"] - before == n
                for trajectory in (t for g in groups for t in g.trajectories):
                    assert all(collector.version - r.version <= staleness for r in trajectory.rows())
                    used.append(trajectory.id)
            collector.pass_time()
            collector.version += 1
        return used

    used = asyncio.run(iterate())
    assert len(used) == len(set(used)), "a group was used twice"
    assert len(collector.labels) == len(set(collector.labels)), "a label was given twice"
    assert collector.most_open <= max(n for sizes in takes for n in sizes) * (1 + staleness)


def test_ahead_fills_the_bound_at_once_and_then_replaces_what_it_took():
    collector = FakeCollector(random.Random(0), 0.0)
    source = Ahead(collector, make_sampler(), random.Random(0), 2, lambda: collector.version)
    asyncio.run(source.take(4, "000001-0"))
    assert len(collector.labels) == 12 and len(collector.open) == 8
    asyncio.run(source.take(4, "000002-0"))
    assert len(collector.labels) == 16 and len(collector.open) == 8


def test_a_group_that_ends_too_late_is_dropped_counted_and_replaced():
    collector = FakeCollector(random.Random(0), 0.0)
    source = Ahead(collector, make_sampler(), random.Random(0), 1, lambda: collector.version)
    asyncio.run(source.take(3, "000001-0"))
    collector.open = [(label, task, 0) for label, task, _ in collector.open]  # played with the first weights
    collector.version = 5
    groups = asyncio.run(source.take(3, "000002-0"))
    assert len(groups) == 3 and collector.counts["stale_groups"] > 0
    assert all(s.completion.version == 5 for g in groups for t in g.trajectories for s in t.steps)


def test_in_turns_dispatches_exactly_what_is_asked_for():
    collector = FakeCollector(random.Random(0), 0.0)
    groups = asyncio.run(InTurns(collector, make_sampler(), random.Random(0)).take(5, "000001-0"))
    assert len(groups) == 5 and not collector.open
    assert collector.labels == [f"000001-0-{i:03d}" for i in range(5)]


class FakeWorkers:
    """Notes what is asked for, and the version that the learner had then."""

    def __init__(self) -> None:
        self.version = 0
        self.asked: list[tuple[str, int]] = []
        self.lost: list[LostGroup] = []

    async def play(self, tasks, prefix):
        self.asked.append((prefix, self.version))
        version = self.version
        await asyncio.sleep(0.01)
        return [Group(task, (make_trajectory(f"{prefix}-{i}", 1.0, 2, task, version),)) for i, task in enumerate(tasks)]

    def take(self, answers):
        return answers


def test_workers_play_the_next_iteration_while_one_is_learned():
    workers = FakeWorkers()
    source = OneAhead(workers, make_sampler(), random.Random(0))

    async def iterate():
        ages = []
        for i in range(1, 5):
            groups = await source.take(3, f"{i}")
            assert len(workers.asked) == i + 1, "the next iteration is played already"
            ages.append({workers.version - s.completion.version for g in groups for s in g.trajectories[0].steps})
            workers.version += 1  # what learning does
        return ages

    assert asyncio.run(iterate()) == [{0}, {1}, {1}, {1}]
    assert workers.asked == [("1", 0), ("1-ahead", 0), ("2-ahead", 1), ("3-ahead", 2), ("4-ahead", 3)]


class Outage:
    """Gives nothing for a while."""

    def __init__(self, empty: int) -> None:
        self.empty, self.labels = empty, []

    async def take(self, n, label):
        self.labels.append(label)
        return [Group(make_task("a"), ())] * n if len(self.labels) > self.empty else []


BROKEN = SimpleNamespace(counts=Counter(), last_fault="connection refused")


def test_what_was_lost_as_a_whole_is_collected_again(monkeypatch, caplog):
    monkeypatch.setattr(source_module, "PAUSE_S", 0.01)
    source = Outage(2)
    assert len(asyncio.run(take_some(source, 3, "7-0", 60.0, BROKEN))) == 3
    assert source.labels == ["7-0", "7-0-again1", "7-0-again2"], "no label comes twice"
    assert "connection refused" in caplog.text


def test_devices_that_stay_away_end_the_run(monkeypatch):
    monkeypatch.setattr(source_module, "PAUSE_S", 0.01)
    with pytest.raises(InfraError, match="no episode could be used for 0.05 s; the last said: connection refused"):
        asyncio.run(take_some(Outage(10**9), 3, "7-0", 0.05, BROKEN))


def test_a_long_collection_that_gave_nothing_is_tried_again_before_the_run_ends(monkeypatch):
    monkeypatch.setattr(source_module, "PAUSE_S", 0.01)

    class Slow(Outage):
        async def take(self, n, label):
            await asyncio.sleep(0.2)
            return await super().take(n, label)

    assert len(asyncio.run(take_some(Slow(1), 3, "7-0", 0.1, BROKEN))) == 3


def test_a_run_whose_episodes_end_goes_on_though_its_groups_were_too_small(monkeypatch):
    """Also where they end between two collections, and the second finds its groups lost at once."""
    players = SimpleNamespace(counts=Counter(), last_fault="connection refused")

    async def sleep(seconds):
        players.counts["finished"] += 1
        moments[0] += seconds

    moments = [0.0]
    monkeypatch.setattr(source_module, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(source_module, "time", SimpleNamespace(monotonic=lambda: moments[0]))
    assert len(asyncio.run(take_some(Outage(6), 3, "7-0", 15.0, players))) == 3
    assert moments[0] > 15.0
