"""Runs a MobileGym checkout's own Python, `bench_env`, in a process of its own: its tasks, set-ups, actions and judges.

Uses only the standard library beside the checkout and what that imports. Reads requests from standard input and writes
answers to standard output, one JSON object a line:

    {"do": "list", "splits": [NAME, ...], "instances": N, "seed": N}  -> {"result": [TASK, ...]}
    {"do": "setup", "template": ID, "seed": N, "url": URL}            -> {"result": INSTRUCTION}
    {"do": "act", "type": NAME, "data": {...}}                        -> {"result": NOTE}
    {"do": "judge", "finished": BOOL}                                 -> {"result": VERDICT}

or {"error": TEXT}. The page belongs to the other side: what `bench_env` does to it is asked for before the answer, as
{"call": NAME, "args": [...]}, which is answered with {"value": ...} or {"fault": TEXT}.
"""

import asyncio
import importlib
import json
import logging
import os
import sys
from typing import Any

SIZE = (360, 800)


class Pipe:
    """The other side."""

    def __init__(self):
        self._in = os.fdopen(os.dup(0), encoding="utf-8")
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # keeps output of the checkout out of the answers

    def read(self):
        line = self._in.readline()
        if not line:
            os._exit(0)  # the other side is gone
        return json.loads(line)

    def write(self, message):
        self._out.write(json.dumps(message, default=str) + "\n")
        self._out.flush()

    async def call(self, name, *args):
        self.write({"call": name, "args": args})
        answer = self.read()
        if "fault" in answer:
            raise RuntimeError(answer["fault"])
        return answer["value"]


class Page:
    """What `bench_env` uses of Playwright's page."""

    def __init__(self, call):
        self._call = call
        self.keyboard = self.touchscreen = self

    async def evaluate(self, script, argument=None):
        return await self._call("evaluate", script, argument)

    async def goto(self, url, **_):
        await self._call("goto", url)

    async def wait_for_function(self, script, **_):
        await self._call("wait_for_function", script)

    async def wait_for_load_state(self, state, **_):
        await self._call("wait_for_load_state", state)

    async def press(self, key):
        await self._call("press", key)

    async def type(self, text, **_):
        await self._call("type", text)

    async def tap(self, x, y):
        await self._call("tap", x, y)

    async def screenshot(self, **_):
        return b""  # no judge looks at it


class Bench:
    """What requests ask for. `setup` comes before `act` and `judge`."""

    def __init__(self, pipe):
        self._pipe = pipe
        self._env: Any = None
        self._task: Any = None
        self._first: Any = None

    async def list(self, splits, instances, seed):
        """Instances of the tasks in these splits. Their instructions have parameters in them until they are set up."""
        importlib.import_module("opencc")  # which judges import only when they need it
        from bench_env.config import RunnerConfig
        from bench_env.runner.base import Controller, Evaluator  # noqa: F401
        from bench_env.splits import base_task_id, resolve_split
        from bench_env.task import load_tasks

        config = RunnerConfig(agent="", model_name="")
        split_of = {name: split for split in splits for name in resolve_split(split)}
        return [
            {
                "template": template,
                "number": getattr(task, "_instance_id", 0),
                "split": split_of[template],
                "seed": task._seed,
                "instruction": task.templates[0] if task.templates else template,
                "apps": list(task.apps),
                "difficulty": task.difficulty,
                "max_steps": config.get_max_steps(task),
            }
            for task in load_tasks(sample_n=instances, seed=seed)
            if (template := base_task_id(task.id)) in split_of
        ]

    async def setup(self, template, seed, url):
        from bench_env.env.mobile_gym import MobileGymEnv
        from bench_env.runner.base import Controller
        from bench_env.task.registry import TaskRegistry

        if self._env is None:
            self._env = MobileGymEnv(url=url, viewport_size=SIZE, delay_after_action=0, verbose=False)
            self._env._page = Page(self._pipe.call)
        self._task = TaskRegistry().get_by_id(template)(_seed=seed)
        self._first, _ = await Controller.setup(self._env, self._task)
        return self._task.description

    async def act(self, type, data):
        from bench_env.env.base import Action, ActionType

        known = self._env.APP_NAME_MAP
        if type == "AWAKE" and data["value"] not in known and data["value"].lower() not in known.values():
            return "there is no app of the name " + data["value"]
        await self._env.step(Action(ActionType(type), data))
        return ""

    async def judge(self, finished):
        """As its runner does at the end of an episode, which an agent has `finished` or which ran out of steps."""
        from dataclasses import replace

        from bench_env.runner.base import Evaluator, ExecutionResult

        last = await self._env._get_observation(include_state=False)
        last = replace(last, state=await self._env.get_state(required_apps=list(self._task.apps) or None))
        ended = ExecutionResult(
            steps=0,
            trace=[],
            runtime_s=0.0,
            finished=finished,
            truncated=not finished,
            stop_reason="COMPLETE" if finished else "MAX_STEPS",
            agent_message=self._env.agent_message,
            agent_answer=self._env.agent_answer,
        )
        found = await Evaluator().evaluate(self._task, self._first, last, ended)
        self._task.teardown(self._env)
        if found.judge_error:
            raise RuntimeError(found.judge_error)
        return {
            "success": bool(finished and found.passed),
            "goal": bool(found.success),
            "clean": bool(found.clean),
            "progress": float(found.progress),
        }


async def serve():
    pipe = Pipe()
    bench = Bench(pipe)
    while True:
        request = pipe.read()
        try:
            answer = {"result": await getattr(bench, request.pop("do"))(**request)}
        except Exception as error:
            answer = {"error": " ".join((type(error).__name__ + ": " + str(error)).split())[:400]}
        pipe.write(answer)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.path[0] = os.getcwd()  # the checkout, instead of this program's folder
    asyncio.run(serve())
