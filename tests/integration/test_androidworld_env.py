"""`AndroidWorldEnv` against the stand-in: the order of things, and what happens when the server misbehaves."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from androidworld_expert import ExpertActor
from androidworld_server import StandIn, in_process

from envs.androidworld.access import AdbAccess, HttpAccess
from envs.androidworld.client import AndroidWorldClient
from envs.androidworld.device import Settle
from envs.androidworld.env import AndroidWorldEnv
from envs.androidworld.faults import EnvironmentFault, NanScore, ServerFault, Unreachable, WrongServer
from envs.androidworld.tasks import FACTS, SENTINELS, make_task
from envs.base import Back, Enter, Finish, Home, InfraError, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from envs.phone.env import APP_NAMES
from mobilerl.records import Status
from mobilerl.rollout.episode import EpisodeSettings, run_episode

DOING, ANSWERING = "ContactsAddContact", "NotesIsTodo"
FAST = Settle(0.0, 0.0)


@pytest.fixture
def stand_in():
    server = StandIn(in_process()).start()
    yield server
    server.stop()


def make_env(stand_in, over_http=False, boot_wait_s=5.0):
    client = AndroidWorldClient(stand_in.url, 10.0)
    access = HttpAccess(client, APP_NAMES) if over_http else AdbAccess(stand_in.transport, APP_NAMES, FAST)
    return AndroidWorldEnv("d0", client, access, boot_wait_s=boot_wait_s)


def task_of(stand_in, name, seed=30, index=0, combinations=1, **more):
    return make_task(name, index, stand_in._make(name, seed, index).goal, seed, combinations, **more)


def routes(stand_in, since=0):
    return [route for _, route, _ in stand_in.requests[since:]]


async def play(env, stand_in, task, unfinished=()):
    return await run_episode(env, ExpertActor([stand_in], unfinished), task, "e", EpisodeSettings(deadline_s=60.0))


# --- the order of things -----------------------------------------------------------------------------------------


def test_an_episode_in_androidworlds_order(stand_in):
    async def main():
        env = make_env(stand_in)
        trajectory = await play(env, stand_in, task_of(stand_in, DOING))
        assert (trajectory.status, trajectory.reward) == (Status.FINISHED, 1.0)
        assert all(s.observation.xml and s.observation.screenshot for s in trajectory.steps)
        assert env.episode.probe == 0.0 and not env.episode.free and env.episode.raw_score == 1.0

    asyncio.run(main())
    marks = ["/task/goal"] * len(SENTINELS)
    assert routes(stand_in) == [
        "/health", "/suite/reinitialize", *marks, "/task/goal", "/task/initialize", "/task/score", "/task/goal",
        "/reset", *marks, "/task/score", "/task/tear_down",
    ]  # fmt: skip
    assert stand_in.requests[1][2] == {
        "n_task_combinations": "1", "seed": "30", "task_family": "android_world",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["SimpleCalendarEventsInTimeRange", "TurnOnWifiAndOpenApp", DOING])
def test_every_play_of_an_instance_is_the_test_that_a_first_play_is(stand_in, name):
    """Reworded goals and composites among them: the agent is told what AndroidWorld says after the set-up."""

    async def main():
        env = make_env(stand_in)
        task = task_of(stand_in, name)
        fresh = StandIn(in_process())
        fresh.make_suite("android_world", 1, 30)
        fresh.instance(name).initialize(name)
        for _ in range(3):
            trajectory = await play(env, stand_in, task)
            assert (trajectory.status, trajectory.reward) == (Status.FINISHED, 1.0)
            assert trajectory.task.instruction == env.episode.goal == fresh.instance(name).goal

    asyncio.run(main())


def test_the_answer_is_sent_before_the_score_and_only_where_one_is_asked_for(stand_in):
    async def main():
        env = make_env(stand_in)
        assert (await play(env, stand_in, task_of(stand_in, ANSWERING))).reward == 1.0
        since = len(stand_in.requests)
        assert routes(stand_in).count("/execute_action") == 1
        sent = next(query for _, route, query in stand_in.requests if route == "/execute_action")
        assert sent["action_type"] == "answer" and sent["text"]

        await env.reset(task_of(stand_in, ANSWERING))
        await env.step(Finish("surely not this"))
        assert await env.score() == 0.0
        after = routes(stand_in, since)
        assert after.index("/execute_action") < len(after) - 1 - after[::-1].index("/task/score")

        since = len(stand_in.requests)
        await env.reset(task_of(stand_in, DOING))
        await env.step(Finish("done"))
        await env.score()
        assert "/execute_action" not in routes(stand_in, since)

    asyncio.run(main())


def test_a_goal_reached_without_saying_so_earns_nothing(stand_in):
    async def main():
        env = make_env(stand_in)
        trajectory = await play(env, stand_in, task_of(stand_in, DOING), unfinished=[DOING])
        assert (trajectory.status, trajectory.reward) == (Status.TRUNCATED, 0.0)
        assert len(trajectory.steps) == FACTS[DOING].budget
        assert env.episode.raw_score == 1.0 and not env.episode.said_done

    asyncio.run(main())


def test_the_step_cap(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING, step_cap=2))
        assert not (await env.step(Invalid("what?"))).done
        assert (await env.step(Wait(0.0))).done
        with pytest.raises(RuntimeError, match="no episode is running"):
            await env.step(Wait(0.0))

    asyncio.run(main())


def test_free_rewards_are_found_and_a_check_that_raises_that_early_is_none(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, "SystemWifiTurnOnVerify"))
        assert env.episode.free
        await env.step(Finish())
        assert await env.score() == 1.0
        trajectory = await play(env, stand_in, task_of(stand_in, "RetroPlayingQueue"))
        assert trajectory.reward == 1.0 and env.episode.probe is None and not env.episode.free

    asyncio.run(main())


def test_fractions_are_rewards(stand_in):
    stand_in.scores["TurnOnWifiAndOpenApp"] = 0.5

    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, "TurnOnWifiAndOpenApp"))
        await env.step(Finish())
        assert await env.score() == 0.5

    asyncio.run(main())


# --- what is left behind -----------------------------------------------------------------------------------------


def test_an_episode_that_was_broken_off_is_torn_down_before_the_next(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING))
        since = len(stand_in.requests)
        await env.reset(task_of(stand_in, DOING))
        assert routes(stand_in, since).index("/task/tear_down") < routes(stand_in, since).index("/suite/reinitialize")

        other = make_env(stand_in)  # which knows nothing of what the first one has set up
        await other.reset(task_of(stand_in, DOING))
        await other.close()
        assert not stand_in.instance(DOING).initialized

    asyncio.run(main())


def test_a_tear_down_that_fails_costs_neither_the_score_nor_the_next_episode(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING))
        stand_in.faults["/task/tear_down"] = ["500", "500"]
        await env.step(Finish())
        assert await env.score() == 0.0
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0

    asyncio.run(main())


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "kind", "name"), [(float("nan"), NanScore, "nan"), (None, NanScore, "nan")])
def test_a_score_that_is_not_a_number_is_a_fault_of_its_own_kind(stand_in, said, kind, name):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING))
        await env.step(Finish())
        stand_in.scores[DOING] = said
        with pytest.raises(kind) as fault:
            await env.score()
        assert fault.value.kind == name
        del stand_in.scores[DOING]
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0

    asyncio.run(main())


@pytest.mark.parametrize("route", ["/task/initialize", "/task/score"])
def test_code_that_raises_is_the_environments_fault_and_the_next_episode_plays(stand_in, route):
    async def main():
        env = make_env(stand_in)
        stand_in.faults[route] = ["500"] if route == "/task/initialize" else [("answer", {"score": 0.0}), "500"]
        trajectory = await play(env, stand_in, task_of(stand_in, DOING))
        assert trajectory.status is Status.INFRA_ERROR and f"{route} answered 500" in trajectory.error
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0

    asyncio.run(main())
    assert EnvironmentFault.kind == "environment" and ServerFault.kind == "infrastructure"


def test_a_server_that_dies_in_mid_episode_is_a_fault_and_is_waited_for(stand_in):
    async def main():
        env = make_env(stand_in, boot_wait_s=60.0)
        await env.reset(task_of(stand_in, DOING))
        stand_in.stop()
        await env.step(Finish())  # adb does not notice
        with pytest.raises(Unreachable):
            await env.score()
        threading.Timer(1.0, stand_in.start).start()
        since = len(stand_in.requests)
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0
        assert stand_in.seed == 30 and "/suite/reinitialize" in routes(stand_in, since)

    asyncio.run(main())


def test_a_server_that_restarted_unseen_never_gives_a_false_zero(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING))
        stand_in.stop()
        stand_in.start()  # with its default suite, in which this task was never set up
        stand_in.scores[DOING] = 0.0
        await env.step(Finish())
        with pytest.raises(ServerFault, match="restarted, or given another suite"):
            await env.score()
        del stand_in.scores[DOING]
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0
        stand_in.stop()
        stand_in.start()  # between two episodes
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0

    asyncio.run(main())


def test_somebody_elses_suite_is_replaced(stand_in):
    async def main():
        env = make_env(stand_in)
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0
        stand_in.make_suite("information_retrieval", 1, 30)
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0

    asyncio.run(main())


def test_a_dead_server_is_waited_for_once_and_then_only_knocked_at(stand_in, monkeypatch):
    async def main():
        env = make_env(stand_in, boot_wait_s=2.5)
        stand_in.stop()
        knock, knocks = env.client.health, []
        monkeypatch.setattr(env.client, "health", lambda: knocks.append(time.monotonic()) or knock())
        with pytest.raises(Unreachable):
            await env.reset(task_of(stand_in, DOING))
        assert len(knocks) > 1 and knocks[-1] - knocks[0] > 2.0
        knocks.clear()
        with pytest.raises(Unreachable):
            await env.reset(task_of(stand_in, DOING))
        assert len(knocks) == 1
        stand_in.start()
        assert (await play(env, stand_in, task_of(stand_in, DOING))).reward == 1.0

    asyncio.run(main())


def test_a_phone_that_rebooted_in_mid_episode_is_a_fault(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING))
        stand_in.transport.phone.boot()
        await env.step(Finish())
        with pytest.raises(InfraError, match="rebooted in the middle"):
            await env.score()

    asyncio.run(main())


def test_a_goal_that_differs_is_a_server_of_another_kind(stand_in):
    async def main():
        env = make_env(stand_in)
        task = make_task(DOING, 0, "Something else.", 30, 1)
        with pytest.raises(WrongServer, match="another instance here.*Something else"):
            await env.reset(task)
        clock = make_task("MarkorCreateFolder", 0, "Named at another moment.", 30, 1)
        await env.reset(clock)  # its goal is the moment at which the suite was made
        assert env.episode.goal == stand_in.instance("MarkorCreateFolder").goal

    asyncio.run(main())


def test_the_deadline_of_an_episode_leaves_a_usable_env(stand_in):
    async def main():
        env = make_env(stand_in)
        await env.reset(task_of(stand_in, DOING))
        stand_in.init_s = 0.6
        task = task_of(stand_in, DOING)
        late = await run_episode(env, ExpertActor([stand_in]), task, "e", EpisodeSettings(deadline_s=0.3))
        assert late.status is Status.INFRA_ERROR and "deadline" in late.error
        stand_in.init_s = 0.0
        assert (await play(env, stand_in, task)).reward == 1.0

    asyncio.run(main())


# --- without adb -------------------------------------------------------------------------------------------------


def test_over_http_only(stand_in):
    async def main():
        env = make_env(stand_in, over_http=True)
        seen = await env.reset(task_of(stand_in, DOING))
        assert (seen.width, seen.height, seen.xml, seen.app) == (180, 360, "", "")
        since = len(stand_in.requests)
        for action in (Launch("contacts"), Tap(500, 500), LongPress(0, 999), Swipe(500, 700, 500, 300), Type("a b"),
                       Back(), Home(), Enter(), Wait(0.0)):  # fmt: skip
            assert (await env.step(action)).note == ""
        refused = [(await env.step(action)).note for action in (Launch("Nonesuch"), Type("smörgås"))]
        assert refused == ["there is no app called 'Nonesuch'", "this phone can only be sent ASCII text"]
        sent = [query for _, route, query in stand_in.requests[since:] if route == "/execute_action"]
        assert sent == [
            {"action_type": "open_app", "app_name": "contacts"},
            {"action_type": "click", "x": 90, "y": 180},
            {"action_type": "long_press", "x": 0, "y": 359},
            {"action_type": "scroll", "direction": "down"},
            {"action_type": "input_text", "text": "a b", "x": 0, "y": 359, "clear_text": True},
            {"action_type": "navigate_back"}, {"action_type": "navigate_home"}, {"action_type": "keyboard_enter"},
        ]  # fmt: skip
        await env.step(Finish())
        assert await env.score() == 0.0

    asyncio.run(main())


def test_health(stand_in):
    async def main():
        env = make_env(stand_in)
        assert (await env.health()).ok
        stand_in.stop()
        health = await env.health()
        assert not health.ok and "cannot be reached" in health.reason

    asyncio.run(main())
