"""VerlEngine on stand-ins for Ray, verl and its servers: who has the GPUs, and what becomes of every request."""

from __future__ import annotations

import asyncio
import importlib
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mobilerl.config import load_recipe

ENGINE = "mobilerl.engines.verl.engine"


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class GetTimeoutError(RayError):
    pass


class FakeCodec:
    """A prompt is the numbers it is asked with."""

    placeholder_ids, end_ids = (7,), frozenset({9})

    def encode(self, messages, images) -> tuple[int, ...]:
        return tuple(messages)

    def decode(self, ids) -> str:
        return "nonsense"


@dataclass
class World:
    """Workers and servers. Calls fail with what `faults` has under their names."""

    handover: bool = True
    version: int = -1
    """Of the servers' weights."""
    calls: list[str] = field(default_factory=list)
    """To workers and servers, in order, but those of `generate`."""
    faults: dict[str, Exception] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    """Prompts, by their first number, that are not answered for now."""
    asked: list[int] = field(default_factory=list)
    """Prompts that reached a server."""
    busy: int = 0
    disturbed: list[str] = field(default_factory=list)
    """Calls that would have moved weights or memory under a reply that is being drawn."""
    world_size: int = 1

    def do(self, name: str, version: int | None = None) -> list[tuple[float, ...]] | None:
        self.calls.append(name)
        if self.busy and name in ("sleep", "update_weights", "score"):
            self.disturbed.append(name)
        if name in self.faults:
            raise self.faults[name]
        if version is not None:
            self.version = version
        return [(0.0,)] if name == "score" else None

    # RayWorkerGroup

    def execute_all_async(self, name: str, *_: Any) -> list[Any]:
        return [partial(self.do, name)]

    def score(self, work: Any, reference: Any) -> list[Any]:
        return [partial(self.do, "score")]

    # RayWorkerGroup and CheckpointEngineManager

    def update_weights(self, global_steps: int, mode: str = "") -> list[Any]:
        if mode:
            return [partial(self.do, "update_weights", global_steps)]
        self.do("update_weights", global_steps)
        return []

    def sleep_replicas(self) -> None:
        self.do("sleep")

    # LLMServerManager and LLMServerClient

    def get_replicas(self) -> list[Any]:
        return []

    def get_client(self) -> World:
        return self

    async def generate(self, name: str, *, prompt_ids: list[int], image_data: Any, sampling_params: Any) -> Any:
        self.asked.append(prompt_ids[0])
        self.busy += 1
        version = self.version
        try:
            while prompt_ids[0] in self.held:
                await asyncio.sleep(0.001)
        finally:
            self.busy -= 1
        return SimpleNamespace(token_ids=[prompt_ids[0] + 1], log_probs=[0.0], extra_fields={"global_steps": version})


def make_engine(patch: pytest.MonkeyPatch, world: World, *settings: str) -> Any:
    """A VerlEngine whose Ray, verl and checkpoint are `world`'s."""
    rollout = SimpleNamespace(checkpoint_engine=None, free_cache_engine=world.handover)
    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout), trainer=SimpleNamespace(device="x"))
    errors = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError, GetTimeoutError=GetTimeoutError)
    cluster = SimpleNamespace(join=lambda section: SimpleNamespace(leave=lambda: world.calls.append("leave")))

    class StandIn(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: world

    contents: dict[str, dict[str, Any]] = {
        "ray": {"get": lambda refs, timeout=None: [ref() for ref in refs], "exceptions": errors},
        "verl.workers.rollout.llm_server": {"LLMServerManager": SimpleNamespace(create=lambda *_, **__: world)},
        "mobilerl.engines.verl.cluster": {"Cluster": cluster},
        "mobilerl.engines.verl.config": {"verl_config": lambda *_: config},
    }
    for name in (
        *("verl", "verl.checkpoint_engine", "verl.single_controller", "verl.single_controller.ray"),
        *("verl.utils", "verl.utils.config", "verl.utils.device", "verl.workers", "verl.workers.rollout"),
        *("mobilerl.engines.verl.worker", *contents),
    ):
        module = StandIn(name)
        vars(module).update(contents.get(name, {}))
        patch.setitem(sys.modules, name, module)
    patch.setitem(sys.modules, ENGINE, ModuleType(ENGINE))  # undone whether it was imported or not
    del sys.modules[ENGINE]
    module = importlib.import_module(ENGINE)
    patch.setattr(module, "Codec", SimpleNamespace(load=lambda *_: FakeCodec()))
    recipe = load_recipe(None, ["--engine.type", "verl", *settings])
    settings = SimpleNamespace(
        engine=recipe.engine, cluster=recipe.cluster, vllm=recipe.vllm, temperature=1.0, max_new_tokens=32
    )
    return module.VerlEngine(Path("model"), settings, False)
