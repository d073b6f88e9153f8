"""MobileGym through our suite, on a stand-in for its checkout: what its own Python is asked for and does to the page,
whose fault an error is, and the evaluation with its second figure. `tests/real/test_mobilegym_own.py` has the real one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mobilegym_stand_in import write_checkout

from mobilerl.cli import main
from mobilerl.envs.base import Finish, Home, InfraError, Launch, NoScore, Tap, Task, TaskFault
from mobilerl.envs.mobilegym.bench import Bench
from mobilerl.envs.mobilegym.env import MobileGymEnv, web
from mobilerl.envs.mobilegym.tasks import CheckoutError, find_checkout, list_tasks

from pages import Chromium, element  # isort: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    return find_checkout(str(write_checkout(tmp_path_factory.mktemp("mobilegym"))))


@pytest.fixture(scope="module")
def tasks(checkout: Path) -> dict[str, Task]:
    return {task.template: task for task in list_tasks(checkout, "", "test", 1, 7)}


@pytest.fixture
async def env(checkout: Path) -> AsyncIterator[MobileGymEnv]:
    chromium = Chromium(web(checkout, 2.0), timeout_s=30.0)
    await chromium.open()
    made = MobileGymEnv("page", await chromium.new_page(), Bench(checkout), reward="progress")
    yield made
    await made.close()
    await chromium.close()


async def count(env: MobileGymEnv, times: int) -> None:
    for _ in range(times):
        assert not (await env.step(Tap(*(await element(env.page, "Count")).centre))).note


async def test_the_judge_decides_and_says_how_far_an_agent_got(env, tasks):
    for times, rest, finished, reward in (
        (2, [], True, 1.0),
        (2, [], False, 0.5),  # has not declared it done
        (2, [Home()], True, 0.5),  # has changed something else
        (1, [], True, 0.25),
        (0, [], True, 0.0),
    ):
        first = await env.reset(tasks["b.Count"])
        assert env.instruction == "Count to 2" and first.app == "counter" and (first.width, first.height) == (720, 1600)
        assert first.image.size == (720, 1600)
        await count(env, times)
        for action in [*rest, *([Finish("done")] if finished else [])]:
            await env.step(action)
        assert await env.score() == reward
    assert env.verdict == {"success": False, "goal": False, "clean": True, "progress": 0.0}


async def test_an_app_that_is_not_there_is_said_and_the_budget_ends_the_episode(env, tasks):
    await env.reset(tasks["b.Count"])
    notes = [(await env.step(Launch(name))).note for name in ("Counter", "Nothing")]
    assert notes == ["", "there is no app of the name Nothing"]
    await count(env, 2)
    assert (await env.step(Launch("Counter"))).done and await env.score() == 0.5


async def test_errors_of_the_checkout_are_the_tasks_and_those_of_processes_are_not(env, tasks):
    with pytest.raises(TaskFault, match="b.Broken/0 cannot be set up: .*undefined"):
        await env.reset(tasks["b.Broken"])
    with pytest.raises(InfraError, match="MobileGym's Python has ended") as ended:
        await env.reset(tasks["b.Dying"])
    assert not isinstance(ended.value, TaskFault)
    await env.reset(tasks["b.Unsure"])  # in a new process
    await env.step(Finish())
    with pytest.raises(NoScore, match="b.Unsure/0 cannot be judged: .*no data"):
        await env.score()


async def test_a_page_that_crashes_is_a_device_that_failed(env, tasks):
    await env.reset(tasks["b.Count"])
    env.page._lose("the page has crashed")
    with pytest.raises(InfraError, match="page: the page has crashed"):
        await env.step(Tap(1, 1))
    with pytest.raises(InfraError, match="page: the page has crashed") as crashed:
        await env.reset(tasks["b.Count"])
    assert not isinstance(crashed.value, TaskFault) and not (await env.health()).ok


def test_an_evaluation_counts_errors_apart_and_reports_the_progress(checkout, tmp_path, capsys):
    words = ["eval", "mobilegym", "--suite.checkout", str(checkout), "--fleet.count", "2", "--out", str(tmp_path)]
    names = [word for name in ("b.Count", "b.Broken", "b.Unsure") for word in ("--template", name)]
    assert main([*words, *names, "--agent", "finish"]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["trials"], results["successes"], results["errors"]) == (1, 0, 2)
    assert results["progress_rate"] == 0.0 and "progress 0.0%" in capsys.readouterr().out
    said = {"split": "test", "screenshot": "1080x2400, PNG", "suite.sample_seed": 42, "reward": "its judges"}
    assert said.items() <= results["protocol"].items()


def test_what_is_no_checkout_and_what_is_not_built_are_named(checkout, tmp_path):
    with pytest.raises(CheckoutError, match="is no checkout of MobileGym: `git clone"):
        find_checkout(str(tmp_path))
    (write_checkout(tmp_path) / "dist/index.html").unlink()
    with pytest.raises(CheckoutError, match="is not built: run `npm ci && npm run build` in it"):
        find_checkout(str(tmp_path))
    (tmp_path / "opencc.py").write_text("import nothing_of_this_name")
    with pytest.raises(CheckoutError, match="No module named 'nothing_of_this_name': give suite.python an interpreter"):
        list_tasks(tmp_path, "", "train", 1, 7)
