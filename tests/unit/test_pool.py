"""The device pool: leases are exclusive and end, what fails is mended or replaced, and nothing is left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_env import ScriptedActor, ScriptedEnv, make_task, run

from envs.base import Health, InfraError
from envs.pool import DevicePool, FixedDevices, PoolSettings
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings


class ScriptedDevice:
    """Fails where `provider.fault(where, device_id)` says "infra", "hang" or "mistake"; where is refresh, check or
    destroy."""

    def __init__(self, provider: ScriptedProvider, device_id: str) -> None:
        self.provider = provider
        self.env = ScriptedEnv(device_id, fault=lambda where, episode: provider.fault(where, device_id))

    async def refresh(self) -> bool:
        await self.provider.suffer("refresh", self.env.device_id)
        return self.provider.fault("used up", self.env.device_id) == "ok"

    async def check(self) -> Health:
        return Health(self.provider.fault("check", self.env.device_id) == "ok", "sick")

    async def destroy(self, failed: bool = False) -> None:
        self.provider.ended[self.env.device_id] = failed
        self.provider.alive.discard(self.env.device_id)
        await self.provider.suffer("destroy", self.env.device_id)


class ScriptedProvider:
    """Keeps account of what exists."""

    def __init__(self, fault: Callable[[str, str], str] = lambda where, device: "ok") -> None:
        self.fault = fault
        self.alive: set[str] = set()
        self.made: list[str] = []
        self.ended: dict[str, bool] = {}
        """By device, or by place where none was made: whether it was destroyed because it had failed."""
        self.most = self.closed = 0

    async def open(self) -> None:
        await self.suffer("open", "")

    async def create(self, number: int, generation: int) -> ScriptedDevice:
        device_id = f"d{number}.{generation}"
        self.made.append(device_id)
        self.alive.add(device_id)
        self.most = max(self.most, len(self.alive))
        await self.suffer("create", device_id)
        return ScriptedDevice(self, device_id)

    async def discard(self, number: int, failed: bool = True) -> None:
        self.ended[f"d{number}"] = failed
        self.alive = {d for d in self.alive if not d.startswith(f"d{number}.")}

    async def close(self) -> None:
        self.closed += 1
        await self.suffer("close", "")

    async def suffer(self, where: str, device: str) -> None:
        kind = self.fault(where, device)
        if kind == "infra":
            raise InfraError(f"{device}: {where} failed")
        if kind == "mistake":
            raise OSError("no space left")
        await asyncio.sleep(3600.0 if kind == "hang" else 0.0)


def options(leases: int = 2, **wanted) -> PoolSettings:
    quick = {"boot_s": 0.05, "refresh_s": 0.05, "lease_s": 5.0, "quarantine_s": 0.01, "quarantine_max_s": 0.05}
    return PoolSettings(leases, **(quick | wanted))


async def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.001)


def test_a_device_is_refreshed_between_leases_while_a_spare_stands_in():
    provider = ScriptedProvider()
    slow = asyncio.Event()

    async def main():
        pool = DevicePool(provider, options(1, spares=1))
        await pool.start()
        await until(lambda: pool.status()["ready"] == 2)
        first = pool.take()
        assert pool.take() is None, "one lease at a time, whatever the spares"
        refreshed, ScriptedDevice.refresh = ScriptedDevice.refresh, lambda self: slow.wait()
        try:
            pool.give_back(first)
            second = pool.take()  # at once, while the first is being refreshed
            assert second is not None and second is not first
            await asyncio.sleep(0)
            assert pool.status()["refreshing"] == 1
            slow.set()
            await until(lambda: pool.status()["ready"] == 1)
        finally:
            ScriptedDevice.refresh = refreshed
        await pool.close()

    run(main())
    assert not provider.alive and provider.made == ["d0.0", "d1.0"]


def test_a_lease_that_is_not_given_back_ends_and_its_device_is_replaced():
    provider = ScriptedProvider()

    async def main():
        pool = DevicePool(provider, options(1, lease_s=0.02))
        await pool.start()
        lost = pool.take()
        await until(lambda: pool.status()["ready"] == 1)
        assert pool.counts["lease_timeouts"] == 1
        fresh = pool.take()
        pool.give_back(lost, "too late")
        assert pool.status()["leased"] == 1 and fresh.device_id == "d0.1"
        pool.give_back(fresh)
        await pool.close()

    run(main())
    assert not provider.alive


def test_a_device_that_keeps_failing_is_replaced_and_its_place_quarantined_longer_each_time():
    provider = ScriptedProvider(lambda where, device: "infra" if where == "step" and device[:2] == "d1" else "ok")

    async def main():
        pool = DevicePool(provider, options(2, max_failures=2))
        collector = Collector(pool, ScriptedActor(), CollectorSettings(8, max_retries=20))
        async with collector:
            groups = await collector.collect([make_task(n) for n in "abcdefgh"], "i")
            return groups, pool.counts

    groups, counts = run(main())
    assert len(groups) == 8 and all(len(g.trajectories) == 8 for g in groups)
    assert {t.device_id for g in groups for t in g.trajectories} == {"d0.0"}
    assert counts["failures"] >= 2 and counts["replaced"] == counts["quarantines"] == counts["failures"] - 1
    assert not provider.alive


def test_a_device_for_one_episode_is_replaced_without_counting_as_a_failure():
    provider = ScriptedProvider(lambda where, device: "infra" if where == "used up" else "ok")

    async def main():
        pool = DevicePool(provider, options(2, spares=1))
        async with Collector(pool, ScriptedActor(), CollectorSettings(4)) as collector:
            groups = await collector.collect([make_task(n) for n in "abc"], "i")
        return groups, pool.counts

    groups, counts = run(main())
    devices = [t.device_id for g in groups for t in g.trajectories]
    assert len(devices) == len(set(devices)) == 12
    assert counts["failures"] == counts["replaced"] == 0 and counts["renewed"] >= 12 - 3 and not provider.alive


def test_a_device_for_one_episode_that_failed_in_it_counts_as_replaced():
    provider = ScriptedProvider(lambda where, device: "infra" if where == "used up" else "ok")

    async def main():
        pool = DevicePool(provider, options(1))
        await pool.start()
        for error in ("", "black screen", ""):
            await until(lambda: pool.status()["ready"] == 1)
            pool.give_back(pool.take(), error)
        await until(lambda: pool.status()["ready"] == 1)
        status = pool.status()
        await pool.close()
        return status

    status = run(main())
    assert (status["created"], status["renewed"], status["replaced"], status["failures"]) == (4, 2, 1, 1)


def test_a_device_that_dies_while_it_waits_is_replaced_before_it_is_leased():
    dead: set[str] = set()
    provider = ScriptedProvider(lambda where, device: "infra" if device in dead else "ok")

    async def main():
        pool = DevicePool(provider, options(1, check_every_s=0.01))
        await pool.start()
        dead.add("d0.0")
        await until(lambda: pool.take(["d0.0"]) is not None)
        await pool.close()

    run(main())
    assert not provider.alive


def test_what_cannot_start_is_said_at_once_and_leaves_nothing():
    for where in ("open", "create", "check"):
        provider = ScriptedProvider(lambda at, device, where=where: "infra" if at == where else "ok")

        async def main(provider=provider):
            pool = DevicePool(provider, options(3))
            with pytest.raises(InfraError, match="open failed|no device of 3 starts"):
                await pool.start()
            await pool.close()  # as a collector does once more

        run(main())
        assert not provider.alive


def test_a_pool_whose_devices_all_die_gives_up_instead_of_waiting_for_ever():
    dead = False
    provider = ScriptedProvider(lambda where, device: "infra" if dead else "ok")

    async def main():
        nonlocal dead
        pool = DevicePool(provider, options(2, give_up_s=0.05))
        async with Collector(pool, ScriptedActor(), CollectorSettings(2, max_retries=10**6)) as collector:
            await collector.collect([make_task("a")], "i")
            dead = True
            with pytest.raises(InfraError, match="no device has worked for 0.05 s; the last said"):
                await collector.collect([make_task("b")], "j")

    run(main())


def test_a_device_that_dies_at_the_end_of_a_long_episode_worked_until_then(monkeypatch):
    """`give_up_s` begins with the episode's end: a moment's outage after it is no reason to give up."""
    now = 0.0
    monkeypatch.setattr("envs.pool.pool._now", lambda: now)
    dead = False
    provider = ScriptedProvider(lambda where, device: "infra" if dead else "ok")

    async def main():
        nonlocal dead, now
        pool = DevicePool(provider, options(1, give_up_s=2.0))
        await pool.start()
        env = pool.take()
        now += 3.0
        dead = True
        pool.give_back(env, "the container is gone")
        await until(lambda: pool.counts["quarantines"] >= 2)
        assert pool.failure is None
        dead = False
        await until(lambda: pool.take() is not None)
        await pool.close()

    run(main())


def test_a_place_that_fails_for_weeks_ends_nothing():
    provider = ScriptedProvider(lambda where, device: "infra" if device[:2] == "d1" else "ok")

    async def main():
        pool = DevicePool(provider, options(2, quarantine_s=1e-300, quarantine_max_s=0.0))
        await pool.start()
        pool._places[1].failures = 2000
        await until(lambda: pool._places[1].failures > 2005)
        assert pool.failure is None
        await pool.close()

    run(main())


def test_a_failed_device_says_so_when_it_is_destroyed():
    """Then its last words are kept: they are wanted of a lease without an end too, and of no device that was well."""
    where = {"d1.0": "used up", "d2.0": "refresh", "d3.0": "create", "d4.0": "check"}
    provider = ScriptedProvider(lambda at, device: "hang" if where.get(device) == at else "ok")

    async def main():
        pool = DevicePool(provider, options(5, lease_s=0.05))
        await pool.start()
        await until(lambda: pool.status()["ready"] == 5)
        for env in [pool.take() for _ in range(5)]:
            if env.device_id != "d0.0":
                pool.give_back(env)
        await until(lambda: pool.status()["ready"] == 5)
        failed = dict(provider.ended)
        await pool.close()
        return failed

    failed = run(main())
    assert failed == {"d0.0": True, "d1.0": False, "d2.0": True, "d3": True, "d4.0": True}
    assert not provider.ended["d0.1"] and not provider.alive


def test_a_device_that_is_starting_when_the_pool_closes_has_not_failed():
    provider = ScriptedProvider(lambda where, device: "hang" if device == "d1.0" else "ok")

    async def main():
        pool = DevicePool(provider, options(2, boot_s=60.0))
        await pool.start()
        await until(lambda: "d1.0" in provider.made)
        await pool.close()

    run(main())
    assert provider.ended == {"d0.0": False, "d1": False}


def test_a_job_does_not_wait_for_a_place_that_only_fails():
    """It is played again on the device that it failed on, at once and not when that one is examined."""
    failed: list[str] = []

    def fault(where: str, device: str) -> str:
        if device == "d0.0" and where == "step" and not failed:
            failed.append(device)
            return "infra"
        return {"d1.0": "infra", "d1.1": "hang"}.get(device, "ok") if where == "create" else "ok"

    async def main():
        long = {"boot_s": 60.0, "quarantine_s": 60.0, "quarantine_max_s": 60.0}
        pool = DevicePool(ScriptedProvider(fault), options(2, max_failures=2, **long))
        async with Collector(pool, ScriptedActor(), CollectorSettings(1, max_retries=1)) as collector:
            async with asyncio.timeout(60):
                return await collector.collect([make_task("a")], "i")

    (group,) = run(main())
    assert [t.device_id for t in group.trajectories] == ["d0.0"]


@pytest.mark.parametrize("max_failures", [1, 3])
def test_whoever_waits_for_a_place_is_told_when_its_boot_fails(max_failures):
    provider = ScriptedProvider()
    fails = asyncio.Event()

    async def create(number, generation):
        if number == 0:
            return await ScriptedProvider.create(provider, number, generation)
        await fails.wait() if generation == 0 else await asyncio.sleep(60.0)
        raise InfraError("no KVM")

    provider.create = create

    async def main():
        long = {"boot_s": 60.0, "quarantine_s": 60.0, "quarantine_max_s": 60.0}
        pool = DevicePool(provider, options(2, max_failures=max_failures, **long))
        await pool.start()
        told = asyncio.Event()
        pool.changed = told.set
        assert pool.take(["d0.0"]) is None, "the other device is starting"
        fails.set()
        async with asyncio.timeout(50):  # less than what quarantine and boot take
            await told.wait()
        assert pool.take(["d0.0"]).device_id == "d0.0"
        await pool.close()

    run(main())


def test_a_mistake_in_one_device_keeps_the_pool_from_closing_nothing_else():
    provider = ScriptedProvider(lambda at, device: "mistake" if (at, device) == ("destroy", "d0.0") else "ok")

    async def main():
        pool = DevicePool(provider, options(3))
        await pool.start()
        await until(lambda: pool.status()["ready"] == 3)
        with pytest.raises(OSError, match="no space left"):
            await pool.close()

    run(main())
    assert provider.closed == 1 and provider.ended.keys() == {"d0.0", "d1.0", "d2.0"}


def test_a_mistake_in_the_provider_is_raised_and_not_retried():
    class Broken(ScriptedProvider):
        async def create(self, number, generation):
            raise KeyError("a mistake")

    with pytest.raises(KeyError, match="a mistake"):
        run(DevicePool(Broken(), options()).start())


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 2), st.floats(0, 0.3), st.booleans())
@settings(max_examples=40)
def test_whatever_fails_leases_are_exclusive_and_every_device_is_destroyed(seed, leases, spares, rate, dead):
    """Also when the second place is dead: it never has a device."""
    rng = random.Random(seed)
    places = ("create", "refresh", "check", "reset", "step", "score", "destroy")

    def fault(where: str, device: str) -> str:
        fails = where == "create" if dead and device.startswith("d1.") else where in places and rng.random() < rate
        return rng.choice(("infra", "hang")) if fails else "ok"

    provider = ScriptedProvider(fault)
    held: set[str] = set()

    class Watched(DevicePool):
        def take(self, avoid=()):
            env = super().take(avoid)
            if env is not None:
                assert env.device_id not in held and env.device_id in provider.alive
                held.add(env.device_id)
                assert len(held) <= leases
            return env

        def give_back(self, env, error=""):
            held.discard(env.device_id)
            super().give_back(env, error)

    async def main():
        pool = Watched(provider, options(leases, spares=spares, lease_s=600.0))
        episode = EpisodeSettings(deadline_s=0.03)
        async with Collector(pool, ScriptedActor(), CollectorSettings(3, 10**6, episode=episode)) as collector:
            groups = await collector.collect([make_task(n) for n in "abcd"], "i")
            assert [len(g.trajectories) for g in groups] == [3] * 4
            assert all(t.reward == 1.0 for g in groups for t in g.trajectories)

    try:
        run(main())
    except InfraError as error:  # every device failed to start on its first try
        assert "starts" in str(error)
    assert not provider.alive
    assert provider.most <= leases + spares


def test_a_report_says_where_the_time_of_every_place_went_and_what_failed():
    sick = {"d1.0"}
    provider = ScriptedProvider(lambda where, device: "infra" if where == "refresh" and device in sick else "ok")

    async def main():
        pool = DevicePool(provider, options(2, quarantine_s=0.01))
        await pool.start()
        await until(lambda: pool.status()["ready"] == 2)
        for env in (pool.take(), pool.take()):
            await asyncio.sleep(0.02)
            pool.give_back(env)
        await until(lambda: pool.status()["ready"] == 2)
        zero, one = pool.report()
        await pool.close()
        return zero, one

    zero, one = run(main())
    assert (zero.place, zero.device_id, zero.state, zero.faults, zero.reason) == ("0", "d0.0", "ready", 0, "")
    assert (one.place, one.device_id, one.faults, one.reason) == ("1", "d1.1", 1, "d1.0: refresh failed")
    assert zero.seconds["leased"] >= 0.02 and one.seconds["leased"] >= 0.02
    assert set(one.seconds) >= {"starting", "ready", "leased", "refreshing"}


def test_fixed_devices_report_their_leases_and_faults():
    devices = FixedDevices([ScriptedEnv("a"), ScriptedEnv("b")])
    env = devices.take()
    before = {report.place: report for report in devices.report()}
    devices.give_back(env, "black screen")
    devices.give_back(devices.take(["b"]), "offline")
    after = {report.place: report for report in devices.report()}
    assert (before["a"].state, after["a"].state, after["b"].state) == ("leased", "ready", "ready")
    assert (after["a"].faults, after["a"].reason) == (2, "offline")
    assert (after["b"].faults, after["b"].reason) == (0, "")
    assert after["a"].seconds["leased"] > 0 and "leased" not in after["b"].seconds
