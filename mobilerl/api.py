"""API for notebooks and programs: `from mobilerl import Agent, PhoneEnv, evaluate, load_recipe, make_task, train`.

All functions block, even if an event loop is running, as in a notebook. Environments are asynchronous:
`await phone.reset(task)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mobilerl.config import AgentSection, ConfigError, EngineSection, Recipe
from mobilerl.engines.registry import make_engine
from mobilerl.envs.base import MobileEnv, Task
from mobilerl.envs.blocking import outside, run
from mobilerl.eval.policies import POLICY, find_model
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.models.text_models import check_screenshots
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import make_context
from mobilerl.policy.formats.choice import published_name, with_format
from mobilerl.records import Trajectory
from mobilerl.records.engine import Sampling
from mobilerl.rollout.episode import episode_settings, run_episode
from mobilerl.suites.command import PlanCommand, eval_command
from mobilerl.suites.evaluation import evaluate as _evaluate


class Agent:
    """The agent of a checkpoint, or of a run's newest one, with the agent settings that it was trained with.

    `temperature` 0 is greedy. Raises ConfigError if there is no model in the folder.
    """

    def __init__(self, model: str | Path, temperature: float = 0.0) -> None:
        folder = find_model(model)
        self.settings = read_agent(folder) or with_format(AgentSection(), published_name(folder))
        check_screenshots(folder, self.settings)
        engine = make_engine(folder, EngineSection(lora_rank=0, max_pixels=None), temperature or 1.0)
        sampling = Sampling(temperature, self.settings.max_new_tokens)
        context = make_context(self.settings, engine.codec.images.size_seen)
        self.actor = ModelActor(EnginePolicy(engine), context, sampling)

    def rollout(self, env: MobileEnv, task: Task) -> Trajectory:
        """Plays one episode. A device failure sets its `status` and `error` and never raises."""
        return run(run_episode(env, self.actor, task, task.id, episode_settings(self.settings)))


def evaluate(
    recipe: Recipe,
    model: str | Path,
    instances: int = 6,
    templates: Sequence[str] = (),
    out: str | Path | None = None,
    replace: bool = False,
    **plan: Any,
) -> dict[str, Any]:
    """Evaluates `model` on held-out tasks of the recipe's suite and returns results.json.

    `plan` are further fields of the suite's plan (`SimPlan`, `GeneratedPlan`), such as `split="train"`. Files are
    written to `out`, if given; results of a finished evaluation there are returned if they have the same settings and
    model, and others are only replaced with `replace`. Raises ConfigError for another suite or settings that cannot
    be used.
    """
    command = eval_command(type(recipe.suite))
    if not isinstance(command, PlanCommand) or "instances" not in command.plan.model_fields:
        raise ConfigError(f"evaluate() does not know the suite {command.name}: use `mobilerl eval {command.name}`")
    fields = {"suite": command.name, "instances": instances, "templates": tuple(templates), **plan}
    folder = find_model(model)
    agent = read_agent(folder) or with_format(recipe.agent, published_name(folder))
    if "deadline_s" in recipe.agent.model_fields_set:  # it depends on the devices and not on the policy
        agent = agent.model_copy(update={"deadline_s": recipe.agent.deadline_s})
    recipe = recipe.model_copy(update={"agent": agent})
    with tempfile.TemporaryDirectory() as scratch:
        return outside(
            lambda: _evaluate(recipe, command.plan(**fields), POLICY, model, Path(out or scratch), replace=replace)
        )
