"""Agents without a model, to check a suite: expert, noop, finish and random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from mobilerl.envs.base import Action, Finish, Observation, Task, Wait
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.policy.actions import candidates
from mobilerl.policy.actor import Actor, Decision, make_decision
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn

SCRIPTED = ("expert", "noop", "finish", "random")
CONSTANT: dict[str, Action] = {"noop": Wait(), "finish": Finish()}
"""Agents that always take the same action: noop waits until the step budget is used up, finish ends immediately."""


class ExpertActor:
    """The scripted experts of the embedded phone's tasks.

    Some scripts depend on what a task's set-up drew on the phone, so the actor needs access to the phones.
    """

    def __init__(self, envs: Sequence[PhoneEnv]) -> None:
        self._envs = envs
        self._experts: dict[str, ExpertAgent] = {}

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        if not turns:
            # Equal tasks are set up equally, so any phone that runs this task will do.
            self._experts[key] = ExpertAgent(next(e.template for e in self._envs if e.task == task))
        try:
            return make_decision(self._experts[key].act(observation))
        except LookupError as lost:  # the phone may have rebooted, which scoring detects
            return make_decision(Finish(), str(lost))


class ScriptedActor:
    """Takes the action that `choose` returns for the episode's key, number of steps and screen."""

    def __init__(self, choose: Callable[[str, int, Screen], Action]) -> None:
        self._choose = choose

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        return make_decision(self._choose(key, len(turns), screen))


def scripted_actor(name: str, seed: int, envs: Sequence[PhoneEnv]) -> Actor:
    """Makes the agent `name`; `random` depends only on seed and episode. Raises ValueError for an unknown name."""

    def at_random(key: str, step: int, screen: Screen) -> Action:
        return random.Random(f"{seed}/{key}/{step}").choice([*candidates(screen), Finish()])

    if name == "random":
        return ScriptedActor(at_random)
    if name == "expert":
        return ExpertActor(envs)
    if name not in CONSTANT:
        raise ValueError(f"no agent is called {name!r}; choose one of policy, {', '.join(SCRIPTED)}")
    return ScriptedActor(lambda *_: CONSTANT[name])
