"""Agents without a model, for checking a suite: expert, noop, finish, random."""

from __future__ import annotations

import random
from collections.abc import Sequence

from envs.base import Finish, Observation, Task, Wait
from envs.phone.env import PhoneEnv
from envs.phone.tasks.expert import ExpertAgent
from mobilerl.agent.actor import Actor, Decision, scripted
from mobilerl.agent.candidates import candidates
from mobilerl.agent.context import Turn
from mobilerl.agent.screen import Screen

SCRIPTED = ("expert", "noop", "finish", "random")


class ExpertActor:
    """The scripted expert of every task of the embedded phone.

    Some scripts need what a task's set-up drew on the phone, so the expert is given the phones it plays on.
    """

    def __init__(self, envs: Sequence[PhoneEnv]) -> None:
        self._envs = envs
        self._playing: dict[str, ExpertAgent] = {}

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        if not turns:
            # Equal tasks are set up equally, so any phone that plays this one will do.
            self._playing[key] = ExpertAgent(next(e.template for e in self._envs if e.task == task))
        try:
            return scripted(self._playing[key].act(observation))
        except LookupError as lost:  # the phone rebooted, say: the score tells whose fault it was
            return scripted(Finish(), str(lost))


class NoopActor:
    """Waits until the step budget is used up."""

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        return scripted(Wait())


class FinishActor:
    """Says at once that it is done."""

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        return scripted(Finish())


class RandomActor:
    """A uniformly random candidate action of the screen, repeatable by seed and episode."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        rng = random.Random(f"{self._seed}/{key}/{len(turns)}")
        return scripted(rng.choice([*candidates(screen), Finish()]))


def scripted_actor(name: str, seed: int, envs: Sequence[PhoneEnv]) -> Actor:
    """Raises ValueError for a name that is not in `SCRIPTED`."""
    if name == "random":
        return RandomActor(seed)
    if name == "expert":
        return ExpertActor(envs)
    kinds = {"noop": NoopActor, "finish": FinishActor}
    if name not in kinds:
        raise ValueError(f"no agent is called {name!r}; choose one of policy, {', '.join(SCRIPTED)}")
    return kinds[name]()
