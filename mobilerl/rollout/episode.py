"""Plays one episode of a task with an actor on a device."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from mobilerl.config import AgentSection
from mobilerl.envs.base import Finish, InfraError, Invalid, MobileEnv, NoScore, Observation, Task, TaskFault, as_worded
from mobilerl.judge.scorer import NoVerdict, Solved
from mobilerl.policy.actor import Actor, make_decision
from mobilerl.policy.context import make_context
from mobilerl.policy.screen import parse_screen
from mobilerl.policy.turns import Turn
from mobilerl.records import Status, Step, Trajectory
from mobilerl.rollout.reward import check_reward

POLICY, JUDGE = "its policy", "the judge"


@dataclass(frozen=True, slots=True)
class Rollout:
    """A played episode and the observation after its last step (None if the device failed before that)."""

    trajectory: Trajectory
    final: Observation | None
    fault: TaskFault | NoVerdict | None = None
    """Cause of an INFRA_ERROR that is the task's own fault or the judge's; None if a device or nothing failed."""
    solved: bool = False
    """Whether the judge ended it as a success."""


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """Limits of an episode. `max_invalid` invalid actions in a row end it; `deadline_s` ends it as an infra error."""

    max_invalid: int = 3
    deadline_s: float = 600.0
    random_marks: bool = False
    most_equal: int | None = None
    """Equal actions in a row after which the agent finishes without being asked; None for no limit."""
    finishes_invalid: bool = False
    """Whether an agent whose responses are invalid `max_invalid` times in a row finishes, so that the state counts."""


def episode_settings(agent: AgentSection) -> EpisodeSettings:
    equal = make_context(agent).most_equal
    return EpisodeSettings(agent.max_invalid, agent.deadline_s, agent.random_marks, equal)


async def run_episode(
    env: MobileEnv, actor: Actor, task: Task, episode_id: str, settings: EpisodeSettings
) -> Trajectory:
    """Plays an episode and returns its trajectory, with the reward of the task's own check."""
    return (await do_rollout(env, actor, task, episode_id, settings)).trajectory


async def do_rollout(
    env: MobileEnv,
    actor: Actor,
    task: Task,
    episode_id: str,
    settings: EpisodeSettings,
    scored: bool = True,
    solved: Solved | None = None,
) -> Rollout:
    """Plays `task` to its end. A device failure or a missed deadline gives status INFRA_ERROR, never an exception.

    Unless `scored`, the reward is 0 and has to be assigned by the caller. An episode ends with the reward 1 as soon as
    `solved`, which is asked after every action, says so. The trajectory's task has the instruction as it was given,
    since some environments word it only when they set the task up.
    """
    start = time.monotonic()
    steps: list[Step] = []
    progress = _Progress(task, steps, solved)
    final: Observation | None = None
    blamed: TaskFault | NoVerdict | None = None
    try:
        async with asyncio.timeout(settings.deadline_s) as deadline:
            try:
                status, final = await _run_steps(env, actor, episode_id, settings, progress)
                reward = max(await _score(env, task, scored), float(progress.solved))
            except TaskFault as fault:
                await _check_health(env, fault)
                blamed = fault
                raise
            except NoVerdict as fault:
                blamed = fault
                raise
        error = ""
    except InfraError as fault:
        status, reward, error = Status.INFRA_ERROR, 0.0, str(fault)
    except TimeoutError:
        if not deadline.expired():  # for example the policy's own timeout, which is no device's fault
            raise
        status, reward = Status.INFRA_ERROR, 0.0
        where = f" while {progress.asking} was asked" if progress.asking else ""
        error = f"{env.device_id}: the episode missed its deadline of {settings.deadline_s:g} s{where}"
        blamed = NoVerdict(error) if progress.asking == JUDGE else None
    trajectory = Trajectory(
        id=episode_id,
        task=progress.task,
        steps=tuple(steps),
        reward=reward,
        status=status,
        device_id=env.device_id,
        error=error,
        wall_s=time.monotonic() - start,
    )
    return Rollout(trajectory, final, blamed, progress.solved)


async def _check_health(env: MobileEnv, fault: TaskFault) -> None:
    """Raises InfraError if the device is unhealthy, since a task's code also raises if the device died."""
    health = await env.health()
    if not health.ok:
        raise InfraError(f"{health.reason} (after: {fault})") from fault


async def _score(env: MobileEnv, task: Task, scored: bool) -> float:
    """Reward of the task's own check, or 0 unless `scored`. The check runs in either case, because it finds faults that
    steps do not, such as a reboot. Raises NoScore for a task without a check if its reward is needed.
    """
    try:
        reward = await env.score()
    except NoScore:
        if scored:
            raise
        return 0.0
    return check_reward(reward, f"{type(env).__name__}.score", task.id) if scored else 0.0


@dataclass(slots=True)
class _Progress:
    """Progress of an episode, so that the steps before a fault are not lost."""

    task: Task
    steps: list[Step]
    judge: Solved | None
    asking: str = ""
    """Who is being asked: the policy or the judge."""
    solved: bool = False

    async def judged(self, episode_id: str, device_id: str, seen: Observation) -> bool:
        """Whether the judge, if it is to be asked, says that the task is done. `seen` is the screen after the step."""
        if self.judge is None or isinstance(self.steps[-1].action, Invalid):  # which changes nothing
            return False
        self.asking = JUDGE
        so_far = Trajectory(episode_id, self.task, tuple(self.steps), 0.0, Status.TRUNCATED, device_id)
        self.solved = await self.judge(so_far, seen)
        self.asking = ""
        return self.solved


async def _run_steps(
    env: MobileEnv, actor: Actor, episode_id: str, settings: EpisodeSettings, progress: _Progress
) -> tuple[Status, Observation]:
    """Returns the status and the observation after the last step, updating `progress` along the way."""
    turns: list[Turn] = []
    invalid = equal = 0
    observation = await env.reset(progress.task)
    task = progress.task = as_worded(env, progress.task)
    while True:
        screen = parse_screen(observation.xml, observation.width, observation.height, settings.random_marks)
        asked = time.monotonic()
        progress.asking = POLICY
        if settings.most_equal and equal >= settings.most_equal:
            decision = make_decision(Finish())
        else:
            decision = await actor.decide(task, turns, observation, screen, episode_id)
        progress.asking = ""
        thought_s = time.monotonic() - asked
        result = await env.step(decision.action)
        step = Step(
            observation=observation,
            completion=decision.completion,
            images=decision.images,
            thought=decision.thought,
            action=decision.action,
            timings={"policy": thought_s, **result.timings},
            note=result.note,
        )
        progress.steps.append(step)
        equal = equal + 1 if turns and turns[-1].action == step.action else 1
        turns.append(Turn.of(step, screen))
        invalid = invalid + 1 if isinstance(decision.action, Invalid) else 0
        if isinstance(decision.action, Finish) or result.finished:
            return Status.FINISHED, result.observation
        if await progress.judged(episode_id, env.device_id, result.observation):
            return Status.FINISHED, result.observation
        if invalid >= settings.max_invalid:
            if settings.finishes_invalid and not result.done:
                await env.step(Finish())
            return Status.INVALID, result.observation
        if result.done:
            return Status.TRUNCATED, result.observation
        observation = result.observation
