"""Instructions on a web app: the example is trained on as its page in the documentation says, and who solves its tasks,
leaves the app, or writes checks that cannot run, gets what that page says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ports import free_port
from prepared import program

from mobilerl.envs.base import Back, Finish, FreeReward, NoScore, Tap, Task, TaskFault, Type
from mobilerl.envs.instructions.web import WebInstruction, check_answers, make_web_task, read_web, web_of
from mobilerl.envs.instructions.web_env import WebInstructionEnv
from mobilerl.training.tracking import read_metrics

from pages import Chromium, element  # isort: skip

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples/webapp"
SOLUTIONS = {
    "dark": ("Settings", "Dark theme"),
    "buy-eggs": ("Eggs (12)",),
    "add-milk": ("Name", Type("Milk"), "Amount", Type("2"), "Save"),
    "clear": ("Settings", "Delete what was bought"),
}


def wait_for(url: str) -> None:
    for _ in range(100):
        with suppress(ValueError):
            return check_answers(url)
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=APP)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
async def env(url: str) -> AsyncIterator[WebInstructionEnv]:
    chromium = Chromium(web_of(url, 360, 720), timeout_s=30.0)
    await chromium.open()
    yield WebInstructionEnv("page", await chromium.new_page(), url, screenshots=False)
    await chromium.close()


def made(url: str, **fields: object) -> Task:
    return make_web_task(WebInstruction(**{"id": "x", "instruction": "x", **fields}), url)


async def test_the_examples_tasks_are_solved_by_hand_and_not_by_finishing(env, url):
    tasks = {task.id: make_web_task(task, url) for task in read_web(APP / "tasks.toml").task}
    assert set(tasks) == {*SOLUTIONS, "how-many"}
    for name, actions in SOLUTIONS.items():
        await env.reset(tasks[name])
        await env.step(Finish("I have not"))
        assert await env.score() == 0.0, name
        await env.page.clear()
        await env.reset(tasks[name])
        for action in actions:
            action = Tap(*(await element(env.page, action)).centre) if isinstance(action, str) else action
            assert not (await env.step(action)).note
        await env.step(Finish())
        assert await env.score() == 1.0, name
        await env.page.clear()
    for answer, reward in {"There are 30 eggs": 1.0, "12": 0.0}.items():
        assert "Eggs (30)" in (await env.reset(tasks["how-many"])).xml, "reset has changed the amount"
        await env.step(Finish(answer))
        assert await env.score() == reward
        await env.page.clear()


async def test_an_agent_that_has_left_the_app_gets_nothing(env, url):
    await env.reset(made(url, answer="y"))
    await env.page.run("() => { document.body.innerHTML = '<a href=\"http://elsewhere/\">away</a>'; }")
    await env.step(Tap(*(await element(env.page, "away")).centre))
    await env.step(Finish("y"))
    assert await env.score() == 0.0
    await env.reset(made(url, answer="y"))
    await env.step(Back())
    await env.step(Finish("y"))
    assert await env.score() == 1.0


async def test_a_task_that_cannot_run_is_to_blame_itself(env, url):
    for fields, kind, said in (
        ({"check": ["nothing.here"]}, NoScore, "check 'nothing.here' cannot run: .*nothing is not defined"),
        ({"check": ["1 +"]}, NoScore, "check .* cannot run: .*SyntaxError"),
        ({"check": ["true"]}, FreeReward, "succeeds before the agent has done anything"),
        ({"check": ["false"], "reset": ["throw Error('no')"]}, TaskFault, "reset .* cannot run: .*no"),
        ({"check": ["false"], "start": "/nowhere"}, TaskFault, "nowhere answered 404"),
    ):
        with pytest.raises(kind, match=said):
            await env.reset(made(url, **fields))
    await env.reset(made(url, check=["Promise.resolve(false)"]))  # a promise of false is not true


def test_mistakes_in_a_file_and_an_app_that_does_not_run_are_named(tmp_path):
    for field, said in {
        'app = "com.android.settings"': "app: a page shows no other",
        'start = "list"': "is not a path",
    }.items():
        (tmp_path / "t.toml").write_text(f'[[task]]\ninstruction = "x"\n{field}\n')
        with pytest.raises(ValueError, match=f"task 1: .*{said}"):
            read_web(tmp_path / "t.toml")
    with pytest.raises(ValueError, match="nothing answers at http://127.0.0.1:.* start your web app first"):
        check_answers(f"http://127.0.0.1:{free_port()}")


@pytest.mark.slow
def test_the_page_of_the_documentation_can_be_followed(tmp_path):
    page = (ROOT / "docs/instructions.md").read_text().partition("## A web app")[2].partition("\n## ")[0]
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE)]
    task, commands = (block.strip() for block in blocks)
    assert task in (APP / "tasks.toml").read_text()
    serve, *rest = commands.replace("\\\n", " ").splitlines()
    port = str(free_port())
    moved = {"3000": port, "--out out": f"--out {tmp_path}/out", "runs/pantry": f"{tmp_path}/run", "&": ""}
    for old, new in moved.items():
        serve, rest = serve.replace(old, new), [line.replace(old, new) for line in rest]
    server = subprocess.Popen(shlex.split(serve), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}")
        for line in rest:
            words = [program() if word == "mobilerl" else word for word in shlex.split(line)]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, done.stderr[-3000:]
    finally:
        server.terminate()
        server.wait()
    results = json.loads((tmp_path / "out/results.json").read_text())
    assert (results["trials"], results["successes"], results["errors"]) == (5, 0, 0)
    (last,) = [m for m in read_metrics(tmp_path / "run/metrics.jsonl") if m["iteration"]]
    assert last["rollout/trajectories"] >= 16 and last["rollout/lost_groups"] == 0
