"""Faults on demand: by seed, of the kind asked for, and never a reward of zero."""

from __future__ import annotations

import asyncio
import io

import pytest
from PIL import Image
from scripted_env import run

from envs.base import InfraError
from envs.device import Device, is_black
from envs.health import examine
from envs.phone.apps.catalogue import APPS
from envs.phone.env import PhoneEnv
from envs.phone.faults import ONLY, Fault, FaultPlan, FaultSettings, FaultyTransport
from envs.phone.phone import Phone
from envs.phone.tasks.suite import train_tasks
from envs.phone.transport import InProcessTransport
from envs.pool import FixedDevices
from mobilerl.eval.agents import ExpertActor
from mobilerl.rollout.collector import Collector, CollectorSettings

TASKS = [t for t in train_tasks(1)[::8] if t.feasible]


def faulty(kind: Fault, rate: float = 1.0, seed: int = 0) -> FaultyTransport:
    phone = Phone(APPS)
    plan = FaultPlan(FaultSettings(rate, (kind,), seed, slow_s=0.0), "phone")
    return FaultyTransport(InProcessTransport(phone), plan, phone.boot)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("envs.retry.time.sleep", lambda seconds: None)


def test_a_plan_is_repeatable_and_keeps_its_rate():
    def plan(name, lines):
        made = FaultPlan(FaultSettings(0.1, seed=7), name)
        return [made.next(line) for line in lines]

    lines = ["input tap 1 1", "screencap -p", "uiautomator dump"] * 2000
    first = plan("a", lines)
    assert first == plan("a", lines) != plan("b", lines)
    struck = [f for f in first if f]
    assert 500 < len(struck) < 700 and set(struck) == set(Fault)
    assert all(command in line for line, f in zip(lines, first, strict=True) for k, command in ONLY.items() if f is k)
    # What strikes one phone's nth command does not depend on what the commands before it were.
    assert [bool(f) for f in plan("a", ["getprop"] * 6000)] == [bool(f) for f in first]


@pytest.mark.parametrize(("kind", "says"), [
    (Fault.OFFLINE, "offline"), (Fault.HANG, "no answer"), (Fault.CRASH, "offline"), (Fault.REBOOT, "closed"),
    (Fault.BLACK, "black"), (Fault.TRUNCATED, "no tree"),
])  # fmt: skip
def test_every_fault_is_an_infrastructure_error(kind, says):
    device = Device(faulty(kind))
    with pytest.raises(InfraError, match=says):
        device.dump_xml() if kind is Fault.TRUNCATED else device.screenshot()


def test_looking_is_tried_again_and_acting_is_not():
    transport = faulty(Fault.OFFLINE, rate=0.3, seed=4)
    device = Device(transport)
    assert all(device.dump_xml().endswith("</hierarchy>") for _ in range(15)) and transport.plan.counts[Fault.OFFLINE]
    before = sum(transport.plan.counts.values())
    with pytest.raises(InfraError):
        for _ in range(50):
            device.home()
    assert sum(transport.plan.counts.values()) == before + 1


def test_a_phone_that_rebooted_unseen_is_no_failure_of_the_agent():
    async def main():
        env = PhoneEnv()
        await env.reset(TASKS[0])
        env._transport.phone.boot()
        with pytest.raises(InfraError, match="rebooted in the middle"):
            await env.score()

    run(main())


def test_health_finds_a_sick_phone():
    phone = Phone(APPS)
    assert examine(Device(InProcessTransport(phone))).ok
    phone.files["/sdcard/big"] = b"x" * (1 << 20)
    assert examine(Device(InProcessTransport(phone))).ok
    for kind, says in ((Fault.BLACK, "black"), (Fault.HANG, "no answer")):
        assert says in examine(Device(faulty(kind))).reason


@pytest.mark.parametrize(("colour", "black"), [((0, 0, 0), True), ((5, 5, 5), True), ((40, 40, 40), False)])
def test_black_is_black(colour, black):
    png = io.BytesIO()
    Image.new("RGB", (1080, 2400), colour).save(png, "PNG")
    assert is_black(png.getvalue()) is black


def test_the_success_rate_is_that_of_phones_without_faults():
    """Every command of four phones fails with 8 %; experts must still solve everything, and nothing is lost."""
    settings = FaultSettings(0.08, seed=3, slow_s=0.0)

    def phone(i: int) -> PhoneEnv:
        made = Phone(APPS)
        transport = FaultyTransport(InProcessTransport(made, f"d{i}"), FaultPlan(settings, f"d{i}"), made.boot)
        return PhoneEnv(f"d{i}", screenshots=False, transport=transport)

    class Reviving(FixedDevices):
        def give_back(self, env, error=""):
            env._transport.revive()
            super().give_back(env, error)

    envs = [phone(i) for i in range(4)]

    async def main():
        async with Collector(Reviving(envs), ExpertActor(envs), CollectorSettings(2, max_retries=50)) as collector:
            return await collector.collect(TASKS, "i"), collector.counts

    groups, counts = asyncio.run(main())
    played = [t for g in groups for t in g.trajectories]
    assert len(played) == 2 * len(TASKS) and counts["failed"] == 0 and counts["lost_groups"] == 0
    assert all(t.reward == 1.0 for t in played), [t.task.id for t in played if t.reward < 1]
    struck = sum(sum(env._transport.plan.counts.values()) for env in envs)
    assert counts["infra_errors"] >= 1 and struck > 20
