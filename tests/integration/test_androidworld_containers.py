"""AndroidWorld in a pool's containers, on a real Docker Engine, with a stand-in for AndroidWorld in each container.

AndroidWorld itself, and an emulator, cannot run here: behind the server is an embedded phone.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from androidworld_expert import ExpertActor, same_suite
from androidworld_server import StandIn
from docker_engine import IMAGE, ROOT

from mobilerl.config import Recipe, load_recipe
from mobilerl.envs.androidworld import containers, startup
from mobilerl.envs.androidworld.startup import StartupError
from mobilerl.envs.docker_avd import LABEL
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.eval.policies import EvalPolicy
from mobilerl.policy.actor import Decision
from mobilerl.suites import fleet
from mobilerl.suites.androidworld.evaluation import Plan, evaluate
from mobilerl.suites.androidworld.servers import StartedContainers
from mobilerl.suites.base import make_suite

pytestmark = pytest.mark.slow
WORLD = "mobilerl-androidworld-test"
DOING, ANSWERING, FREELY = "ContactsAddContact", "NotesIsTodo", "SystemWifiTurnOnVerify"


def docker(*words: object, check: bool = True) -> str:
    done = subprocess.run(["docker", *map(str, words)], capture_output=True, text=True, timeout=300)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image(docker_engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The ports of docker/androidworld, with stand-ins behind them."""
    folder = tmp_path_factory.mktemp("image")
    program = folder / "opt/mobilerl"
    program.mkdir(parents=True)
    for name in ("http_stand_in", "integration/androidworld_server", "integration/androidworld_container"):
        source = ROOT / f"tests/{name}.py"
        (program / source.name).write_text(source.read_text())
    folder.chmod(0o755)  # it becomes the container's root, which is not run by root
    container = docker("create", IMAGE)
    docker("cp", f"{folder}/.", f"{container}:/")
    changes = ['ENTRYPOINT ["python3", "androidworld_container.py"]', "EXPOSE 5000 5556", "HEALTHCHECK NONE"]
    docker("commit", *(word for change in changes for word in ("--change", change)), container, WORLD)
    docker("rm", container)
    yield WORLD
    docker("image", "rm", "-f", WORLD, check=False)


@pytest.fixture(autouse=True)
def _apps_of_the_phone(monkeypatch):
    monkeypatch.setattr(startup, "APPS", APP_NAMES)
    monkeypatch.setattr(containers, "APPS", APP_NAMES)


@pytest.fixture(autouse=True)
def _adb_server(adb, monkeypatch):
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(adb.port))


@pytest.fixture(autouse=True)
def _impatient_pool(monkeypatch):
    made = fleet.pool_settings
    monkeypatch.setattr(fleet, "pool_settings", lambda *args: replace(made(*args), quarantine_s=0.5, check_every_s=2.0))


def running(fleet: str, place: int | None = None) -> list[str]:
    which = ["--filter", f"label=mobilerl.place={place}"] if place is not None else []
    return docker("ps", "-q", "--filter", f"label={LABEL}={fleet}", *which).split()


def settings(name: str, **wanted: object) -> list[str]:
    given = {"fleet.image": WORLD, "fleet.name": name, "fleet.memory_mb": 4096, **wanted}
    return [word for key, value in given.items() for word in (f"--{key}", str(value))]


TRAINING = {
    "suite.type": "androidworld",
    "fleet.count": 2,
    "fleet.type": "docker",
    "fleet.spares": 1,
    "fleet.boot_s": 120,
    "agent.deadline_s": 1800,
    "rollout.workers": 0,
    "tasks.per_template": 2,
    "tasks.templates": json.dumps([DOING, ANSWERING]),
}


def training_recipe(name: str, **wanted: object) -> Recipe:
    return load_recipe(None, settings(name, **TRAINING | wanted))


def journal_of(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def open_episodes(out: Path) -> set[str]:
    """Devices on which an episode is being played."""
    busy: set[str] = set()
    for record in journal_of(out):
        if record.get("event") == "start":
            busy.add(record["server"])
        elif record.get("event") == "end":
            busy.discard(record["server"])
    return busy


class WaitingActor(ExpertActor):
    """Decides nothing while `held` is set, so that what happens meanwhile happens in the middle of episodes."""

    def __init__(self, stand_ins: list[StandIn]) -> None:
        super().__init__(stand_ins)
        self.held, self.waiting = threading.Event(), 0

    async def decide(self, *episode) -> Decision:
        self.waiting += 1
        while self.held.is_set():
            await asyncio.sleep(0.02)
        self.waiting -= 1
        return await super().decide(*episode)


def test_an_evaluation_on_containers_of_a_stand_in_survives_one_that_is_killed(adb, image, tmp_path):
    recipe = load_recipe(None, settings("eval", **{"fleet.type": "docker"}))
    places = StartedContainers(recipe, 2, 120.0, tmp_path)
    killed: list[str] = []
    actor = WaitingActor([same_suite(1, 30)])

    def kill() -> None:
        while not (busy := open_episodes(tmp_path)) or actor.waiting < len(busy):
            time.sleep(0.02)
        killed.append(min(busy))
        docker("kill", *running("eval", int(killed[0].removeprefix("eval-"))))
        actor.held.clear()

    def say(text: str) -> None:
        if text.startswith("2/"):
            actor.held.set()
            threading.Thread(target=kill).start()

    plan = Plan(templates=(DOING, ANSWERING, FREELY), runs=3, retries=20)
    policy = EvalPolicy(actor, {"agent": "the stand-in's expert"})
    results = evaluate(places, plan, policy, tmp_path, say)
    assert results["success_rate"] == 1.0 and results["trials"] == 9 and results["errors"] == 0, results["instances"]
    assert results["protocol"]["servers"] == 2 and results["protocol"]["screens_and_actions"] == "adb"
    starts = [r for r in journal_of(tmp_path) if r.get("event") == "start"]
    assert len(killed) == 1 and len(starts) > 9, "no episode was cut off"
    assert not running("eval") and list((tmp_path / "devices").glob(f"{killed[0]}.log"))


def test_containers_that_cannot_be_used_are_removed(adb, image):
    slow = training_recipe("version", **{"fleet.environment": '["START_S=60"]', "fleet.boot_s": 4})
    with pytest.raises(StartupError, match="the first container"):
        make_suite(slow).open()
    assert not running("version")
