"""The phone as a `gymnasium.Env`, with Gymnasium's own checker and a scripted expert."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="no Gymnasium: pip install gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from mobilerl.adapters.flat import COORDINATES, KINDS  # noqa: E402
from mobilerl.adapters.gym_env import PhoneGym  # noqa: E402
from mobilerl.envs.base import Action, Observation  # noqa: E402
from mobilerl.envs.phone.tasks.expert import ExpertAgent  # noqa: E402
from mobilerl.envs.phone.tasks.suite import make_task  # noqa: E402

ID = "mobilerl.adapters.gym_env:mobilerl/Phone-v0"


@pytest.fixture
def env() -> Iterator[PhoneGym]:
    made = gymnasium.make(ID, render_mode="rgb_array")
    yield made.unwrapped
    made.close()


def flat(action: Action) -> dict[str, object]:
    """The inverse of `flat_action`."""
    text = next((getattr(action, name) for name in ("text", "app", "message") if hasattr(action, name)), "")
    return {name: getattr(action, name, 0) for name in COORDINATES} | {"kind": KINDS.index(action.kind), "text": text}


def test_gymnasiums_checker_accepts_it(env: PhoneGym) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


def test_an_expert_gets_its_reward(env: PhoneGym) -> None:
    pixels, info = env.reset(options={"task": make_task("CalculatorCompute", 3)})
    expert = ExpertAgent(env.env.template)
    rewards, done = [], False
    while not done:
        seen = Observation(b"", pixels.shape[1], pixels.shape[0], info["xml"], info["app"], 0)
        action = flat(expert.act(seen))
        assert action in env.action_space
        pixels, reward, done, truncated, info = env.step(action)
        assert not truncated
        rewards.append(reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]


def test_the_step_budget_truncates_and_the_seed_selects_the_task(env: PhoneGym) -> None:
    again = PhoneGym()
    first, info = env.reset(seed=11)
    second, same = again.reset(seed=11)
    assert info["task_id"] == same["task_id"] and np.array_equal(first, second)
    assert len({env.reset(seed=s)[1]["task_id"] for s in range(8)}) > 1
    back = {name: 0 for name in COORDINATES} | {"kind": KINDS.index("back"), "text": ""}
    for step in range(env.task.max_steps):
        _, reward, terminated, truncated, _ = env.step(back)
        assert (reward, terminated, truncated) == (0.0, False, step + 1 == env.task.max_steps)
    again.close()
