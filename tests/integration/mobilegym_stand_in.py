"""A stand-in for a built checkout of MobileGym: a phone with one counter, and the parts of `bench_env` that we call.

Its tasks are to count to 2, and others that fail: `Broken` in its set-up, `Unsure` in its judge, `Dying` with the
process.
"""

from __future__ import annotations

from pathlib import Path

PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<body><button onclick="count += 1; show()">Count</button><p></p>
<script>
let count = 0, spoiled = false;
const show = () => { document.querySelector('p').textContent = `counted ${count}`; };
window.__OS__ = {getAppRoute: () => ({app: 'counter'}), goHome: () => { spoiled = true; }};
window.__SIM__ = {getState: () => ({os: {}, count, spoiled})};
show();
</script>"""
FILES = {
    "opencc.py": "",
    "bench_env/__init__.py": "",
    "bench_env/config.py": """
class RunnerConfig:
    def __init__(self, agent, model_name):
        pass

    def get_max_steps(self, task):
        return 5
""",
    "bench_env/splits.py": """
def base_task_id(name):
    return name.split("_i")[0]

def resolve_split(name):
    return {"train": {"a.Count"}, "test": {"b.Count", "b.Broken", "b.Unsure", "b.Dying"}, "payment": {"p.Count"}}[name]
""",
    "bench_env/splits/test.txt": "",
    "bench_env/task/__init__.py": """
import os

class Count:
    apps, difficulty, templates, task_name = ["counter"], "L1", ["Count to {goal}"], ""

    def __init__(self, _seed=None):
        self._seed, self.goal = _seed, 2
        self.id = "a.Count"

    @property
    def description(self):
        return f"Count to {self.goal}"

    async def setup(self, env):
        await env.page.goto(env.url)
        await env.page.wait_for_function("() => Boolean(window.__OS__)")

    def judge(self, state):
        progress = min(state["count"], self.goal) / self.goal
        return progress == 1.0, not state["spoiled"], progress, None

    def teardown(self, env):
        pass

class Broken(Count):
    async def setup(self, env):
        print("noise on standard output")
        await env.page.evaluate("() => window.missing.data")

class Unsure(Count):
    def judge(self, state):
        return False, True, 0.0, "no data"

class Dying(Count):
    async def setup(self, env):
        os._exit(3)

KINDS = {"Count": Count, "Broken": Broken, "Unsure": Unsure, "Dying": Dying}

def made(name, seed):
    task = KINDS[name.split(".")[1]](seed)
    task.id = name
    return task

def load_tasks(sample_n, seed):
    names = ["a.Count", "b.Count", "b.Broken", "b.Unsure", "b.Dying", "p.Count"]
    return [made(name, seed + place) for place, name in enumerate(names)]
""",
    "bench_env/task/registry.py": """
from functools import partial

from bench_env.task import made

class TaskRegistry:
    def get_by_id(self, name):
        return lambda _seed: made(name, _seed)
""",
    "bench_env/env/__init__.py": "",
    "bench_env/env/base.py": """
from dataclasses import dataclass, field
from enum import Enum

class ActionType(str, Enum):
    CLICK, TYPE, AWAKE, HOME, ANSWER = "CLICK", "TYPE", "AWAKE", "HOME", "ANSWER"

@dataclass
class Action:
    action_type: ActionType
    data: dict = field(default_factory=dict)

@dataclass(frozen=True)
class Observation:
    state: dict = field(default_factory=dict)
""",
    "bench_env/env/mobile_gym.py": """
from bench_env.env.base import ActionType, Observation

class MobileGymEnv:
    APP_NAME_MAP = {"Counter": "counter"}
    agent_message = agent_answer = None

    def __init__(self, url, viewport_size, delay_after_action, verbose):
        self.url = url

    @property
    def page(self):
        return self._page

    async def step(self, action):
        if action.action_type == ActionType.CLICK:
            x, y = action.data["point"]
            await self.page.touchscreen.tap(x * 360 / 1000, y * 800 / 1000)
        elif action.action_type == ActionType.HOME:
            await self.page.evaluate("() => window.__OS__.goHome()")
        elif action.action_type == ActionType.ANSWER:
            self.agent_answer = action.data["value"]

    async def get_state(self, required_apps):
        return await self.page.evaluate("(argument) => window.__SIM__.getState()", required_apps)

    async def _get_observation(self, include_state):
        return Observation()
""",
    "bench_env/runner/__init__.py": "",
    "bench_env/runner/base.py": """
from dataclasses import dataclass
from types import SimpleNamespace

class Controller:
    @staticmethod
    async def setup(env, task):
        return await task.setup(env), {}

@dataclass
class ExecutionResult:
    steps: int
    trace: list
    runtime_s: float
    finished: bool
    truncated: bool
    stop_reason: str
    agent_message: str
    agent_answer: str

class Evaluator:
    async def evaluate(self, task, first, last, ended):
        goal, clean, progress, error = task.judge(last.state)
        return SimpleNamespace(
            success=goal, clean=clean, passed=goal and clean, progress=progress, judge_error=error
        )
""",
}


def write_checkout(folder: Path) -> Path:
    for name, text in {"dist/index.html": PAGE, **FILES}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
