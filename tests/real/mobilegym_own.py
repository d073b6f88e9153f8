"""MobileGym's own runner: plays recorded actions in its own environment, in an own Chromium, and prints the judgments
and the seconds of its steps.

Runs in the checkout, with its requirements, on the JSON of `test_mobilegym_own.py`:

    {"url": URL, "program": PATH, "pages": N, "episodes": [[TEMPLATE, SEED, [[ACTION, DATA], ...]], ...]}
"""

import asyncio
import json
import logging
import os
import sys
import time


class Scripted:
    """Implements what its runner asks of an agent."""

    name = "scripted"
    history = ()

    def __init__(self, actions):
        self._actions = iter(actions)

    def reset(self, goal):
        self.goal = goal

    def act(self, observation):
        from bench_env.env.base import Action, ActionType

        kind, data = next(self._actions, ("COMPLETE", {}))
        return Action(ActionType(kind), data)

    def reset_history(self):
        pass


async def play(env, template, seed, actions):
    from bench_env.config import RunnerConfig
    from bench_env.runner.base import BaseRunner
    from bench_env.task.registry import TaskRegistry

    task, agent = TaskRegistry().get_by_id(template)(_seed=seed), Scripted(actions)
    budget = RunnerConfig(agent="", model_name="").get_max_steps(task)
    result = await BaseRunner.run_episode(env, agent, task, budget)
    if result.error:
        return {"error": result.error}
    judge = result.judge
    said = {"success": result.success, "goal": judge.success, "clean": judge.clean, "progress": judge.progress}
    return said | {"instruction": agent.goal}


async def play_all(request):
    from bench_env.env.mobile_gym import MobileGymEnv
    from playwright.async_api import async_playwright

    left = list(enumerate(request["episodes"]))[::-1]
    judged, steps_s = [None] * len(left), []

    def timed(step):
        async def timed_step(action):
            began = time.perf_counter()
            result = await step(action)
            if action.action_type.value != "COMPLETE":
                steps_s.append(time.perf_counter() - began)
            return result

        return timed_step

    async def work(browser):
        env = MobileGymEnv(url=request["url"], browser=browser, viewport_size=(360, 800), verbose=False)
        await env.start()
        env.step = timed(env.step)
        while left:
            number, episode = left.pop()
            judged[number] = await play(env, *episode)
        await env.close()

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=request["program"])
        await asyncio.gather(*(work(browser) for _ in range(request["pages"])))
        await browser.close()
    return {"judged": judged, "steps_s": steps_s}


if __name__ == "__main__":
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    sys.path[0] = os.getcwd()
    json.dump(asyncio.run(play_all(json.load(sys.stdin))), out)
