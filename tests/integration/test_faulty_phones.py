"""Served phones that fail on purpose, a dead adb server and the emulator console, through the real adb server."""

from __future__ import annotations

import asyncio
import re
import time

import pytest

from mobilerl.envs.base import InfraError
from mobilerl.envs.console import Console
from mobilerl.envs.device import Device
from mobilerl.envs.phone.console import Console as PhoneConsole
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.faults import Fault, FaultPlan, FaultSettings
from mobilerl.envs.phone.tasks.suite import train_tasks
from mobilerl.envs.pool import DevicePool, PoolSettings
from mobilerl.envs.pool.adb import AdbProvider
from mobilerl.envs.pool.adb import AdbServer as Where
from mobilerl.eval.agents import ExpertActor
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

COMMAND_S = 4.0
"""Far more than a phone that answers takes, also on a busy machine."""


def plan(rate: float, *kinds: Fault, seed: int = 0) -> FaultPlan:
    return FaultPlan(FaultSettings(rate, kinds or tuple(Fault), seed, offline_s=0.2, slow_s=0.1), f"p{seed}")


@pytest.mark.parametrize("kind", [Fault.CRASH, Fault.TRUNCATED, Fault.HANG, Fault.BLACK])
def test_each_fault_reaches_the_driver_as_an_infrastructure_error(adb, phones, kind):
    phone = phones()
    transport = adb.transport(phone.serial)
    transport.connect()
    device = Device(transport, timeout_s=COMMAND_S)
    assert device.foreground_package()
    phone.faults = plan(1.0, kind)
    began = time.monotonic()
    with pytest.raises(InfraError):
        device.dump_xml() if kind is Fault.TRUNCATED else device.screenshot()
    assert time.monotonic() - began < 60
    phone.faults = None
    if kind is Fault.CRASH:
        assert phone.crashed.is_set()
        with pytest.raises(InfraError):
            device.foreground_package()
    else:
        until = time.monotonic() + 60
        while not answers(device):  # connected again without being asked to
            assert time.monotonic() < until


def answers(device: Device) -> bool:
    try:
        return bool(device.foreground_package())
    except InfraError:
        return False


def pool_of(adb, serials) -> tuple[DevicePool, list[PhoneEnv]]:
    envs: list[PhoneEnv] = []

    def make(device_id, transport):
        envs.append(PhoneEnv(device_id, screenshots=False, transport=transport, timeout_s=COMMAND_S))
        return envs[-1]

    provider = AdbProvider(serials, make, Where("127.0.0.1", adb.port))
    settings = PoolSettings(
        len(serials), 0, boot_s=60.0, refresh_s=60.0, quarantine_s=0.2, quarantine_max_s=1.0, give_up_s=300.0
    )
    return DevicePool(provider, settings), envs


def play(pool, envs, tasks, meanwhile=None):
    async def main():
        settings = CollectorSettings(2, 100, episode=EpisodeSettings(deadline_s=300.0))
        async with Collector(pool, ExpertActor(envs), settings) as collector:
            if meanwhile is not None:
                asyncio.get_running_loop().run_in_executor(None, meanwhile)
            return await collector.collect(tasks, "i"), collector.counts

    return asyncio.run(main())


TASKS = [t for t in train_tasks(1)[::10] if t.feasible][:6]


def test_a_pool_of_failing_phones_loses_nothing(adb, phones):
    """Every fault but the crash, from which a served phone does not come back."""
    kinds = tuple(k for k in Fault if k is not Fault.CRASH)
    served = [phones(faults=plan(0.04, *kinds, seed=i)) for i in range(4)]
    pool, envs = pool_of(adb, [p.serial for p in served])
    groups, counts = play(pool, envs, TASKS)
    played = [t for g in groups for t in g.trajectories]
    assert len(played) == 2 * len(TASKS) and counts["lost_groups"] == 0
    assert all(t.reward == 1.0 for t in played)
    assert sum(sum(p.faults.counts.values()) for p in served) > 10


def test_the_adb_server_is_killed_in_the_middle(adb, phones):
    served = [phones() for _ in range(3)]
    pool, envs = pool_of(adb, [p.serial for p in served])

    def kill() -> None:
        time.sleep(0.5)
        adb.kill()
        time.sleep(0.5)
        adb.start()

    groups, counts = play(pool, envs, TASKS * 4, meanwhile=kill)
    assert counts["lost_groups"] == 0 and all(t.reward == 1.0 for g in groups for t in g.trajectories)


def test_the_console(phones):
    phone = phones()
    console = PhoneConsole(phone.phone, phone.exclusive, token="s3cret", kill=phone.die)

    async def start() -> int:
        return await console.start(0)

    port = phones.run(start)
    ours = Console("127.0.0.1", port, "s3cret", timeout_s=30)
    assert ours.command("avd name") == "mobilerl_phone"
    assert re.search(r"^--\s+default_boot\s+75M", ours.command("avd snapshot list"), re.MULTILINE)

    messages = phone.phone.app("Messages")
    before = len(messages.db["messages"])
    ours.command('sms send 555-0100 Meet at "noon"; $(reboot)')
    assert messages.db["messages"][-1]["body"] == 'Meet at "noon"; $(reboot)' and len(messages.db["messages"]) > before
    ours.command("geo fix -122.156 37.438")
    assert "37.438000,-122.156000" in phone.shell.run("dumpsys location").stdout.decode()
    ours.command("avd snapshot load default_boot")
    assert len(phone.phone.app("Messages").db["messages"]) == before
    assert phone.phone.location != (-122.156, 37.438)

    for wrong, says in (("avd snapshot load nosuch", "does not exist"), ("frobnicate", "unknown command")):
        with pytest.raises(InfraError, match=f"KO: .*{says}"):
            ours.command(wrong)
    with pytest.raises(InfraError, match="authentication token mismatch"):
        Console("127.0.0.1", port, "wrong", timeout_s=30).command("ping")
    ours.command("kill")
    phones.run(phone.crashed.wait)
    phones.loop.call_soon_threadsafe(console.stop)
