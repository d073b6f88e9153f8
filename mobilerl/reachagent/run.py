"""Runs ReachAgent from an SFT checkpoint: page graph, tasks, stage 1, preference pairs, DPO, and page metrics."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError, Recipe
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.config.claims import check_claim, claim
from mobilerl.config.reading import lock_run_dir
from mobilerl.engines.registry import make_engine, make_trainer_engine
from mobilerl.eval.policies import weights_digest
from mobilerl.eval.report import invalid_lines, read_results, write_results
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.models.checkpoint_folder import check_checkpoint
from mobilerl.models.codec import Codec
from mobilerl.policy.context import make_context, prompt_hash
from mobilerl.reachagent.agent import SUITE, PageAgent, Scenes
from mobilerl.reachagent.collect import check, page_graph, page_tasks
from mobilerl.reachagent.dpo import DpoTrainer, step_count
from mobilerl.reachagent.evaluation import evaluate, table
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.metrics import MAX_STEPS
from mobilerl.reachagent.pair_files import PAIRS_FILE, StoredPairs, write_pairs
from mobilerl.reachagent.pairs import preference_pairs
from mobilerl.reachagent.responses import ResponseWriter, flow_samples, has_unknown_tokens
from mobilerl.reachagent.tasks import TaskSet
from mobilerl.records.engine import Sampling
from mobilerl.sft.checks import check as check_sft
from mobilerl.sft.demonstrations import demonstrations
from mobilerl.sft.distributed import follow
from mobilerl.sft.reasoning import written_thought
from mobilerl.sft.run import SftRun, put_final, remove_unfinished
from mobilerl.sft.samples import Sample, encode
from mobilerl.suites.base import demonstrated_tasks
from mobilerl.system.atomic_files import write_atomic
from mobilerl.system.terminal import printable, say
from mobilerl.training import checkpoint
from mobilerl.training.tracking import Tracker

STAGE1 = "stage1"
RESULTS, COUNTS, TABLE = "results.json", "pages/counts.json", "pages.md"
TRAINER_FILES = ("trainer.pt", checkpoint.STATE_FILE)
WARMUP_RATIO = 0.02
"""Fraction of a stage's steps for warmup of the learning rate (ReachAgent)."""


class ReachAgentRun(SftRun):
    """One run. Resuming keeps finished parts: graph, stage 1, pairs, DPO checkpoints, results."""

    warmup_ratio = WARMUP_RATIO

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        super().__init__(recipe, run_dir)
        self.base_path = Path(recipe.model)
        self.codec = Codec.load(self.base_path, recipe.engine.max_pixels, recipe.engine.thinking)
        self.context = make_context(recipe.agent, self.codec.images.size_seen)

    @cached_property
    def graph(self) -> PageGraph:
        return page_graph(self.recipe.pages, self.recipe.phone, self.run_dir / "pages", say)

    @cached_property
    def tasks(self) -> TaskSet:
        return page_tasks(self.graph, self.recipe.pages, self.seed, self.run_dir / "pages", say)

    @cached_property
    def writer(self) -> ResponseWriter:
        return ResponseWriter(Scenes(self.graph), self.context)

    # --- stage 1 ---------------------------------------------------------------------------------------------

    def train_stage1(self) -> Path:
        """Trains on the golden flows of the training tasks, mixed with ordinary demonstrations."""
        if out := self.find_finished(STAGE1):
            return out
        settings = self.recipe.pages
        rate = settings.learning_rate
        return self.train(STAGE1, self.base_path, self.codec, self._samples(), settings.epochs, learning_rate=rate)

    def _samples(self) -> Iterator[Sample]:
        """Samples of stage 1, which are written to the disk one by one."""
        settings, number = self.recipe.pages, 0
        counts: Counter[str] = Counter()
        kinds = {"navigation": True, "reaching": settings.reaching, "operation": settings.operation}
        tasks = [task for task in self.tasks.train if kinds[task.kind]]
        for sample in flow_samples(self.writer, tasks, self.codec, settings.alignment, self.seed, counts):
            yield sample
            number += 1
        if not number:
            raise ConfigError(f"{self.base_path} can learn no step of {len(tasks)} tasks: {_summary(counts)}")
        say(f"stage 1: {len(tasks)} tasks; {_summary(counts)}")
        others = self._demonstrations(round(number * settings.demo_share / (1.0 - settings.demo_share)))
        write_atomic(self.run_dir / COUNTS, json.dumps({**counts, "demonstrations": len(others)}, indent=1).encode())
        yield from others

    def _demonstrations(self, number: int) -> list[Sample]:
        """Makes `number` samples of ordinary demonstrations, in the form of the last SFT stage."""
        rng = random.Random(f"{self.seed}/demonstrations")
        tasks = demonstrated_tasks(self.recipe)
        rng.shuffle(tasks)
        made: list[Sample] = []
        for task in tasks:
            if len(made) >= number:
                break
            for step in demonstrations(self.data.phone, [task], self.context, self.recipe.agent.random_marks):
                sample = encode(step, self.context, self.codec, written_thought(step, self.context))
                made += [] if has_unknown_tokens(self.codec, sample) else [sample]
        return made[:number]

    # --- stage 2 ---------------------------------------------------------------------------------------------

    def preferences(self, stage1: Path) -> StoredPairs:
        """Pairs of responses from the stage-1 policy on the navigation tasks of the training set."""
        if (self.run_dir / PAIRS_FILE).is_file():
            say("preference pairs: already there")
            return StoredPairs(self.run_dir)
        tasks = [task for task in self.tasks.train if task.kind == "navigation"]
        agent = self._agent(stage1, 1.0, self.seed)
        counts: Counter[str] = Counter()
        made = preference_pairs(self.graph, tasks, agent, self.writer, self.codec, self.seed, counts)
        write_pairs(made, self.run_dir)
        say(f"preference pairs: {_summary(counts)}")
        if not counts["pairs"]:
            (self.run_dir / PAIRS_FILE).unlink()
            raise ConfigError(f"{len(tasks)} navigation tasks give no preference pairs: {_summary(counts)}")
        return StoredPairs(self.run_dir)

    def train_dpo(self, stage1: Path) -> Path:
        """Runs DPO with stage 1 as the reference and returns the last checkpoint."""
        pairs = self.preferences(stage1)
        steps, first = step_count(len(pairs), self.recipe), self.steps_done()
        newest = checkpoint.latest(self.run_dir)
        if newest is not None and newest.name == checkpoint.folder_name(first + steps):
            say("DPO: already there")
            return newest
        engine = make_trainer_engine(dpo_recipe(self.recipe, stage1, steps))
        say(f"DPO: {len(pairs)} pairs, {steps} steps")
        with closing(engine), Tracker(self.run_dir, self.recipe.tracking) as tracker:
            last = DpoTrainer(engine, pairs, self.recipe, self.run_dir, tracker, first).run()
        if last:
            say(
                f"DPO: loss {last['train/loss']:.3f}, accuracy {last['dpo/accuracy']:.2f}, "
                f"margin {last['dpo/margin']:+.2f}, {last['time_s']:.0f} s"
            )
        newest = checkpoint.latest(self.run_dir)
        assert newest is not None
        return newest

    # --- metrics ---------------------------------------------------------------------------------------------

    def measure(self, name: str, model: Path) -> dict[str, Any]:
        """Evaluates a checkpoint on the held-out tasks (`eval/NAME/results.json`), unless that has been done."""
        path, protocol = self.run_dir / "eval" / name / RESULTS, self._protocol(model)
        if path.is_file() and (before := read_results(path))["protocol"] == protocol:
            return before
        say(f"page metrics of {model}")
        agent = self._agent(model, 0.0, 0)
        results = evaluate(self.graph, self.tasks.test, agent, self.writer, protocol)
        for line in invalid_lines(results):
            say(line)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_results(path, results)
        return results

    def _protocol(self, model: Path) -> dict[str, Any]:
        held_out = repr([(task.id, *task.keys()) for task in self.tasks.test])
        return {
            "agent": "policy",
            "model": str(model),
            "weights_sha256": weights_digest(model),
            "split": "test",
            "tasks_sha256": hashlib.sha256(held_out.encode()).hexdigest(),
            "leak_guard": "passed: mobilerl.reachagent.tasks",
            "temperature": 0.0,
            "step_budget": MAX_STEPS,
            "screen": f"{self.graph.width}x{self.graph.height}",
            "prompt_hash": prompt_hash(self.context),
            "max_pixels": self.codec.max_pixels,
        }

    def _agent(self, model: Path, temperature: float, seed: int) -> PageAgent:
        engine = make_engine(model, self.recipe.engine, temperature or 1.0, seed=seed)
        sampling = Sampling(temperature, self.recipe.agent.max_new_tokens)
        return PageAgent(EnginePolicy(engine), self.writer.scenes, self.context, sampling)


