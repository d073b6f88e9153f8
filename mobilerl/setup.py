"""From a recipe's sections to the objects they describe: phones, prompts, actors, engines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envs.base import Devices, MobileEnv
from envs.phone.env import PhoneEnv
from mobilerl.agent.actor import ModelActor
from mobilerl.agent.context import ContextPolicy
from mobilerl.agent.policy import EnginePolicy, StreamPolicy
from mobilerl.config import AgentSection, ConfigError, EngineSection, PhoneSection, Recipe, ReplaySection, validate
from mobilerl.engines.base import CopiedEngine, Engine, Sampling, StreamingEngine
from mobilerl.judge.scorer import JudgeScorer
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import EpisodeSettings

if TYPE_CHECKING:
    from mobilerl.algorithms.replay import Replay
    from mobilerl.engines.local import LocalSettings

LATE_WAIT_S = 0.25
"""With staleness allowed, a generation waits this long for more requests before it starts with those it has."""
AGENT_FILE = "agent.json"
"""In a checkpoint folder: how the model was trained to see and act."""


def make_context(agent: AgentSection) -> ContextPolicy:
    return ContextPolicy(
        screenshots=agent.screenshots, history_thoughts=agent.history_thoughts, history_steps=agent.history_steps,
        screen_style=agent.screen_style, grounding=agent.grounding, layout=agent.layout,
        system_prompt=agent.system_prompt,
    )  # fmt: skip


def make_episode_settings(agent: AgentSection) -> EpisodeSettings:
    return EpisodeSettings(max_invalid=agent.max_invalid, deadline_s=agent.deadline_s)


def make_phones(
    phone: PhoneSection, count: int | None = None, screenshots: bool = True, first: int = 0
) -> list[PhoneEnv]:
    """`count` phones (by default the section's), named by consecutive numbers from `first`."""
    return [
        PhoneEnv(f"sim-{first + i}", phone.width, phone.height, phone.popup_rate, screenshots)
        for i in range(count or phone.count)
    ]


def make_collector(
    recipe: Recipe, engine: Engine, devices: Devices | Sequence[MobileEnv], processes: int = 1
) -> Collector:
    """Episodes of the recipe's kind on `devices`, with `engine` as the policy. `processes` collect at the same time.

    On embedded phones and with no staleness allowed, requests are batched by episodes alone and never by the clock,
    which is repeatable. Devices behind a wire are never repeatable, and one that is slow must not hold up the others.
    An engine that streams gets each request as it comes.
    """
    repeatable = recipe.collect.max_staleness == 0 and recipe.fleet.type == "embedded" and recipe.phone.suite == "sim"
    streams = isinstance(engine, StreamingEngine)
    policy = StreamPolicy(engine) if streams else EnginePolicy(engine, None if repeatable else LATE_WAIT_S)
    sampling = Sampling(recipe.collect.temperature, recipe.agent.max_new_tokens)
    actor = ModelActor(policy, make_context(recipe.agent), sampling)
    settings = CollectorSettings(
        recipe.collect.group_size, recipe.collect.max_retries, recipe.collect.min_group,
        make_episode_settings(recipe.agent),
    )  # fmt: skip
    if isinstance(policy, StreamPolicy):
        return Collector(devices, actor, settings, scorer=_scorer(recipe, processes))
    collector = Collector(devices, actor, settings, policy.poke, _scorer(recipe, processes))
    policy.expected = lambda: collector.playing
    return collector


def _scorer(recipe: Recipe, processes: int) -> JudgeScorer | None:
    if not recipe.judge.reward:
        return None
    from mobilerl.judge.judge import Judge

    return JudgeScorer(Judge(recipe.judge.shared_by(processes)))


def make_trainer_engine(recipe: Recipe) -> Engine:
    """The engine the recipe trains with. Raises ConfigError when it cannot be had here."""
    reference = recipe.algorithm.loss.kl_coef > 0
    if recipe.engine.type == "local":
        beside = recipe.engine.sampler == "vllm"
        if beside:
            from mobilerl.engines.vllm.installed import check_installed

            check_installed()  # before anything is loaded
        local = make_engine(recipe.model, recipe.engine, recipe.collect.temperature, reference, recipe.train.seed)
        if not beside:
            return local
        from mobilerl.engines.vllm.engine import make_vllm_engine

        return make_vllm_engine(recipe, local)
    check_checkpoint(recipe.model)
    from mobilerl.engines.verl.packages import check_packages

    check_packages()
    from mobilerl.engines.verl.engine import VerlEngine

    return VerlEngine(Path(recipe.model), recipe, reference)


def make_replay(settings: ReplaySection) -> Replay | None:
    """The buffer of past trajectories that the recipe names."""
    from mobilerl.algorithms.replay import AdaptivePositiveReplay, CircularReplay, PrioritizedReplay

    if settings.type == "none":
        return None
    if settings.type == "circular":
        return CircularReplay(settings.capacity, settings.gamma)
    if settings.type == "prioritized":
        return PrioritizedReplay(settings.capacity, settings.alpha, settings.priority_weights, settings.gamma)
    return AdaptivePositiveReplay(
        settings.capacity, settings.kappa, settings.gamma, settings.max_age, order=settings.order
    )


def use_threads(engine: EngineSection) -> None:
    """As many of torch's threads as the recipe names. What trains or samples in this process calls it first."""
    if engine.threads:
        import torch

        torch.set_num_threads(engine.threads)


def make_engine(
    path: str | Path, engine: EngineSection, temperature: float, reference: bool = False, seed: int = 0
) -> CopiedEngine:
    """A local engine with the checkpoint at `path`. Raises ConfigError when there is none.

    `seed` starts torch's random numbers, from which it samples.
    """
    check_checkpoint(path)
    import torch

    from mobilerl.engines.local import LocalSettings

    torch.manual_seed(seed)
    use_threads(engine)
    settings = LocalSettings(
        learning_rate=engine.learning_rate, weight_decay=engine.weight_decay, warmup_steps=engine.warmup_steps,
        grad_clip=engine.grad_clip, micro_tokens=engine.micro_tokens, temperature=temperature,
        max_pixels=engine.max_pixels, lora_rank=engine.lora_rank, reference=reference,
        generate_threads=engine.generate_threads, recompute=engine.recompute,
    )  # fmt: skip
    return _load(path, settings)


def _load(path: str | Path, settings: LocalSettings) -> CopiedEngine:
    """A folder that is damaged or of another kind of model is a ConfigError."""
    from safetensors import SafetensorError

    from mobilerl.engines.local import LocalEngine

    try:
        return LocalEngine(Path(path), settings)
    except ConfigError:
        raise  # it names the folder and the cure
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(
            f"{path} cannot be loaded ({reason}); it is damaged or no Qwen-VL-like checkpoint: use another one"
        ) from error


def check_checkpoint(path: str | Path) -> None:
    """Raises ConfigError unless `path` is a Hugging Face model folder."""
    folder = Path(path)
    if not folder.is_dir():
        raise ConfigError(f"there is no checkpoint folder {path}; make one with `bash recipes/sft.sh`")
    if not ((folder / "config.json").is_file() or (folder / "adapter_config.json").is_file()):
        raise ConfigError(f"{path} has no config.json: it is not a Hugging Face model folder")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(f"{path} has no *.safetensors weights: the checkpoint is incomplete; use an earlier one")


def save_agent(agent: AgentSection, folder: Path) -> None:
    (folder / AGENT_FILE).write_text(agent.model_dump_json(indent=2) + "\n")


def read_agent(folder: str | Path) -> AgentSection | None:
    """The agent settings saved with a checkpoint; None when it was not made here."""
    path = Path(folder) / AGENT_FILE
    if not path.is_file():
        return None
    try:
        return validate(AgentSection, json.loads(path.read_text()), str(path))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path} is damaged: {error}") from None
