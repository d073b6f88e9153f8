"""Which model plays an evaluation: `--model`, a checkpoint or the address of a model server, as an actor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobilerl.agent.actor import Actor, ModelActor
from mobilerl.agent.policy import EnginePolicy
from mobilerl.config import ConfigError, Recipe
from mobilerl.engines.base import Sampling
from mobilerl.rollout.collector import Collector
from mobilerl.setup import check_checkpoint, make_context, make_engine
from mobilerl.train.checkpoint import latest

if TYPE_CHECKING:
    from mobilerl.agent.server import ServerPolicy

MOBILERL_SETTINGS = (
    "--agent.layout=chat", "--agent.grounding=box", "--agent.screen_style=mobilerl", "--agent.screenshots=2",
    "--agent.history_thoughts=true", "--agent.max_new_tokens=4096", "--engine.max_pixels=500000",
)  # fmt: skip
"""MobileRL's published set-up, for models that bring no settings of their own: no recipe and no agent.json."""


REFUSED = "refused_prompts"


def _nothing(*_: object) -> None:
    """A scripted actor and a server need no batches."""


@dataclass(slots=True)
class Player:
    """Who plays. `connect` is to be called with the collector, and `poke` whenever an episode has ended."""

    actor: Actor
    protocol: dict[str, Any]
    """What of the score depends on which model it is, in plain JSON values."""
    connect: Callable[[Collector], None] = _nothing
    poke: Callable[[], None] = _nothing
    server: ServerPolicy | None = None

    def extras(self) -> dict[str, Any]:
        """What results.json says of the model beyond the episodes: prompts that a server would not take."""
        if self.server is None or not self.server.refused:
            return {}
        return {REFUSED: {"count": self.server.refused, "first": self.server.refusal}}


def is_server(model: str | Path | None) -> bool:
    return str(model).startswith(("http://", "https://"))


def check_model(model: str | Path | None, model_name: str | None) -> None:
    """Raises ConfigError for a checkpoint that is not there, or a name that belongs to nothing. Asks no server."""
    if model is not None and not is_server(model):
        find_model(model)
    if model_name is not None and not is_server(model):
        raise ConfigError("--model-name belongs to a --model that is a server's address, as in http://HOST:PORT/v1")


def model_player(recipe: Recipe, model: str | Path, model_name: str | None, temperature: float, seed: int,
                 max_wait_s: float | None = None) -> Player:  # fmt: skip
    """The recipe's agent with this model. `temperature` 0 is greedy; `max_wait_s` is that of `EnginePolicy`.

    Raises ConfigError for a model that is not there or cannot be used; a server is tried out.
    """
    check_model(model, model_name)
    if is_server(model):
        return _served(recipe, str(model), model_name, temperature)
    return _local(recipe, find_model(model), temperature, seed, max_wait_s)


def _local(recipe: Recipe, folder: Path, temperature: float, seed: int, max_wait_s: float | None) -> Player:
    # Log-probabilities of greedy replies are taken at temperature 1.
    engine = make_engine(folder, recipe.engine, temperature or 1.0, seed=seed)
    policy = EnginePolicy(engine, max_wait_s)

    def connect(collector: Collector) -> None:
        policy.expected = lambda: collector.playing

    actor = ModelActor(policy, make_context(recipe.agent), Sampling(temperature, recipe.agent.max_new_tokens))
    return Player(actor, checkpoint_protocol(folder), connect, policy.poke)


def _served(recipe: Recipe, url: str, name: str | None, temperature: float) -> Player:
    from mobilerl.agent.server_check import connect

    policy = connect(url, name, recipe.agent.screenshots, recipe.engine.max_pixels)
    actor = ModelActor(policy, make_context(recipe.agent), Sampling(temperature, recipe.agent.max_new_tokens))
    protocol = {"model": policy.model, "model_server": url, "sampling": policy.dialect.describe()}
    return Player(actor, protocol, server=policy)


def checkpoint_protocol(folder: Path) -> dict[str, Any]:
    return {"model": str(folder), "weights_sha256": weights_digest(folder)}


def find_model(model: str | Path) -> Path:
    """The checkpoint folder itself, or the newest one of a run directory. Raises ConfigError when there is none."""
    run = Path(model)
    is_run = (run / "final").is_dir() or (run / "checkpoints").is_dir()
    folder = latest(run) or run / "final" if is_run else run
    check_checkpoint(folder)
    return folder


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a checkpoint's *.safetensors files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.name.encode() + b"\0")
        with open(path, "rb") as f:
            while block := f.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
