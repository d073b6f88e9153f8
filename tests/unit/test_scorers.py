"""Rewards of scorers and environments: numbers of any type from functions or classes, and what is no reward."""

from __future__ import annotations

import sys
from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
import torch
from collecting import fleet
from scripted_env import ScriptedActor, make_task, run

from mobilerl.config import ConfigError
from mobilerl.judge.scorer import own_scorer
from mobilerl.rollout.collector import Collector, CollectorSettings

MODULE = """
closed = []
def function(trajectory, final): return VALUE
async def coroutine(trajectory, final): return VALUE
class Bare:
    def score(self, trajectory, final): return VALUE
class Whole:
    async def score(self, trajectory, final): return VALUE
    def metrics(self): return {"scorer/x": 1.0}
    def close(self): closed.append(self)
made = Bare()
class Needs:
    def __init__(self, weight): pass
def alone(trajectory): return 1.0
class Empty: pass
"""
TASK = make_task()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """(value) -> the module `their_scorers`, whose scorers return that value."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_scorers", raising=False)
    (tmp_path / "their_scorers.py").write_text(MODULE)

    def returning(value):
        made = import_module("their_scorers")
        made.VALUE = value
        return made

    return returning


def reward(name: str | None, envs=None) -> float:
    async def main() -> float:
        scorer = own_scorer(f"their_scorers:{name}") if name else None
        settings = CollectorSettings(group_size=1)
        async with Collector(envs or fleet(1), ScriptedActor(), settings, scorer=scorer) as collector:
            (group,) = await collector.collect([TASK], "i0")
            return group.trajectories[0].reward

    return run(main())


@pytest.mark.parametrize("name", ["function", "coroutine", "Bare", "Whole", "made"])
@pytest.mark.parametrize("value", [np.float32(0.5), torch.tensor(0.5), Fraction(1, 2)], ids=repr)
def test_a_reward_may_be_a_number_of_any_type(module, name, value):
    module(value)
    got = reward(name)
    assert got == 0.5 and type(got) is float


@pytest.mark.parametrize("value", [np.bool_(True), True, torch.tensor(True), 1, 1.0000001])
def test_bools_and_rounding_errors_are_rewards(module, value):
    module(value)
    assert reward("function") == 1.0


@pytest.mark.parametrize(
    "value", [2.0, -0.1, float("nan"), None, "0.5", 1j, np.array([1.0, 0.0]), torch.ones(2)], ids=repr
)
@pytest.mark.parametrize("name", ["function", "Whole"])
def test_anything_else_is_named_with_its_scorer_and_task(module, name, value):
    module(value)
    with pytest.raises(
        ConfigError, match=rf"rollout.scorer = 'their_scorers:{name}' gave .* of the task {TASK.id}: a rew"
    ):
        reward(name)


def test_the_reward_of_an_environment_is_checked_as_well():
    (env,) = fleet(1)

    async def score():
        return given

    env.score = score
    given = np.float32(1.0)
    assert reward(None, [env]) == 1.0
    given = 7
    with pytest.raises(ConfigError, match=r"ScriptedEnv.score gave 7 as the reward of the task"):
        reward(None, [env])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Needs", "is a class that needs arguments: .*weight"),
        ("alone", "cannot be called with the trajectory and the last screen: too many"),
        ("Empty", "give a function, or a class with a method `score`"),
        ("none", "cannot be imported .*: correct the name"),
    ],
)
def test_what_is_no_scorer_is_refused_at_the_start(module, name, says):
    with pytest.raises(ConfigError, match=says):
        own_scorer(f"their_scorers:{name}")


def test_metrics_and_close_are_optional(module):
    theirs = module(1.0)
    assert own_scorer("their_scorers:Bare").metrics() == {}
    assert own_scorer("their_scorers:Whole").metrics() == {"scorer/x": 1.0}
    reward("Whole")
    assert len(theirs.closed) == 1
