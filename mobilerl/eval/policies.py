"""Agents of an evaluation: a script, a checkpoint, or a model on a server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from mobilerl.config import ConfigError, Recipe
from mobilerl.engines.registry import make_engine
from mobilerl.eval.agents import scripted_actor
from mobilerl.eval.shuffled import ShuffledScreens
from mobilerl.inference.engine_policy import LATE_WAIT_S, EnginePolicy
from mobilerl.models.hub import find_model
from mobilerl.models.text_models import check_screenshots
from mobilerl.policy.actor import Actor, ModelActor
from mobilerl.policy.context import make_context, prompt_hash
from mobilerl.policy.formats.choice import OURS
from mobilerl.records.engine import Sampling
from mobilerl.rollout.collector import Collector

if TYPE_CHECKING:
    from mobilerl.inference.server import ServerPolicy

MOBILERL_SETTINGS = (
    "--agent.layout=chat",
    "--agent.grounding=box",
    "--agent.screen_style=mobilerl",
    "--agent.screenshots=2",
    "--agent.history_thoughts=true",
    "--agent.max_new_tokens=4096",
    "--engine.max_pixels=500000",
)
"""MobileRL's published settings, for models without a recipe or agent.json."""
SEED = 0
"""Random seed of sampled responses and of the random agent."""
POLICY = "policy"
REAL_PHONE_AGENTS = (POLICY, "noop", "finish", "random")
"""Agents for suites without scripted experts."""
REFUSED = "refused_prompts"


def _nothing(*_: object) -> None:
    """Does nothing: scripted actors and servers need no batches."""


@dataclass(slots=True)
class EvalPolicy:
    """A policy to evaluate. Call `connect` with the collector, and `check_batch` whenever an episode ends."""

    actor: Actor
    protocol: dict[str, Any]
    """Part of the protocol that identifies the model, as JSON values."""
    connect: Callable[[Collector], None] = _nothing
    check_batch: Callable[[], None] = _nothing
    server: ServerPolicy | None = None

    def extras(self) -> dict[str, Any]:
        """Fields of results.json about prompts that a server refused, if any."""
        if self.server is None or not self.server.refused:
            return {}
        return {REFUSED: {"count": self.server.refused, "first": self.server.refusal}}


def is_server(model: str | Path | None) -> TypeGuard[str]:
    return str(model).startswith(("http://", "https://"))


def resolved_model(agent: str, model: str | Path | None, model_name: str | None) -> str | Path | None:
    """The address of a server, or the folder of a checkpoint, which is looked up once: a run may save a newer one.

    Raises ConfigError unless agent and model fit together and a checkpoint exists. Does not contact a server.
    """
    if agent == POLICY and model is None:
        raise ConfigError(
            "--model is missing: a checkpoint folder, a run directory, ORG/NAME on the Hub, or http://HOST:PORT/v1"
        )
    if agent != POLICY and (model is not None or model_name is not None):
        raise ConfigError(f"--agent {agent} needs no model; leave --model and --model-name out")
    if model is None or is_server(model):
        return model
    folder = find_model(model)
    if model_name is not None:
        raise ConfigError("--model-name belongs to a --model that is a server's address, as in http://HOST:PORT/v1")
    return folder


def model_policy(
    recipe: Recipe,
    model: str | Path,
    model_name: str | None,
    temperature: float,
    seed: int = SEED,
    max_wait_s: float | None = None,
    shuffle_screens: bool = False,
) -> EvalPolicy:
    """Makes the recipe's agent with a `resolved_model`. `temperature` 0 is greedy; see `EnginePolicy` for `max_wait_s`,
    and `ShuffledScreens` for `shuffle_screens`, which only a checkpoint can have.

    Raises ConfigError if the model cannot be used; a server gets a test request.
    """
    context = make_context(recipe.agent)
    sampling = Sampling(temperature, recipe.agent.max_new_tokens, context.stop)
    if is_server(model):
        from mobilerl.inference.server import connect

        most, seen = recipe.agent.screenshots, recipe.engine
        server = connect(str(model), model_name, most, seen.max_pixels, thinking=seen.thinking)
        protocol = {"model": server.model, "model_server": server.url, "sampling": server.sampling}
        context = replace(context, size_seen=server.size_seen)
        return EvalPolicy(ModelActor(server, context, sampling), protocol, server=server)
    folder = Path(model)
    check_screenshots(folder, recipe.agent)
    section = recipe.engine.model_copy(update={"lora_rank": 0})  # what was not trained here needs no adapter
    # Log-probabilities of greedy responses are computed at temperature 1.
    engine = make_engine(folder, section, temperature or 1.0, seed=seed)
    context = replace(context, size_seen=engine.codec.images.size_seen)
    policy = EnginePolicy(engine, max_wait_s)

    def expect_all(collector: Collector) -> None:
        policy.expect(lambda: collector.playing)

    actor = ModelActor(ShuffledScreens(policy, seed) if shuffle_screens else policy, context, sampling)
    return EvalPolicy(actor, checkpoint_protocol(folder), expect_all, policy.check_batch)


def real_phone_policy(
    recipe: Recipe, agent: str, model: str | None, model_name: str | None, temperature: float, seed: int = SEED
) -> EvalPolicy:
    """Makes the agent of an evaluation on real phones. Raises ConfigError if the model cannot be used."""
    if temperature < 0:
        raise ConfigError(f"--temperature is {temperature:g}; it must be 0 (greedy) or more")
    if (found := resolved_model(agent, model, model_name)) is None:
        return EvalPolicy(scripted_actor(agent, seed, ()), {"agent": agent})
    # Real phones do not run in lockstep, so batches do not wait for all of them.
    policy = model_policy(recipe, found, model_name, temperature, seed, LATE_WAIT_S)
    # The suite has its own deadlines and limits.
    settings = agent_protocol(recipe, temperature, leave_out={"deadline_s", "max_invalid"})
    return replace(policy, protocol={"agent": POLICY, **policy.protocol, **settings})


def agent_protocol(recipe: Recipe, temperature: float, leave_out: Collection[str]) -> dict[str, Any]:
    """Protocol of how a model is prompted and sampled, without the settings `leave_out` of [agent]."""
    context = make_context(recipe.agent)
    unused = set(leave_out) if context.format == "mobilerl" else {*leave_out, *OURS}
    agent = {f"agent.{name}": value for name, value in recipe.agent.model_dump(exclude=unused).items()}
    prompts = {"temperature": temperature, "prompt_hash": prompt_hash(context)}
    thinking = {} if recipe.engine.thinking is None else {"thinking": recipe.engine.thinking}
    return prompts | agent | {"agent.format": context.format, "max_pixels": recipe.engine.max_pixels} | thinking


def checkpoint_protocol(folder: Path) -> dict[str, Any]:
    return {"model": str(folder), "weights_sha256": weights_digest(folder)}


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a checkpoint's *.safetensors files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode() + b"\0")
        with open(path, "rb") as f:
            hashlib.file_digest(f, lambda: digest)
    return digest.hexdigest()
