"""One episode: how it ends, and what is left of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from scripted_env import ScriptedActor, ScriptedEnv, make_task, run

from envs.base import Back, Finish, InfraError, Invalid, NoScore, Tap
from mobilerl.records import Status
from mobilerl.rollout.episode import EpisodeSettings, play_episode, run_episode

BAD = Invalid("no")


ACTIONS = (Tap(1, 1), Finish("done"))


def play(env=None, actions=ACTIONS, max_steps=5, actor=None, **settings):
    task = make_task(max_steps=max_steps)
    actor = actor or ScriptedActor(actions)
    return run(run_episode(env or ScriptedEnv(), actor, task, "e-00", EpisodeSettings(**settings)))


def faulty(where: str, kind: str, step: int = 0) -> ScriptedEnv:
    env = ScriptedEnv("d7")
    env.fault = lambda at, episode: kind if at == where and env.steps >= step else "ok"
    return env


def test_finish_ends_an_episode():
    trajectory = play()
    assert (trajectory.status, trajectory.reward, trajectory.success) == (Status.FINISHED, 1.0, True)
    assert [s.action for s in trajectory.steps] == [Tap(1, 1), Finish("done")]
    assert [s.observation.step for s in trajectory.steps] == [0, 1]
    assert (trajectory.id, trajectory.device_id, trajectory.error) == ("e-00", "d0", "")
    assert set(trajectory.steps[0].timings) == {"policy", "act"}
    assert trajectory.wall_s > 0


def test_what_a_device_did_not_do_is_kept_and_told_at_the_next_step_only():
    class Refusing(ScriptedEnv):
        async def step(self, action):
            result = await super().step(action)
            return replace(result, note="no such app" if isinstance(action, Back) else "")

    told = []

    class Reading(ScriptedActor):
        async def decide(self, task, turns, *rest):
            told.append([turn.note for turn in turns])
            return await super().decide(task, turns, *rest)

    actions = (Tap(1, 1), Back(), Finish("done"))
    trajectory = play(env=Refusing(), actor=Reading(actions))
    assert [s.note for s in trajectory.steps] == ["", "no such app", ""]
    assert told == [[], [""], ["", "no such app"]]


def test_the_budget_ends_an_episode():
    trajectory = play(actions=(Back(),), max_steps=3)
    assert (trajectory.status, trajectory.reward, len(trajectory.steps)) == (Status.TRUNCATED, 0.0, 3)


def test_finish_on_the_last_step_of_the_budget_is_finished():
    assert play(actions=(Back(), Finish()), max_steps=2).status is Status.FINISHED


@pytest.mark.parametrize(
    ("actions", "status", "steps"),
    [
        ((BAD,), Status.INVALID, 3),
        ((BAD, BAD, Back(), BAD, BAD, BAD, Finish()), Status.INVALID, 6),
        ((BAD, BAD, Back(), BAD, BAD, Finish()), Status.FINISHED, 6),
    ],
)
def test_only_unreadable_actions_in_a_row_end_an_episode(actions, status, steps):
    trajectory = play(actions=actions, max_steps=20, max_invalid=3)
    assert (trajectory.status, len(trajectory.steps)) == (status, steps)
    assert trajectory.reward == float(status is Status.FINISHED)


@pytest.mark.parametrize(("where", "step", "kept"), [("reset", 0, 0), ("step", 0, 0), ("step", 1, 1), ("score", 0, 2)])
def test_a_fault_of_the_device_is_never_an_exception_or_a_reward(where, step, kept):
    trajectory = play(faulty(where, "infra", step))
    assert (trajectory.status, trajectory.reward) == (Status.INFRA_ERROR, 0.0)
    assert trajectory.error == f"d7: {where} failed"
    assert len(trajectory.steps) == kept


def test_a_device_that_rebooted_unseen_is_found_out_also_when_somebody_else_gives_the_reward():
    played = run(play_episode(faulty("score", "infra"), ScriptedActor(ACTIONS), make_task(), "e", EpisodeSettings(),
                              scored=False))  # fmt: skip
    assert (played.trajectory.status, played.trajectory.error) == (Status.INFRA_ERROR, "d7: score failed")
    played = run(play_episode(ScriptedEnv(), ScriptedActor(ACTIONS), make_task(), "e", EpisodeSettings(), scored=False))
    assert (played.trajectory.status, played.trajectory.reward) == (Status.FINISHED, 0.0)


@pytest.mark.parametrize(("scored", "status"), [(True, Status.INFRA_ERROR), (False, Status.FINISHED)])
def test_a_check_that_cannot_be_carried_out_matters_only_to_who_needs_it(scored, status):
    class Unscorable(ScriptedEnv):
        async def score(self):
            raise NoScore("d7: the task's check raised")

    played = run(play_episode(Unscorable(), ScriptedActor(ACTIONS), make_task(), "e", EpisodeSettings(), scored))
    assert (played.trajectory.status, played.trajectory.reward) == (status, 0.0)


def test_a_deadline_missed_by_a_policy_that_hangs_says_so():
    class Hanging(ScriptedActor):
        async def decide(self, *_):
            await asyncio.sleep(60)

    assert play(actor=Hanging(), deadline_s=0.02).error.endswith("deadline of 0.02 s while its policy was asked")


@pytest.mark.parametrize("where", ["reset", "step", "score"])
def test_a_missed_deadline_is_a_fault_of_the_device(where):
    trajectory = play(faulty(where, "hang"), deadline_s=0.5)
    assert (trajectory.status, trajectory.reward) == (Status.INFRA_ERROR, 0.0)
    assert trajectory.error == "d7: the episode missed its deadline of 0.5 s"


def test_what_the_policy_raises_comes_through():
    class Broken(ScriptedActor):
        async def decide(self, *_):
            raise self.error

    for error in (RuntimeError("no model"), TimeoutError("the model server does not answer")):
        actor = Broken()
        Broken.error = error
        with pytest.raises(type(error), match=str(error)):
            play(actor=actor)


def test_a_fault_named_by_the_actor_counts_as_one():
    class Lost(ScriptedActor):
        async def decide(self, *_):
            raise InfraError("lost the phone")

    assert play(actor=Lost()).status is Status.INFRA_ERROR
