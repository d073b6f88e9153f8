"""Evaluations on stand-ins for AndroidWorld's server: fixtures and helpers of the tests."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from androidworld_expert import ExpertActor
from androidworld_server import StandIn, in_process

from mobilerl.cli import evaluate as eval_command
from mobilerl.envs.androidworld import access, startup
from mobilerl.envs.androidworld.startup import Address
from mobilerl.envs.live_device import Settle
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.eval.policies import EvalPolicy
from mobilerl.suites.androidworld.evaluation import evaluate
from mobilerl.suites.androidworld.servers import RunningServers

DOING, ANSWERING, FREELY, COMPOSITE = (
    "ContactsAddContact",
    "NotesIsTodo",
    "SystemWifiTurnOnVerify",
    "TurnOnWifiAndOpenApp",
)
FEW = (DOING, ANSWERING, FREELY, COMPOSITE)


@pytest.fixture(name="stand_ins")
def stand_ins_fixture():
    made: list[StandIn] = []

    def make(transport=None, **options) -> StandIn:
        made.append(StandIn(transport or in_process(), **options).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture(name="local_phones")
def local_phones_fixture(monkeypatch, stand_ins):
    """Stand-ins whose phones are driven as over adb, but in this process; any serial will do."""
    servers: dict[str, StandIn] = {}

    def make(**options) -> StandIn:
        server = stand_ins(**options)
        servers[server.url] = server
        return server

    def make_access(address, client):
        return access.AdbAccess(servers[address.url].transport, APP_NAMES, Settle(0.0, 0.0))

    monkeypatch.setattr(startup, "make_access", make_access)
    return make


def servers_at(*stand_ins: StandIn) -> RunningServers:
    """With a serial each, as over adb."""
    return RunningServers([Address(s.url, str(s.port)) for s in stand_ins])


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    eval_command.add(parser.add_subparsers(), argparse.ArgumentParser(add_help=False))
    args, rest = parser.parse_known_args(["eval", "androidworld", *words])
    return args.run(args, rest)


def templates(*names: str) -> list[str]:
    return [word for name in names for word in ("--template", name)]


def results_in(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def play(servers, out, plan, unfinished=(), agent=None, heard=None):
    """An evaluation with the experts of the embedded phone."""
    policy = EvalPolicy(agent or ExpertActor(servers, unfinished), {"agent": "the stand-in's expert"})
    return evaluate(servers_at(*servers), plan, policy, out, ([] if heard is None else heard).append)