def dpo_recipe(recipe: Recipe, stage1: Path, steps: int) -> Recipe:
    """Recipe of DPO's engine: stage 1's weights, [dpo]'s learning rate, temperature 1, and no KL reference."""
    optimizer = AdaGRPOSection(learning_rate=recipe.dpo.learning_rate, warmup_steps=int(WARMUP_RATIO * steps))
    return recipe.model_copy(
        update={
            "model": str(stage1),
            "rollout": recipe.rollout.model_copy(update={"temperature": 1.0}),
            "algorithm": optimizer,  # without a KL term
        }
    )


def _summary(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def run(recipe: Recipe, run_dir: Path) -> Path:
    """Runs or resumes ReachAgent with a recipe that has its checkpoint's agent; returns the copy of the last
    checkpoint in `final/`.

    On all nodes but the first it only joins the training of stage 1. Raises ConfigError, GraphError or CheckpointError
    for problems that the user can fix.
    """
    if not recipe.model:
        raise ConfigError("stage 1 starts from an SFT checkpoint: give --model DIR")
    check_checkpoint(recipe.model)
    check(recipe.pages)
    check_sft(recipe)
    if recipe.sft.node_rank:
        follow(recipe.sft)
        return run_dir / "final"
    with lock_run_dir(run_dir):
        return _run(recipe, run_dir)


def _run(recipe: Recipe, run_dir: Path) -> Path:
    check_claim(recipe, run_dir, "pages")
    made = ReachAgentRun(recipe, run_dir)  # loads the checkpoint's tokenizer
    claim(recipe, run_dir, "pages")
    remove_unfinished(run_dir, run_dir / "pages", *(run_dir / "eval").glob(f"{SUITE}-*"), run_dir / "eval")
    entries = [("SFT", made.measure(f"{SUITE}-before", made.base_path))]
    final = made.train_stage1()
    entries.append(("stage 1", made.measure(f"{SUITE}-stage1", final)))
    if recipe.dpo.epochs:
        final = made.train_dpo(final)
        entries.append(("DPO", made.measure(f"{SUITE}-after", final)))
    put_final(final, run_dir, TRAINER_FILES)
    shown = table(entries)
    write_atomic(run_dir / "eval" / TABLE, f"{shown}\n".encode())
    print(printable(shown))  # the same as in the file
    say(f"checkpoint: {run_dir / 'final'}")
    made.cluster.close()
    return run_dir / "final"
