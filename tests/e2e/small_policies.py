"""Tiny policies of known quality, made in seconds by SFT on demonstrations with or without mistakes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mobilerl.config import AgentSection, load_recipe
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.base import Action, Finish, Task
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks import suite
from mobilerl.eval.policies import EvalPolicy
from mobilerl.eval.run import run_tasks
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.models.codec import Codec
from mobilerl.models.loading import save_model
from mobilerl.policy.actions import candidates
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import make_context
from mobilerl.records import Group
from mobilerl.records.engine import Sampling
from mobilerl.rollout.episode import EpisodeSettings
from mobilerl.sft.demonstrations import demonstrations
from mobilerl.sft.samples import ExpertStep, encode_all
from mobilerl.sft.seeing import learn_to_see
from mobilerl.sft.trainer import TrainingJob, train

WIDTH, HEIGHT = 180, 360
GRAMMAR = "history app error tap hold type open finish invalid infeasible wait back home enter swipe up down"


def phones(count: int) -> list[PhoneEnv]:
    return [PhoneEnv(f"sim-{i}", WIDTH, HEIGHT, 0.0) for i in range(count)]


def demonstrate(tasks: Sequence[Task]) -> list[ExpertStep]:
    return demonstrations(phones(1)[0], tasks)


def with_mistakes(
    steps: Sequence[ExpertStep], share: float, mistake: Callable[[ExpertStep, random.Random], Action], copies: int
) -> list[ExpertStep]:
    """`copies` of every step, of which `share` have another action than the expert's."""
    rng = random.Random(0)
    return [
        replace(step, action=mistake(step, rng)) if rng.random() < share else step
        for step in steps
        for _ in range(copies)
    ]


def fine_tune(
    folder: Path,
    agent: AgentSection,
    steps: Sequence[ExpertStep],
    epochs: float,
    hidden: int = 32,
    learning_rate: float = 3e-3,
    batch_size: int = 16,
    seed: int = 0,
    max_pixels: int = 4 * 28 * 28,
    seen: int = 0,
) -> Path:
    """Trains a tiny model from scratch on `seen` of the screenshots of `steps`, and then on `steps`.

    Returns its checkpoint folder.
    """
    base, final = folder / "base", folder / "policy"
    context = make_context(agent)
    texts = [t for s in steps for t in (s.task.instruction, s.screen.render("marks"), s.observation.app)]
    torch.manual_seed(seed)
    tiny.create(base, [*texts, GRAMMAR], hidden=hidden, layers=2, heads=2, vision_hidden=16, max_pixels=max_pixels)
    codec = Codec.load(base)
    if seen:
        base = learn_to_see(base, folder / "seeing", codec, steps, seen, seed, lambda *_: None)
    job = TrainingJob(str(base), epochs, batch_size, learning_rate, seed=seed)
    trainer = train(job, codec, list(encode_all(steps, context, codec)), folder / "log")
    save_model(trainer.model, codec, final)
    save_agent(agent, final)
    return final


def tiny_agent(**settings: Any) -> AgentSection:
    """The agent settings of the tiny model's recipes, with changes."""
    return load_recipe("base/tiny-model").agent.model_copy(update=settings)


def weak_policy(folder: Path, templates: Sequence[str], hidden: int = 32) -> Path:
    """Trains a policy that sometimes succeeds at `templates`: three of ten of its demonstrated actions are random."""
    tasks = [suite.make_task(name, seed) for name in templates for seed in range(4)]
    steps = with_mistakes(
        demonstrate(tasks), 0.3, lambda step, rng: rng.choice([*candidates(step.screen), Finish()]), copies=4
    )
    return fine_tune(folder, tiny_agent(max_new_tokens=16), steps, epochs=25, hidden=hidden)


def sampled(path: Path, agent: AgentSection, tasks: Sequence[Task], trials: int, temperature: float) -> list[Group]:
    """The policy's episodes of `tasks`, `trials` each."""
    torch.manual_seed(0)
    policy = EnginePolicy(LocalEngine(path, LocalSettings()))
    actor = ModelActor(policy, make_context(agent), Sampling(temperature, agent.max_new_tokens))

    def connect(collector) -> None:
        policy.expect(lambda: collector.playing)

    groups: list[Group] = []
    evaluated, settings = EvalPolicy(actor, {}, connect, policy.check_batch), EpisodeSettings(agent.max_invalid)
    asyncio.run(run_tasks(phones(16), evaluated, tasks, "eval", settings, groups.append, trials))
    return groups


def success_rate(groups: Sequence[Group]) -> float:
    trajectories = [t for g in groups for t in g.trajectories]
    return sum(t.success for t in trajectories) / len(trajectories)
