"""PhoneEnv: episodes, budgets, scores, and the same bytes for the same seed."""

from __future__ import annotations

import asyncio

import pytest

from mobilerl.envs.base import Action, Finish, MobileEnv, Task, Wait
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import HELD_OUT_SEEDS, make_task, phone_seed


async def episode(env: PhoneEnv, task: Task, given: list[Action] | None):
    observations, actions, done = [await env.reset(task)], [], False
    expert = ExpertAgent(env.template)
    while not done and (given is None or len(actions) < len(given)):
        actions.append(expert.act(observations[-1]) if given is None else given[len(actions)])
        result = await env.step(actions[-1])
        observations.append(result.observation)
        done = result.done
    return observations, actions, await env.score()


def play(env: PhoneEnv, task: Task, given: list[Action] | None = None):
    """Observations, actions and score of an episode of the expert, or with the given actions."""
    return asyncio.run(episode(env, task, given))


def test_an_episode():
    env = PhoneEnv("sim-3")
    assert isinstance(env, MobileEnv)
    observations, actions, score = play(env, make_task("NotesDelete", 1))
    assert score == 1.0 and isinstance(actions[-1], Finish)
    assert [o.step for o in observations] == list(range(len(actions) + 1))
    assert [o.app for o in observations[:2]] == ["Home", "Notes"]
    assert observations[0].screenshot.startswith(b"\x89PNG")
    assert (observations[0].width, observations[0].height) == (360, 720)
    assert asyncio.run(env.health()).ok


@pytest.mark.parametrize("seed", [1, 2, 1_000_001])
def test_same_seed_same_bytes(seed):
    task = make_task("NotesCreate", seed)
    first, second = (play(PhoneEnv(popup_rate=0.7), task) for _ in range(2))
    assert first == second


def test_budget_ends_the_episode_without_a_reward():
    task = make_task("NotesRead", 1)
    _, actions, score = play(PhoneEnv(screenshots=False), task, [Wait()] * 99)
    assert len(actions) == task.max_steps and score == 0.0


def test_the_right_state_without_finish_earns_nothing():
    env = PhoneEnv(screenshots=False)
    task = make_task("NotesDelete", 1)
    actions = play(env, task)[1]
    assert play(env, task, actions[:-1])[2] == 0.0
    assert play(env, task, actions)[2] == 1.0


def test_instances_of_different_templates_meet_different_phones():
    names = ("NotesDelete", "NotesCreate", "TodoAdd", "MapsSave")
    trained = {phone_seed(make_task(n, s)) for n in names for s in range(50)}
    tested = {phone_seed(make_task(n, HELD_OUT_SEEDS + s)) for n in names for s in range(50)}
    assert len(trained) == len(tested) == 200 and not trained & tested
