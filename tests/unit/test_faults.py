"""Faults on demand: by seed, of the kind asked for, and never a reward of zero."""

from __future__ import annotations

import pytest
from faulty_transport import FaultyTransport
from scripted_env import run

from mobilerl.envs.base import InfraError
from mobilerl.envs.device import Device
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.faults import ONLY, Fault, FaultPlan, FaultSettings
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.tasks.suite import train_tasks
from mobilerl.envs.phone.transport import InProcessTransport


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


def test_looking_is_tried_again_and_acting_is_not(monkeypatch):
    monkeypatch.setattr("mobilerl.envs.retry.time.sleep", lambda seconds: None)
    phone = Phone(APPS)
    plan = FaultPlan(FaultSettings(0.3, (Fault.OFFLINE,), 4, slow_s=0.0), "phone")
    transport = FaultyTransport(InProcessTransport(phone), plan, phone.boot)
    device = Device(transport)
    assert all(device.dump_xml().endswith("</hierarchy>") for _ in range(15)) and transport.plan.counts[Fault.OFFLINE]
    before = sum(transport.plan.counts.values())
    with pytest.raises(InfraError):
        for _ in range(50):
            device.home()
    assert sum(transport.plan.counts.values()) == before + 1


def test_a_reboot_during_an_episode_is_an_infrastructure_error():
    async def main():
        env = PhoneEnv()
        await env.reset(train_tasks(1)[0])
        env._transport.phone.boot()
        with pytest.raises(InfraError, match="rebooted in the middle"):
            await env.score()

    run(main())
