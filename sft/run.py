"""The warm-up from nothing (or from a checkpoint) to `final/`: demonstrations, stage 1, stage 2."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from rich.console import Console
from transformers import TrainerCallback

from envs.phone.env import PhoneEnv
from envs.phone.tasks import suite
from mobilerl import tiny
from mobilerl.agent.policy import EnginePolicy, Policy
from mobilerl.config import ConfigError, Recipe, read_saved, save_recipe
from mobilerl.engines.base import Sampling
from mobilerl.engines.codec import Codec
from mobilerl.engines.local import load_model
from mobilerl.setup import check_checkpoint, make_context, make_engine, make_phones, save_agent
from mobilerl.train.tracking import Tracker
from sft.demonstrations import demonstrations, single_steps
from sft.lessons import lessons, recitals
from sft.reasoning import PolicyProposer, Proposer, Reasoned, ThoughtWriter, bootstrap
from sft.samples import ExpertStep, Sample, encode
from sft.trainer import train
from sft.vocabulary import corpus

STAGES = (1, 2)


class WarmUp:
    """One warm-up run. Each stage ends in a checkpoint folder, which a second call of the command does not redo."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        self.recipe, self.run_dir = recipe, run_dir
        self.context = make_context(recipe.agent)
        self.console = Console()
        self.phone = undisturbed_phone(recipe)
        self.steps_done = 0

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    # --- data ------------------------------------------------------------------------------------------------

    def base(self) -> Path:
        """The checkpoint to start from; a tiny untrained one when the recipe names none."""
        if self.recipe.model:
            check_checkpoint(self.recipe.model)
            return Path(self.recipe.model)
        path = self.run_dir / "init"
        if not path.is_dir():
            shape = self.recipe.tiny
            torch.manual_seed(self.recipe.sft.seed)
            temporary = self.run_dir / ".init.tmp"
            tiny.create(temporary, corpus(self.phone), shape.hidden, shape.layers, shape.heads, shape.vision_hidden,
                        shape.vision_layers, shape.max_pixels)  # fmt: skip
            temporary.rename(path)
        return path

    def expert_steps(self) -> list[ExpertStep]:
        tasks = suite.train_tasks(self.recipe.sft.demos_per_template, demo=True)
        suite.check_no_leak(tasks, suite.test_tasks(1))
        steps = demonstrations(self.phone, tasks)
        self.say(f"{len(tasks)} demonstrations, {len(steps)} steps, of {len(suite.templates('train', True))} templates")
        return steps

    @cached_property
    def _words(self) -> list[str]:
        """Words the lessons are made of: all that the phone shows."""
        return sorted({w for text in corpus(self.phone) for w in tiny.words_of(text) if w.isalpha()})

    # --- stages ----------------------------------------------------------------------------------------------

    def read(self, base: Path) -> Path:
        """Reading lessons, for a model that starts from nothing."""
        settings = self.recipe.sft
        if self.recipe.model or not settings.lessons:
            return base
        codec = Codec.load(base)
        for name, make, count in (("recitals", recitals, settings.recitals), ("lessons", lessons, settings.lessons)):
            samples = make(self._words, codec, count, random.Random(f"{settings.seed}/{name}"))
            base = self._train(name, base, codec, samples, 1.0, settings.lesson_batch, settings.lesson_rate)
        return base

    def _refreshed(self, name: str, codec: Codec, samples: list[Sample]) -> list[Sample]:
        """With some new lessons among the samples, so that a model that learned to read by them does not forget it."""
        settings = self.recipe.sft
        if self.recipe.model or not settings.lessons:
            return samples
        rng = random.Random(f"{settings.seed}/{name}")
        return samples + lessons(self._words, codec, int(settings.lesson_share * len(samples)), rng)

    def stage1(self, steps: Sequence[ExpertStep], base: Path) -> Path:
        """Reasoning-free: the expert's action without a thought, and single-step instructions."""
        settings = self.recipe.sft
        extra = single_steps(steps, settings.single_steps, random.Random(settings.seed))
        codec = Codec.load(base, self.recipe.engine.max_pixels)
        samples = [encode(s, self.context, codec) for s in [*steps, *extra]]
        return self._train("stage1", base, codec, self._refreshed("stage1", codec, samples), settings.stage1_epochs)

    def stage2(self, steps: Sequence[ExpertStep], base: Path) -> Path:
        """Reasoning: rounds of proposals, of which those that lead to the expert's action are learned."""
        settings = self.recipe.sft
        rng = random.Random(f"{settings.seed}/reasoning")
        for number in range(1, settings.stage2_rounds + 1):
            kept, share = bootstrap(steps, self._proposer(number, base), settings.candidates, rng)
            self.say(f"round {number}: thoughts kept for {share:.0%} of {len(steps)} steps")
            kept += self._written(steps, kept)
            if not kept:
                raise ConfigError(f"stage 2, round {number}: no proposal was the expert's action; train stage 1 longer")
            codec = Codec.load(base, self.recipe.engine.max_pixels)
            samples = [encode(r.step, self.context, codec, r.thought) for r in kept]
            name = f"stage2-round{number}"
            base = self._train(name, base, codec, self._refreshed(name, codec, samples), settings.stage2_epochs)
        return base

    def _written(self, steps: Sequence[ExpertStep], kept: Sequence[Reasoned]) -> list[Reasoned]:
        """Without a model to ask, steps that no proposal solved keep a written thought: they are the hard ones."""
        if self.recipe.sft.proposer_url:
            return []
        solved = {id(r.step) for r in kept}
        rest = [s for s in steps if id(s) not in solved]
        return [
            Reasoned(s, p[0].thought)
            for s, p in zip(rest, ThoughtWriter().propose(rest, 1), strict=True)
        ]

    def _proposer(self, number: int, base: Path) -> Proposer:
        settings, agent = self.recipe.sft, self.recipe.agent
        sampling = Sampling(1.0, agent.max_new_tokens)
        if number > 1:
            engine = make_engine(base, self.recipe.engine, 1.0, seed=settings.seed)
            policy: Policy = EnginePolicy(engine, max_wait_s=0.05)
            return PolicyProposer(policy, self.context, sampling)
        if settings.proposer_url:
            from mobilerl.agent.server_check import connect

            pixels = self.recipe.engine.max_pixels
            served = connect(settings.proposer_url, settings.proposer_model, agent.screenshots, pixels)
            return PolicyProposer(served, self.context, sampling)
        return ThoughtWriter()

    def _train(self, name: str, base: Path, codec: Codec, samples: Sequence[Sample], epochs: float,
               batch_size: int | None = None, learning_rate: float | None = None) -> Path:  # fmt: skip
        out = self.run_dir / name
        if out.is_dir():
            self.say(f"{name}: already there")
            return out
        settings = self.recipe.sft
        self.say(f"{name}: {len(samples)} samples, {epochs:g} epochs")
        model = load_model(base)
        began = time.monotonic()
        with Tracker(self.run_dir, self.recipe.tracking.wandb, self.recipe.tracking.tensorboard,
                     self.recipe.tracking.project, f"{self.run_dir.name}") as tracker:  # fmt: skip
            report = Report(tracker, name, self.steps_done, self.console)
            train(model, codec, samples, self.run_dir, epochs, batch_size or settings.batch_size,
                  learning_rate or settings.learning_rate, settings.warmup, settings.seed, [report])  # fmt: skip
            self.steps_done = report.last
        temporary = self.run_dir / f".{name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        model.save_pretrained(temporary)
        codec.save(temporary)
        save_agent(self.recipe.agent, temporary)
        temporary.rename(out)
        self.say(f"{name}: {time.monotonic() - began:.0f} s")
        return out


