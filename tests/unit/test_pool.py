"""The device pool: leases are exclusive and end, failed devices are replaced, and none is left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_env import ScriptedActor, ScriptedEnv, make_task, run

from mobilerl.envs.base import DeviceEvent, Health, InfraError
from mobilerl.envs.pool import DevicePool, FixedDevices, PoolSettings
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings


class ScriptedDevice:
    """Fails where `provider.fault(where, device_id)` says "infra" or "hang"."""

    def __init__(self, provider: ScriptedProvider, device_id: str) -> None:
        self.provider = provider
        self.env = ScriptedEnv(device_id, fault=lambda where, episode: provider.fault(where, device_id))

    async def refresh(self) -> bool:
        await self.provider.suffer("refresh", self.env.device_id)
        return True

    async def check(self) -> Health:
        return Health(self.provider.fault("check", self.env.device_id) == "ok", "sick")

    async def lost(self) -> bool:
        return self.provider.fault("lost", self.env.device_id) != "ok"

    async def destroy(self, failed: bool = False) -> None:
        self.provider.alive.discard(self.env.device_id)
        await self.provider.suffer("destroy", self.env.device_id)


class ScriptedProvider:
    """Keeps account of what exists."""

    replaces = True

    def __init__(self, fault: Callable[[str, str], str] = lambda where, device: "ok") -> None:
        self.fault = fault
        self.alive: set[str] = set()
        self.made: list[str] = []
        self.most = 0

    async def open(self) -> None:
        await self.suffer("open", "")

    async def create(self, number: int, generation: int) -> ScriptedDevice:
        device_id = f"d{number}.{generation}"
        self.made.append(device_id)
        self.alive.add(device_id)
        self.most = max(self.most, len(self.alive))
        await self.suffer("create", device_id)
        return ScriptedDevice(self, device_id)

    def name(self, number: int) -> str:
        return f"d{number}"

    async def wait_for_return(self, number: int) -> None:
        while self.fault("returned", f"d{number}") != "yes":
            await asyncio.sleep(0.01)

    async def discard(self, number: int, failed: bool = True) -> None:
        self.alive = {d for d in self.alive if not d.startswith(f"d{number}.")}

    async def close(self) -> None:
        pass

    async def suffer(self, where: str, device: str) -> None:
        kind = self.fault(where, device)
        if kind == "infra":
            raise InfraError(f"{device}: {where} failed")
        await asyncio.sleep(3600.0 if kind == "hang" else 0.0)


def options(leases: int = 2, **wanted) -> PoolSettings:
    quick = {"boot_s": 60.0, "refresh_s": 60.0, "lease_s": 60.0, "quarantine_s": 0.01, "quarantine_max_s": 0.05}
    return PoolSettings(leases, **(quick | wanted))


async def until_ready(pool: DevicePool, devices: int = 1) -> None:
    async with asyncio.timeout(60):
        while pool.status()["ready"] != devices:
            await asyncio.sleep(0.001)


def test_a_device_is_refreshed_between_leases_while_a_spare_stands_in(monkeypatch):
    provider = ScriptedProvider()
    slow = asyncio.Event()

    async def main():
        pool = DevicePool(provider, options(1, spares=1))
        await pool.start()
        await until_ready(pool, 2)
        first = pool.take()
        assert pool.take() is None, "one lease at a time, with spares too"
        monkeypatch.setattr(ScriptedDevice, "refresh", lambda self: slow.wait())
        pool.give_back(first)
        second = pool.take()  # at once, while the first is being refreshed
        assert second is not None and second is not first
        await asyncio.sleep(0)
        assert pool.status()["refreshing"] == 1
        slow.set()
        await until_ready(pool)
        await pool.close()

    run(main())
    assert not provider.alive and provider.made == ["d0.0", "d1.0"]


def test_a_lease_times_out_and_its_device_is_replaced():
    provider = ScriptedProvider()

    async def main():
        pool = DevicePool(provider, options(1, lease_s=0.02))
        await pool.start()
        lost = pool.take()
        await until_ready(pool)
        assert pool.counts["lease_timeouts"] == 1
        fresh = pool.take()
        pool.give_back(lost, "too late")
        assert pool.status()["leased"] == 1 and fresh.device_id == "d0.1"
        pool.give_back(fresh)
        await pool.close()

    run(main())
    assert not provider.alive


def test_a_failing_device_is_replaced_and_its_place_quarantined():
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


def test_quarantines_double_and_a_success_clears_the_failures(monkeypatch):
    """A device that fails now and then is kept; a place that always fails is tried ever less often."""
    broken, waits = False, []
    provider = ScriptedProvider(lambda where, device: "infra" if broken and where == "create" else "ok")
    sleep, timeout = asyncio.sleep, asyncio.timeout

    def counted(seconds: float) -> asyncio.Timeout:
        if 1.0 <= seconds < 60.0:
            waits.append(seconds)
            seconds = 0.0
        return timeout(seconds)

    async def main():
        nonlocal broken
        pool = DevicePool(provider, options(1, max_failures=2, quarantine_s=1.0, quarantine_max_s=5.0))
        await pool.start()
        for error in ("", "slow", "", "slow", "", "slow"):
            pool.give_back(pool.take(), error)
            await until_ready(pool)
        assert provider.made == ["d0.0"] and pool.counts["quarantines"] == 0
        broken = True
        monkeypatch.setattr(asyncio, "timeout", counted)
        for _ in range(2):
            pool.give_back(pool.take(), "gone") if pool.status()["ready"] else None
            await sleep(0.01)
        while len(waits) < 4:
            await sleep(0.001)
        await pool.close()

    run(main())
    assert waits[:4] == [1.0, 2.0, 4.0, 5.0]


def test_what_happens_to_a_device_is_said_when_it_happens():
    """A fault in an episode, and a device that dies while it waits, cannot be started, and comes back."""
    broken: dict[str, str] = {}
    provider = ScriptedProvider(lambda where, device: broken.get(where, "ok"))
    told: list[DeviceEvent] = []

    async def main():
        pool = DevicePool(provider, options(1, look_every_s=0.01, quarantine_s=50.0, quarantine_max_s=50.0))
        pool.on_event(told.append)
        await pool.start()
        pool.give_back(pool.take(), "a black screen")
        await until_ready(pool)
        assert [str(event) for event in told] == ["device d0 failed: a black screen"]
        pool.give_back(pool.take())
        await until_ready(pool)
        told.clear()
        broken.update({"lost": "infra", "check": "infra", "create": "infra"})
        async with asyncio.timeout(60):
            while len(told) < 2:
                await asyncio.sleep(0.01)
        broken.clear()
        broken["returned"] = "yes"
        await until_ready(pool)
        await pool.close()

    run(main())
    assert [event.kind for event in told] == ["failed", "quarantined", "replaced"]
    assert {event.device for event in told} == {"d0"} and told[0].reason == "d0.0: sick"
    assert "create failed" in told[1].reason and told[1].seconds == 50.0 and told[2].seconds < 50.0


def test_devices_without_a_pool_say_when_they_begin_to_fail_and_when_an_episode_succeeds():
    devices, told = FixedDevices([ScriptedEnv("a"), ScriptedEnv("b")]), []
    devices.on_event(lambda event: told.append(f"{event.device} {event.kind} {event.reason}"))
    for error in ("", "a: it hangs", "a: it hangs", "", ""):
        devices.give_back(devices.take({"b"}), error)
    assert told == ["a failed a: it hangs", "a back "]


@pytest.mark.parametrize("where", ["open", "create", "check"])
def test_a_pool_that_cannot_start_is_an_error_and_leaves_nothing(where):
    provider = ScriptedProvider(lambda at, device: "infra" if at == where else "ok")

    async def main():
        pool = DevicePool(provider, options(3))
        with pytest.raises(InfraError, match="open failed|no device of 3 starts"):
            await pool.start()
        await pool.close()  # as a collector does once more

    run(main())
    assert not provider.alive


def test_a_pool_whose_devices_all_die_gives_up():
    dead = False
    provider = ScriptedProvider(lambda where, device: "infra" if dead else "ok")

    async def main():
        nonlocal dead
        pool = DevicePool(provider, options(2, give_up_s=1.0))
        async with Collector(pool, ScriptedActor(), CollectorSettings(2, max_retries=10**6)) as collector:
            await collector.collect([make_task("a")], "i")
            dead = True
            with pytest.raises(InfraError, match="no device has worked"):
                await collector.collect([make_task("b")], "j")

    run(main())


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 2), st.floats(0, 0.3), st.booleans())
@settings(max_examples=40)
def test_under_any_faults_leases_are_exclusive_and_every_device_is_destroyed(seed, leases, spares, rate, dead):
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
        pool = Watched(provider, options(leases, spares=spares, boot_s=0.05, refresh_s=0.05, lease_s=600.0))
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
