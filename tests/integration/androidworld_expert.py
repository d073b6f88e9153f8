"""Plays what stands behind the names of AndroidWorld's tasks on the stand-in for its server."""

from __future__ import annotations

from collections.abc import Sequence

from androidworld_server import StandIn, in_process

from mobilerl.envs.base import Finish, Observation, Task, Wait
from mobilerl.envs.phone.tasks.base import Admin
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.policy.actor import Decision, make_decision
from mobilerl.policy.screen import Screen
from mobilerl.policy.turns import Turn


class ExpertActor:
    """Plays the scripts of the embedded phone's tasks behind the names. `unfinished` never says that it is done."""

    def __init__(self, stand_ins: Sequence[StandIn], unfinished: Sequence[str] = ()) -> None:
        self._stand_ins, self._unfinished = stand_ins, unfinished
        self._playing: dict[str, ExpertAgent | None] = {}

    async def decide(
        self, task: Task, turns: Sequence[Turn], observation: Observation, screen: Screen, key: str
    ) -> Decision:
        if not turns:
            instances = [s.suite[task.template][task.params["index"]] for s in self._stand_ins]
            # Equal tasks are set up equally, so any server that has this one will do.
            instance = next(i for i in instances if i.initialized and i.goal == task.instruction)
            self._playing[key] = ExpertAgent(instance.template)
        expert = self._playing[key]
        action = expert.act(observation) if expert else Wait()
        if isinstance(action, Finish) and task.template in self._unfinished:
            self._playing[key], action = None, Wait()
        return make_decision(action)


def same_suite(combinations: int, seed: int) -> StandIn:
    """The instances of a stand-in that runs elsewhere: equal seeds give equal ones. It serves nothing."""
    shadow = StandIn(in_process())
    shadow.make_suite("android_world", combinations, seed)
    for name, instances in shadow.suite.items():
        for instance in instances:
            shadow._run("sim", "reset", "--seed", str(instance.phone_seed), "--popups", "0")
            instance.template.setup(Admin(shadow.transport))  # some scripts need what it draws
            instance.initialize(name)
    return shadow
