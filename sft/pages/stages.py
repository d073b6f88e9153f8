"""The stages of ReachAgent: page graph, tasks, stage 1, preference pairs, DPO, and metrics in between."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from mobilerl.agent.context import prompt_hash
from mobilerl.agent.policy import EnginePolicy
from mobilerl.atomic_files import write_atomic
from mobilerl.config import ConfigError, Recipe
from mobilerl.engines.base import Sampling
from mobilerl.engines.codec import Codec
from mobilerl.eval.policies import weights_digest
from mobilerl.eval.report import read_results, write_results
from mobilerl.setup import make_engine, make_trainer_engine
from mobilerl.train import checkpoint
from mobilerl.train.dpo import DpoTrainer, step_count
from mobilerl.train.pairs import PAIRS_FILE, PreferencePair, read_pairs, write_pairs
from mobilerl.train.tracking import Tracker
from sft.demonstrations import demonstrations
from sft.pages.agent import PageAgent, Scenes
from sft.pages.collect import page_graph, page_tasks, trained_on
from sft.pages.evaluation import evaluate
from sft.pages.graph import PageGraph
from sft.pages.metrics import LONGEST
from sft.pages.preferences import preference_pairs
from sft.pages.tasks import TaskSet
from sft.pages.writing import Writer, flow_samples, lacks_words
from sft.reasoning import written_thought
from sft.run import WarmUp
from sft.samples import Sample, encode

STAGE1 = "stage1"
RESULTS, COUNTS = "results.json", "pages/counts.json"
WARMUP = 0.02
"""Share of a stage's steps over which the learning rate rises (ReachAgent)."""


