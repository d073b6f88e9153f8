"""`AndroidWorldEnv` against the stand-in: the order of things, and what happens when the server misbehaves."""

from __future__ import annotations

import threading

import pytest
from androidworld_expert import ExpertActor
from androidworld_play import stand_ins_fixture  # noqa: F401 - a fixture
from androidworld_server import StandIn, in_process

from mobilerl.envs.androidworld.access import AdbAccess, HttpAccess
from mobilerl.envs.androidworld.client import AndroidWorldClient
from mobilerl.envs.androidworld.env import AndroidWorldEnv
from mobilerl.envs.androidworld.faults import ServerFault, Unreachable
from mobilerl.envs.androidworld.tasks import SENTINELS, make_task
from mobilerl.envs.base import Back, Enter, Finish, Home, InfraError, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.envs.live_device import Settle
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.records import Status
from mobilerl.rollout.episode import EpisodeSettings, run_episode

DOING, ANSWERING = "ContactsAddContact", "NotesIsTodo"
FAST = Settle(0.0, 0.0)


@pytest.fixture
def stand_in(stand_ins):
    return stand_ins()


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


async def test_an_episode_in_androidworlds_order(stand_in):
    env = make_env(stand_in)
    trajectory = await play(env, stand_in, task_of(stand_in, DOING))
    assert (trajectory.status, trajectory.reward) == (Status.FINISHED, 1.0)
    assert all(s.observation.xml and s.observation.screenshot for s in trajectory.steps)
    assert env.episode.probe == 0.0 and env.episode.raw_score == 1.0
    marks = ["/task/goal"] * len(SENTINELS)
    assert routes(stand_in) == [
        "/health",
        "/suite/reinitialize",
        *marks,
        "/task/goal",
        "/task/initialize",
        "/task/score",
        "/task/goal",
        "/reset",
        *marks,
        "/task/score",
        "/task/tear_down",
    ]
    assert stand_in.requests[1][2] == {"n_task_combinations": "1", "seed": "30", "task_family": "android_world"}


@pytest.mark.parametrize("name", ["SimpleCalendarEventsInTimeRange", "TurnOnWifiAndOpenApp", DOING])
async def test_every_play_of_an_instance_is_the_test_that_a_first_play_is(stand_in, name):
    """Reworded goals and composites among them: the agent is told what AndroidWorld says after the set-up."""
    env = make_env(stand_in)
    task = task_of(stand_in, name)
    fresh = StandIn(in_process())
    fresh.make_suite("android_world", 1, 30)
    fresh.instance(name).initialize(name)
    for _ in range(3):
        trajectory = await play(env, stand_in, task)
        assert (trajectory.status, trajectory.reward) == (Status.FINISHED, 1.0)
        assert trajectory.task.instruction == env.episode.goal == fresh.instance(name).goal


async def test_the_answer_is_sent_before_the_score_and_only_where_one_is_asked_for(stand_in):
    env = make_env(stand_in)
    await play(env, stand_in, task_of(stand_in, DOING))
    assert "/execute_action" not in routes(stand_in)
    assert (await play(env, stand_in, task_of(stand_in, ANSWERING))).reward == 1.0
    sent = [query for _, route, query in stand_in.requests if route == "/execute_action"]
    assert len(sent) == 1 and sent[0]["action_type"] == "answer" and sent[0]["text"]

    await env.reset(task_of(stand_in, ANSWERING))
    await env.step(Finish("surely not this"))
    assert await env.score() == 0.0


async def test_free_rewards_are_found_and_a_check_that_raises_that_early_is_none(stand_in):
    env = make_env(stand_in)
    await env.reset(task_of(stand_in, "SystemWifiTurnOnVerify"))
    assert env.episode.probe == 1.0
    await env.step(Finish())
    assert await env.score() == 1.0
    trajectory = await play(env, stand_in, task_of(stand_in, "RetroPlayingQueue"))
    assert trajectory.reward == 1.0 and env.episode.probe is None


async def test_a_server_that_dies_in_mid_episode_is_a_fault_and_is_waited_for(stand_in):
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


async def test_a_server_that_restarted_unseen_never_gives_a_false_zero(stand_in):
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


async def test_a_phone_that_rebooted_in_mid_episode_is_a_fault(stand_in):
    env = make_env(stand_in)
    await env.reset(task_of(stand_in, DOING))
    stand_in.transport.phone.boot()
    await env.step(Finish())
    with pytest.raises(InfraError, match="rebooted in the middle"):
        await env.score()


async def test_over_http_only(stand_in):
    env = make_env(stand_in, over_http=True)
    seen = await env.reset(task_of(stand_in, DOING))
    assert (seen.width, seen.height, seen.xml, seen.app) == (180, 360, "", "")
    since = len(stand_in.requests)
    for action in (
        Launch("contacts"),
        Tap(500, 500),
        LongPress(0, 999),
        Swipe(500, 700, 500, 300),
        Type("a b"),
        Back(),
        Home(),
        Enter(),
        Wait(0.0),
    ):
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
        {"action_type": "navigate_back"},
        {"action_type": "navigate_home"},
        {"action_type": "keyboard_enter"},
    ]
    await env.step(Finish())
    assert await env.score() == 0.0
