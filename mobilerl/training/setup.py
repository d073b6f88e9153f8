"""Builds the collector of a recipe and the resources of its algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.config import Recipe
from mobilerl.engines.registry import engine_kind
from mobilerl.envs.base import Devices, MobileEnv
from mobilerl.inference.engine_policy import LATE_WAIT_S, EnginePolicy, StreamPolicy
from mobilerl.judge.scorer import make_scorer
from mobilerl.policy.actor import Messages, ModelActor
from mobilerl.policy.context import make_context
from mobilerl.policy.hindsight import HindsightPrompts
from mobilerl.records.engine import Engine, Sampling, StreamingEngine
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import episode_settings

if TYPE_CHECKING:
    from mobilerl.algorithms.base import Algorithm, Resources


def make_collector(
    recipe: Recipe, engine: Engine, devices: Devices | Sequence[MobileEnv], in_process: bool, processes: int = 1
) -> Collector:
    """Makes a collector on `devices` with `engine` as the policy; `processes` such collectors share the judge.

    If episodes need nothing outside this process (`in_process`), a batch without staleness waits for all running
    episodes rather than for a time limit, so that runs are repeatable. Other devices are not repeatable anyway, and a
    slow one must not hold up the others. An engine that streams gets each request immediately.
    """
    repeatable = recipe.rollout.max_staleness == 0 and in_process
    policy: StreamPolicy | EnginePolicy
    if isinstance(engine, StreamingEngine):
        policy = StreamPolicy(engine)
    else:
        policy = EnginePolicy(engine, None if repeatable else LATE_WAIT_S)
    sampling = Sampling(recipe.rollout.temperature, recipe.agent.max_new_tokens)
    context = make_context(recipe.agent, engine.codec.images.size_seen)
    fits = None if recipe.engine.type == "local" else partial(_fits, engine, recipe.vllm.max_prompt)
    actor = ModelActor(policy, context, sampling, fits)
    greedy = ModelActor(policy, context, Sampling(0.0, recipe.agent.max_new_tokens), fits)
    settings = CollectorSettings(recipe.algorithm.group_size, episode=episode_settings(recipe.agent))
    changed = policy.check_batch if isinstance(policy, EnginePolicy) else lambda: None
    scorer = make_scorer(recipe, processes)
    collector = Collector(devices, actor, settings, changed, scorer, greedy, policy.sampling.seconds)
    if isinstance(policy, EnginePolicy):
        policy.expect(lambda: collector.playing)
    return collector


def _fits(engine: Engine, most: int, messages: Messages, images: Sequence[bytes]) -> bool:
    """Whether a prompt has at most `most` tokens, image tokens included."""
    return len(engine.codec.encode(messages, images)) <= most


def reads_screenshots(recipe: Recipe, algorithm: Algorithm) -> bool:
    """Whether anything reads the screenshots of episodes that are not saved."""
    judged = recipe.judge.reward or bool(recipe.rollout.scorer)
    return recipe.agent.screenshots > 0 or judged or algorithm.reads_screenshots


def make_resources(recipe: Recipe, engine: Engine) -> Resources:
    """Resources that the recipe's algorithm is built with."""
    from mobilerl.algorithms.base import Resources
    from mobilerl.models.features import FrozenFeatures

    def features() -> FrozenFeatures:
        import torch

        # A cluster's GPUs belong to its workers.
        on_gpu = torch.cuda.is_available() and not engine_kind(recipe.engine).cluster
        return FrozenFeatures(Path(recipe.model), recipe.engine.max_pixels, "cuda" if on_gpu else "cpu")

    context = make_context(recipe.agent, engine.codec.images.size_seen)
    hindsight = HindsightPrompts(context, engine.codec.encode, recipe.agent.random_marks)
    return Resources(engine, features, recipe.algorithm.mini_batch_size, recipe.train.seed, hindsight)