class PagesRun(WarmUp):
    """One run. What is done is not done again: the graph, stage 1, the pairs, each checkpoint of DPO, each result."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        super().__init__(stage1_recipe(recipe), run_dir)
        self.base_path = Path(recipe.model)
        self.codec = Codec.load(self.base_path, recipe.engine.max_pixels)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)  # paths and tables stay whole

    @cached_property
    def graph(self) -> PageGraph:
        return page_graph(self.recipe.pages, self.recipe.phone, self.run_dir / "pages", self.say)

    @cached_property
    def tasks(self) -> TaskSet:
        return page_tasks(self.graph, self.recipe.pages, self.run_dir / "pages", self.say)

    @cached_property
    def scenes(self) -> Scenes:
        return Scenes(self.graph)

    @cached_property
    def writer(self) -> Writer:
        return Writer(self.scenes, self.context, self.recipe.pages.thoughts)

    # --- stage 1 ---------------------------------------------------------------------------------------------

    def learn_flows(self) -> Path:
        """Supervised on the golden flows of the training tasks, with some ordinary demonstrations among them."""
        out, settings = self.run_dir / STAGE1, self.recipe.pages
        if out.is_dir():
            self.say(f"{STAGE1}: already there")
            return out
        counts: Counter[str] = Counter()
        tasks = trained_on(self.tasks.train, settings)
        samples = list(flow_samples(self.writer, tasks, self.codec, settings.alignment, settings.seed, counts))
        if not samples:
            raise ConfigError(f"no step of {len(tasks)} tasks can be learned by {self.base_path}: {_told(counts)}")
        self.say(f"stage 1: {len(tasks)} tasks; {_told(counts)}")
        wanted = round(len(samples) * settings.demo_share / (1.0 - settings.demo_share))
        shown = self._shown(wanted)
        write_atomic(self.run_dir / COUNTS, json.dumps({**counts, "demonstrations": len(shown)}, indent=1).encode())
        return self._train(STAGE1, self.base_path, self.codec, samples + shown, settings.epochs)

    def _shown(self, wanted: int) -> list[Sample]:
        """`wanted` steps of ordinary demonstrations, as the warm-up's last stage has them."""
        settings = self.recipe.pages
        rng = random.Random(f"{settings.seed}/demonstrations")
        tasks = self.data.demonstrated_tasks()
        rng.shuffle(tasks)
        made: list[Sample] = []
        for task in tasks:
            if len(made) >= wanted:
                break
            for step in demonstrations(self.data.phone, [task]):
                thought = written_thought(step) if settings.thoughts else None
                sample = encode(step, self.context, self.codec, thought)
                made += [] if lacks_words(self.codec, sample) else [sample]
        return made[:wanted]

    # --- stage 2 ---------------------------------------------------------------------------------------------

    def preferences(self, stage1: Path) -> list[PreferencePair]:
        """Pairs of replies, by running the stage-1 policy on the navigation tasks of training."""
        if (self.run_dir / PAIRS_FILE).is_file():
            self.say("preference pairs: already there")
            return read_pairs(self.run_dir)
        settings = self.recipe.dpo
        tasks = [task for task in self.tasks.train if task.kind == "navigation"]
        agent = self._agent(stage1, settings.temperature, settings.seed)
        pairs, counts = preference_pairs(self.graph, tasks, agent, self.writer, self.codec, settings.seed)
        self.say(f"preference pairs: {_told(counts)}")
        if not pairs:
            raise ConfigError(f"no preference pairs can be made of {len(tasks)} navigation tasks: {_told(counts)}")
        write_pairs(pairs, self.run_dir)
        return pairs

    def prefer(self, stage1: Path) -> Path:
        """DPO, with stage 1 as the reference; its last checkpoint."""
        settings, recipe = self.recipe.dpo, self.recipe
        pairs = self.preferences(stage1)
        steps = step_count(len(pairs), settings)
        first = self.steps_done()
        newest = checkpoint.latest(self.run_dir)
        if newest is not None and newest.name == checkpoint.folder_name(first + steps):
            self.say("DPO: already there")
            return newest
        made = make_trainer_engine(dpo_recipe(recipe, stage1, steps))
        self.say(f"DPO: {len(pairs)} pairs, {steps} steps")
        tracking = recipe.tracking
        with closing(made), Tracker(self.run_dir, tracking.wandb, tracking.tensorboard, tracking.project,
                                    tracking.name or self.run_dir.name) as tracker:  # fmt: skip
            last = DpoTrainer(made, pairs, settings, recipe.agent, self.run_dir, tracker, first).run()
        if last:
            self.say(f"DPO: loss {last['train/loss']:.3f}, accuracy {last['dpo/accuracy']:.2f}, "
                     f"margin {last['dpo/margin']:+.2f}, {last['time_s']:.0f} s")  # fmt: skip
        return checkpoint.latest(self.run_dir)

    # --- metrics ---------------------------------------------------------------------------------------------

    def measure(self, name: str, model: Path) -> dict[str, Any]:
        """`eval/NAME/results.json` of a checkpoint on the held-out tasks; results with the same protocol are kept."""
        path, protocol = self.run_dir / "eval" / name / RESULTS, self._protocol(model)
        if path.is_file() and (before := read_results(path))["protocol"] == protocol:
            return before
        self.say(f"page metrics of {model}")
        agent = self._agent(model, 0.0, self.recipe.eval.seed)
        results = evaluate(self.graph, self.tasks.test, agent, self.writer, protocol)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_results(path, results)
        return results

    def _protocol(self, model: Path) -> dict[str, Any]:
        held_out = repr([(task.id, *task.keys()) for task in self.tasks.test])
        return {
            "agent": "policy", "model": str(model), "weights_sha256": weights_digest(model), "split": "test",
            "tasks_sha256": hashlib.sha256(held_out.encode()).hexdigest(), "leak_guard": "passed: sft.pages.tasks",
            "temperature": 0.0, "step_budget": LONGEST, "screen": f"{self.graph.width}x{self.graph.height}",
            "prompt_hash": prompt_hash(self.context), "max_pixels": self.codec.max_pixels,
        }  # fmt: skip

    def _agent(self, model: Path, temperature: float, seed: int) -> PageAgent:
        engine = make_engine(model, self.recipe.engine, temperature or 1.0, seed=seed)
        sampling = Sampling(temperature, self.recipe.agent.max_new_tokens)
        return PageAgent(EnginePolicy(engine), self.scenes, self.context, sampling)


def stage1_recipe(recipe: Recipe) -> Recipe:
    """The recipe as a warm-up trains by it: [sft] with what [pages] says of stage 1. A run is saved without this."""
    settings = recipe.pages
    said = {name: getattr(settings, name) for name in ("batch_size", "learning_rate", "seed")}
    return recipe.model_copy(update={"sft": recipe.sft.model_copy(update={**said, "warmup": WARMUP})})


def dpo_recipe(recipe: Recipe, stage1: Path, steps: int) -> Recipe:
    """The recipe of an engine for DPO: stage 1's weights, [dpo]'s learning rate, log-probabilities at temperature 1.

    The engine keeps no reference weights of its own (`mobilerl.train.dpo`).
    """
    settings, algorithm = recipe.dpo, recipe.algorithm
    rate = {"learning_rate": settings.learning_rate, "warmup_steps": int(WARMUP * steps)}
    loss = algorithm.loss.model_copy(update={"kl_coef": 0.0})
    return recipe.model_copy(update={
        "model": str(stage1),
        "engine": recipe.engine.model_copy(update=rate),
        "collect": recipe.collect.model_copy(update={"temperature": 1.0}),
        "algorithm": algorithm.model_copy(update={"loss": loss}),
        "train": recipe.train.model_copy(update={"seed": settings.seed}),
    })  # fmt: skip


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "nothing"
