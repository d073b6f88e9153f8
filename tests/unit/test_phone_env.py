"""PhoneEnv: episodes, budgets, scores, and the same bytes for the same seed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from benchmarks.phone import measure
from envs.base import Action, Finish, InfraError, Invalid, Launch, MobileEnv, Observation, Task, Wait
from envs.phone.env import PhoneEnv
from envs.phone.tasks.expert import ExpertAgent
from envs.phone.tasks.notes import NotesDelete
from envs.phone.tasks.suite import HELD_OUT_SEEDS, make_task, phone_seed


def play(env: PhoneEnv, task: Task) -> tuple[list[Observation], list[Action], float]:
    async def run() -> tuple[list[Observation], list[Action], float]:
        observations, actions = [await env.reset(task)], []
        agent, done = ExpertAgent(env.template), False
        while not done:
            actions.append(agent.act(observations[-1]))
            result = await env.step(actions[-1])
            observations.append(result.observation)
            done = result.done
        return observations, actions, await env.score()

    return asyncio.run(run())


def run_actions(env: PhoneEnv, task: Task, actions: list[Action]) -> tuple[list[bool], float]:
    async def run() -> tuple[list[bool], float]:
        await env.reset(task)
        done = [(await env.step(a)).done for a in actions]
        return done, await env.score()

    return asyncio.run(run())


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


def test_an_environment_can_be_used_again():
    env = PhoneEnv(screenshots=False)
    task = make_task("NotesDelete", 1)
    assert play(env, task)[0] == play(env, task)[0]


@pytest.mark.parametrize("seed", [1, 2, 1_000_001])
def test_same_seed_same_bytes(seed):
    task = make_task("NotesCreate", seed)
    first, second = (play(PhoneEnv(popup_rate=0.7), task) for _ in range(2))
    assert first == second


def test_budget_ends_the_episode_without_a_reward():
    task = make_task("NotesRead", 1)
    done, score = run_actions(PhoneEnv(screenshots=False), task, [Wait()] * task.max_steps)
    assert done == [False] * (task.max_steps - 1) + [True] and score == 0.0


def test_the_right_state_without_finish_earns_nothing():
    env = PhoneEnv(screenshots=False)
    task = make_task("NotesDelete", 1)
    actions = play(env, task)[1]
    assert run_actions(env, task, actions[:-1])[1] == 0.0
    assert run_actions(env, task, actions)[1] == 1.0


def test_invalid_and_unknown_apps_cost_a_step_and_change_nothing():
    async def run() -> tuple[list[Observation], list[str]]:
        env = PhoneEnv(screenshots=False)
        seen, notes = [await env.reset(make_task("NotesRead", 1))], []
        for action in (Invalid("no call"), Launch("Nothing"), Launch("Notes")):
            result = await env.step(action)
            seen.append(result.observation)
            notes.append(result.note)
        return seen[:-1], notes

    (first, *others), notes = asyncio.run(run())
    assert notes == ["", "there is no app called 'Nothing'", ""]
    assert [replace(o, step=0) for o in others] == [first, first]
    assert [o.step for o in others] == [1, 2]


def test_misuse_is_told():
    env = PhoneEnv(screenshots=False)
    with pytest.raises(RuntimeError, match="reset"):
        asyncio.run(env.step(Wait()))
    run_actions(env, make_task("NotesRead", 1), [Finish("x")])
    with pytest.raises(RuntimeError, match="reset"):
        asyncio.run(env.step(Wait()))


def test_a_failing_setup_is_an_infrastructure_error(monkeypatch):
    monkeypatch.setattr(NotesDelete, "setup", lambda self, phone: phone.rows("nowhere/x"))
    with pytest.raises(InfraError, match="content query"):
        asyncio.run(PhoneEnv(screenshots=False).reset(make_task("NotesDelete", 1)))


def test_the_benchmark_measures_all_ways():
    rates = measure(steps=5)
    assert len(rates) == 6 and all(rate > 0 for rate in rates.values())


def test_popups_are_survived_and_seen():
    episodes = [play(PhoneEnv(popup_rate=1.0, screenshots=False), make_task("NotesDelete", s)) for s in range(8)]
    assert all(score == 1.0 for _, _, score in episodes)
    assert any(len(actions) > NotesDelete.steps for _, actions, _ in episodes)


def test_instances_of_different_templates_meet_different_phones():
    """Their seeds are equal: an evaluation of few instances would otherwise rest on as few phones."""
    names = ("NotesDelete", "NotesCreate", "TodoAdd", "MapsSave")
    trained = {phone_seed(make_task(n, s)) for n in names for s in range(50)}
    tested = {phone_seed(make_task(n, HELD_OUT_SEEDS + s)) for n in names for s in range(50)}
    assert len(trained) == len(tested) == 200 and not trained & tested
