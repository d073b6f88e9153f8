"""One episode: how it ends, and what remains of it when a device, a task or the policy fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from scripted_env import ScriptedActor, ScriptedEnv, make_task, run

from mobilerl.envs.base import Back, Finish, InfraError, Invalid, NoScore, Tap
from mobilerl.judge.scorer import NoVerdict
from mobilerl.records import Status
from mobilerl.rollout.episode import EpisodeSettings, do_rollout

BAD = Invalid("no")
ACTIONS = (Tap(1, 1), Finish("done"))


def play(env=None, actions=ACTIONS, max_steps=5, actor=None, scored=True, **settings):
    task, actor = make_task(max_steps=max_steps), actor or ScriptedActor(actions)
    rollout = run(do_rollout(env or ScriptedEnv(), actor, task, "e-00", EpisodeSettings(**settings), scored))
    return rollout.trajectory


def faulty(where: str, kind: str, step: int = 0) -> ScriptedEnv:
    env = ScriptedEnv("d7")
    env.fault = lambda at, episode: kind if at == where and env.steps >= step else "ok"
    return env


class DecidingActor(ScriptedActor):
    """Calls `before`, which may raise, before it decides."""

    def __init__(self, before, *actions) -> None:
        super().__init__(actions or (Finish(),))
        self.before = before

    async def decide(self, task, turns, *rest):
        await self.before(turns)
        return await super().decide(task, turns, *rest)


def test_finish_ends_an_episode():
    trajectory = play()
    assert (trajectory.status, trajectory.reward, trajectory.success) == (Status.FINISHED, 1.0, True)
    assert [s.action for s in trajectory.steps] == [Tap(1, 1), Finish("done")]
    assert [s.observation.step for s in trajectory.steps] == [0, 1]


@pytest.mark.parametrize(
    ("actions", "max_steps", "status", "steps"),
    [
        ((Back(),), 3, Status.TRUNCATED, 3),
        ((Back(), Finish()), 2, Status.FINISHED, 2),
        ((BAD, BAD, Back(), BAD, BAD, BAD, Finish()), 20, Status.INVALID, 6),
        ((BAD, BAD, Back(), BAD, BAD, Finish()), 20, Status.FINISHED, 6),
    ],
)
def test_the_step_budget_and_invalid_actions_in_a_row_end_an_episode(actions, max_steps, status, steps):
    trajectory = play(actions=actions, max_steps=max_steps)
    assert (trajectory.status, len(trajectory.steps)) == (status, steps)
    assert trajectory.reward == float(status is Status.FINISHED)


@pytest.mark.parametrize(
    ("actions", "status", "steps"),
    [
        ((Back(),), Status.FINISHED, [Back()] * 3 + [Finish()]),
        ((Back(), Back(), Tap(1, 1), Back(), Back(), Finish()), Status.FINISHED, None),
        ((Back(), Back(), BAD), Status.INVALID, None),
    ],
)
def test_an_agent_that_is_stuck_finishes(actions, status, steps):
    trajectory = play(actions=actions, max_steps=9, max_invalid=1, most_equal=3, finishes_invalid=True)
    assert [s.action for s in trajectory.steps] == (list(actions) if steps is None else steps)
    assert (trajectory.status, trajectory.reward) == (status, 1.0)
    assert play(actions=(BAD,), max_steps=1, max_invalid=1, finishes_invalid=True).reward == 0.0, "it was over anyway"


def test_the_note_of_a_refused_action_is_in_the_turns_of_later_steps():
    class Refusing(ScriptedEnv):
        async def step(self, action):
            result = await super().step(action)
            return replace(result, note="no such app" if isinstance(action, Back) else "")

    notes = []

    async def read(turns):
        notes.append([turn.note for turn in turns])

    trajectory = play(env=Refusing(), actor=DecidingActor(read, Tap(1, 1), Back(), Finish("done")))
    assert [s.note for s in trajectory.steps] == ["", "no such app", ""]
    assert notes == [[], [""], ["", "no such app"]]


def judged(answers, actions, **settings):
    """(episode, number of actions that the judge was told of at each question)"""
    asked = []

    async def solved(trajectory, final):
        asked.append(len(trajectory.steps))
        assert final.step == len(trajectory.steps) and trajectory.task.instruction == "do a"
        return await answers(len(asked))

    actor, limits = ScriptedActor(actions), EpisodeSettings(**settings)
    return run(do_rollout(ScriptedEnv("d7"), actor, make_task(), "e-00", limits, scored=False, solved=solved)), asked


def test_a_judge_that_is_asked_after_every_action_ends_an_episode():
    async def third(number):
        return number == 3

    played, asked = judged(third, (Back(), BAD, Back()))
    assert (played.trajectory.status, played.trajectory.reward) == (Status.FINISHED, 1.0)
    assert played.solved and asked == [1, 3, 4] and len(played.trajectory.steps) == 4, "not after the invalid one"
    played, asked = judged(third, (Back(), Finish()))
    assert not played.solved and asked == [1] and played.trajectory.reward == 0.0, "scored by the caller"


def test_a_judge_without_a_verdict_is_no_failure_of_the_agent_and_not_the_devices():
    async def none(number):
        raise NoVerdict("no verdict")

    async def hang(number):
        await asyncio.sleep(60)

    for answers, deadline_s, says in ((none, 60.0, "no verdict"), (hang, 0.05, "while the judge was asked")):
        played, _ = judged(answers, (Back(),), deadline_s=deadline_s)
        assert played.trajectory.status is Status.INFRA_ERROR and says in played.trajectory.error
        assert isinstance(played.fault, NoVerdict) and not played.solved


@pytest.mark.parametrize(("where", "step", "kept"), [("reset", 0, 0), ("step", 0, 0), ("step", 1, 1), ("score", 0, 2)])
@pytest.mark.parametrize("kind", ["infra", "hang"])
def test_a_device_failure_is_never_an_exception_or_a_reward(kind, where, step, kept):
    trajectory = play(faulty(where, kind, step), deadline_s=0.5 if kind == "hang" else 60.0)
    assert (trajectory.status, trajectory.reward, len(trajectory.steps)) == (Status.INFRA_ERROR, 0.0, kept)
    assert trajectory.error.startswith("d7: ") and ("deadline" in trajectory.error) == (kind == "hang")


def test_without_scoring_device_failures_count_but_a_broken_check_does_not():
    assert play(faulty("score", "infra"), scored=False).status is Status.INFRA_ERROR
    assert (play(scored=False).status, play(scored=False).reward) == (Status.FINISHED, 0.0)

    class Unscorable(ScriptedEnv):
        async def score(self):
            raise NoScore

    assert [play(Unscorable(), scored=s).status for s in (True, False)] == [Status.INFRA_ERROR, Status.FINISHED]


@pytest.mark.parametrize("error", [RuntimeError("no model"), TimeoutError("the model server does not answer")])
def test_errors_of_the_policy_propagate(error):
    async def fail(turns):
        raise error

    with pytest.raises(type(error), match=str(error)):
        play(actor=DecidingActor(fail))


def test_infrastructure_errors_and_hangs_of_the_policy_do_not():
    async def lose(turns):
        raise InfraError("lost the phone")

    async def hang(turns):
        await asyncio.sleep(60)

    assert play(actor=DecidingActor(lose)).status is Status.INFRA_ERROR
    assert "policy" in play(actor=DecidingActor(hang), deadline_s=0.02).error
