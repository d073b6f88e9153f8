"""What a notebook does, below a running event loop as there: a phone, an agent, some training, a table."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
import torch

import mobilerl
from mobilerl import Agent, PhoneEnv, evaluate, load_recipe, make_task, train
from mobilerl.config import ConfigError
from mobilerl.envs.base import Tap
from mobilerl.models import tiny
from mobilerl.records import Status

FLAGS = """--fleet.count 2 --phone.width 180 --phone.height 360 --agent.screenshots 0 --agent.max_new_tokens 6
    --train.iterations 2 --rollout.tasks_per_iteration 2 --algorithm.group_size 2 --rollout.workers 0
    --algorithm.dynamic_sampling false --tasks.per_template 1""".split()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    torch.manual_seed(0)
    tiny.create(path, ["open the settings clock go home"], hidden=32, layers=1, heads=2, vision_hidden=16)
    return path


def test_a_notebook(model, tmp_path):
    async def cells() -> None:
        phone = PhoneEnv(width=180, height=360)
        observation = await phone.reset(make_task("MusicPause", 0))
        assert observation.image.size == (180, 360)
        assert "screenshot" not in repr(observation) and len(repr(observation)) < 200
        assert (await phone.step(Tap(500, 500))).observation.step == 1
        trajectory = Agent(model).rollout(phone, make_task("MusicPause", 1))
        assert trajectory.status is not Status.INFRA_ERROR and trajectory.steps
        rows = train(load_recipe(None, ["--model", str(model), *FLAGS]), tmp_path / "run")
        assert [row["iteration"] for row in rows] == [1, 2]
        longer = load_recipe(None, ["--model", str(model), *FLAGS, "--train.iterations", "3"])
        assert len(train(longer, tmp_path / "run", resume=True)) == 3
        results = evaluate(load_recipe(None, FLAGS), tmp_path / "run", instances=1, templates=["MusicPause"])
        assert results["trials"] == 1 and 0.0 <= results["success_rate"] <= 1.0

    asyncio.run(cells())


def test_gymnasium_below_an_event_loop():
    gymnasium = pytest.importorskip("gymnasium")

    async def cell() -> None:
        env = gymnasium.make("mobilerl.adapters.gym_env:mobilerl/Phone-v0", width=180, height=360)
        pixels, info = env.reset(seed=1)
        assert pixels.shape == (360, 180, 3) and info["instruction"]
        env.close()

    asyncio.run(cell())


def test_a_mistake_leaves_nothing_behind(model, tmp_path):
    with pytest.raises(ConfigError, match="the recipe has no model"):
        train(load_recipe(None, FLAGS), tmp_path / "run")
    with pytest.raises(ConfigError, match="no training template 'None'"):
        train(load_recipe(None, ["--model", str(model), "--tasks.templates", '["None"]', *FLAGS]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_train_is_a_function_in_every_order_of_imports():
    for first in ("import mobilerl.training", "from mobilerl import Agent", "pass"):
        code = (
            f"{first}\nfrom mobilerl import train\nimport mobilerl\nassert callable(train) and train is mobilerl.train"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
    subprocess.run([sys.executable, "-c", "import mobilerl; assert callable(mobilerl.train)"], check=True)
    assert set(mobilerl.__all__) <= {name for name in mobilerl.__all__ if getattr(mobilerl, name)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mobilerl.nothing