class Report(TrainerCallback):
    """Passes the Trainer's logs on to metrics.jsonl and to the screen."""

    def __init__(self, tracker: Tracker, stage: str, offset: int, console: Console) -> None:
        self.tracker, self.stage, self.offset, self.console = tracker, stage, offset, console
        self.last = offset

    def on_log(self, args, state, control, logs=None, **_) -> None:  # noqa: ANN001 - the Trainer's own signature
        if not logs or "loss" not in logs:
            return
        self.last = self.offset + state.global_step
        loss, rate = float(logs["loss"]), float(logs["learning_rate"])
        self.tracker.log({"iteration": self.last, "stage": self.stage, "sft/loss": loss, "sft/learning_rate": rate})
        if state.global_step % 100 == 0:
            self.console.print(f"  {self.stage} step {state.global_step}/{state.max_steps}  loss {loss:.3f}")


def _claim(recipe: Recipe, run_dir: Path) -> None:
    """Finished stages are taken over, so they must be of the same recipe. Raises ConfigError."""
    saved = run_dir / "config.json"
    if saved.is_file() and read_saved(saved) != recipe:
        raise ConfigError(f"{run_dir} belongs to another recipe: choose another --run-dir, or delete it")
    run_dir.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, saved)


def undisturbed_phone(recipe: Recipe) -> PhoneEnv:
    """One phone without pop-ups: recorded demonstrations do not show them."""
    return make_phones(recipe.phone.model_copy(update={"popup_rate": 0.0}), count=1)[0]


def run(recipe: Recipe, run_dir: Path, stages: Sequence[int] = STAGES) -> Path:
    """Runs the stages; returns the last one's checkpoint, which is also copied to `final/`. Raises ConfigError."""
    _claim(recipe, run_dir)
    warm_up = WarmUp(recipe, run_dir)
    checkpoint = warm_up.read(warm_up.base())
    steps = warm_up.expert_steps()
    if 1 in stages:
        checkpoint = warm_up.stage1(steps, checkpoint)
    elif (run_dir / "stage1").is_dir():
        checkpoint = run_dir / "stage1"
    if 2 in stages:
        checkpoint = warm_up.stage2(steps, checkpoint)
    final, temporary = run_dir / "final", run_dir / ".final.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(checkpoint, temporary)
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    warm_up.say(f"warm-up done: {final}")
    return final
