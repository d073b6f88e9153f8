"""The warm-up from nothing (or from a checkpoint) to `final/`: demonstrations, stage 1, stage 2."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rich.console import Console

from mobilerl.agent.policy import EnginePolicy, Policy
from mobilerl.atomic_files import put_folder
from mobilerl.config import ConfigError, Recipe
from mobilerl.config.reading import claim
from mobilerl.engines.base import Sampling
from mobilerl.engines.codec import Codec
from mobilerl.setup import make_context, make_engine, save_agent, use_threads
from mobilerl.train.tracking import Tracker, read_metrics
from sft.data import Data
from sft.demonstrations import single_steps
from sft.distributed import Cluster, fit, follow
from sft.folders import put_final, remove_unfinished
from sft.lessons import lessons, recitals
from sft.placement import check, check_stages, deepspeed_file
from sft.rank import Job
from sft.reasoning import PolicyProposer, Proposer, Reasoned, ThoughtWriter, bootstrap
from sft.reporting import Report
from sft.samples import ExpertStep, Sample, encode, encode_all
from sft.trainer import Spread, save_model, train, trainable_model

STAGES = (1, 2)
PLACEMENT = ("sft.processes", "sft.nodes", "sft.node_rank", "sft.rendezvous")
"""Settings that say where a run goes, not what it is: a run may go on elsewhere."""
LESSON_RATE = 2e-3
"""Learning rate of the reading lessons."""
LESSON_SHARE = 0.15
"""New lessons among the samples of the stages, as a share of them, so that reading is not forgotten."""


class WarmUp:
    """One warm-up run. Each stage ends in a checkpoint folder, which a second call of the command does not redo."""

    def __init__(self, recipe: Recipe, run_dir: Path) -> None:
        self.recipe, self.run_dir = recipe, run_dir
        self.cluster = Cluster(recipe.sft)
        self.context = make_context(recipe.agent)
        self.console = Console()
        self.data = Data(recipe, run_dir, self.context, self.say)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    # --- stages ----------------------------------------------------------------------------------------------

    def _made(self, name: str) -> Path | None:
        """A stage's checkpoint if it is there: asked before its samples are made, which may take hours and money."""
        out = self.run_dir / name
        if not out.is_dir():
            return None
        self.say(f"{name}: already there")
        return out

    def read(self, base: Path) -> Path:
        """Reading lessons, for a model that starts from nothing."""
        settings = self.recipe.sft
        if self.recipe.model or not settings.lessons:
            return base
        codec = Codec.load(base)
        for name, make, count in (("recitals", recitals, settings.recitals), ("lessons", lessons, settings.lessons)):
            if made := self._made(name):
                base = made
                continue
            samples = make(self.data.words, codec, count, random.Random(f"{settings.seed}/{name}"))
            base = self._train(name, base, codec, samples, 1.0, settings.lesson_batch, LESSON_RATE)
        return base

    def _refreshed(self, name: str, codec: Codec, samples: list[Sample]) -> list[Sample]:
        """With some new lessons among the samples, so that a model that learned to read by them does not forget it."""
        settings = self.recipe.sft
        if self.recipe.model or not settings.lessons:
            return samples
        rng = random.Random(f"{settings.seed}/{name}")
        return samples + lessons(self.data.words, codec, int(LESSON_SHARE * len(samples)), rng)

    def stage1(self, steps: Sequence[ExpertStep], base: Path) -> Path:
        """Reasoning-free: the expert's action without a thought, and single-step instructions."""
        if made := self._made("stage1"):
            return made
        settings = self.recipe.sft
        extra = single_steps(steps, settings.single_steps, random.Random(settings.seed))
        codec = Codec.load(base, self.recipe.engine.max_pixels)
        samples = encode_all(chain(steps, extra, self.data.recorded()), self.context, codec)
        return self._train("stage1", base, codec, self._refreshed("stage1", codec, samples), settings.stage1_epochs)

    def stage2(self, steps: Sequence[ExpertStep], base: Path) -> Path:
        """Reasoning: rounds of proposals, of which those that lead to the expert's action are learned."""
        settings = self.recipe.sft
        for number in range(1, settings.stage2_rounds + 1):
            name = f"stage2-round{number}"
            if made := self._made(name):
                base = made
                continue
            # By round: the same whether earlier ones are already there or not.
            rng = random.Random(f"{settings.seed}/reasoning/{number}")
            kept, share = bootstrap(steps, self._proposer(number, base), settings.candidates, rng)
            self.say(f"round {number}: thoughts kept for {share:.0%} of {len(steps)} steps")
            kept += self._written(steps, kept)
            if not kept:
                raise ConfigError(f"stage 2, round {number}: no proposal was the expert's action; train stage 1 longer")
            codec = Codec.load(base, self.recipe.engine.max_pixels)
            samples = [encode(r.step, self.context, codec, r.thought) for r in kept]
            base = self._train(name, base, codec, self._refreshed(name, codec, samples), settings.stage2_epochs)
        return base

    def _written(self, steps: Sequence[ExpertStep], kept: Sequence[Reasoned]) -> list[Reasoned]:
        """Without a model to ask, steps that no proposal solved keep a written thought: they are the hard ones."""
        if self.recipe.sft.proposer_url:
            return []
        solved = {id(r.step) for r in kept}
        rest = [s for s in steps if id(s) not in solved]
        return [Reasoned(s, p[0].thought) for s, p in zip(rest, ThoughtWriter().propose(rest, 1), strict=True)]

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
        if made := self._made(name):
            return made
        out, settings = self.run_dir / name, self.recipe.sft
        ranks = f", {settings.nodes * settings.processes} processes ({settings.deepspeed or 'plain DDP'})"
        self.say(f"{name}: {len(samples)} samples, {epochs:g} epochs{ranks if settings.processes else ''}")
        temporary = self.run_dir / f".{name}.tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        job = self._job(base, codec, epochs, batch_size, learning_rate)
        began = time.monotonic()
        to = self.recipe.tracking
        with Tracker(self.run_dir, to.wandb, to.tensorboard, to.project, to.name or self.run_dir.name) as tracker:
            done = self.steps_done()
            tracker.truncate_after(done)
            report = Report(tracker, name, done, self.console)
            if settings.processes:
                folder = self.run_dir / f".{name}.job"
                fit(job, samples, folder, self.cluster, lambda said: report.add(**said)).rename(temporary)
                shutil.rmtree(folder)
            else:
                self._train_here(job, codec, samples, temporary, report)
        save_agent(self.recipe.agent, temporary)
        put_folder(temporary, out)
        self.say(f"{name}: {time.monotonic() - began:.0f} s")
        return out

    def steps_done(self) -> int:
        """The last iteration in metrics.jsonl of a stage that is there; what comes after it, a killed one wrote."""
        rows = read_metrics(self.run_dir / "metrics.jsonl")
        return max((row["iteration"] for row in rows if (self.run_dir / str(row.get("stage"))).is_dir()), default=0)

    def _job(self, base: Path, codec: Codec, epochs: float, batch_size: int | None, learning_rate: float | None) -> Job:
        settings = self.recipe.sft
        deepspeed = str(deepspeed_file(settings.deepspeed)) if settings.deepspeed else ""
        return Job(
            base=str(base.resolve()), epochs=epochs, batch_size=batch_size or settings.batch_size,
            learning_rate=learning_rate or settings.learning_rate, warmup=settings.warmup, seed=settings.seed,
            max_pixels=codec.max_pixels, lora_rank=self.recipe.engine.lora_rank, attention=settings.attention,
            spread=Spread(settings.micro_batch, settings.packing, settings.gradient_checkpointing, deepspeed),
        )  # fmt: skip

    def _train_here(self, job: Job, codec: Codec, samples: Sequence[Sample], out: Path, report: Report) -> None:
        use_threads(self.recipe.engine)
        model = trainable_model(Path(job.base), job.lora_rank, job.attention, job.seed)
        train(model, codec, samples, self.run_dir, job.epochs, job.batch_size, job.learning_rate, job.warmup, job.seed,
              [report], job.spread)  # fmt: skip
        save_model(model, codec, out)


def run(recipe: Recipe, run_dir: Path, stages: Sequence[int] = STAGES) -> Path:
    """Runs the stages; returns the last one's checkpoint, which is also copied to `final/`. Raises ConfigError.

    On any node but the first it trains along until that is done.
    """
    check(recipe)
    if recipe.sft.node_rank:
        follow(recipe.sft)
        return run_dir / "final"
    check_stages(recipe, run_dir, stages)
    claim(recipe, run_dir, PLACEMENT)
    remove_unfinished(run_dir)
    warm_up = WarmUp(recipe, run_dir)
    if warm_up.data.sources:
        warm_up.say(f"sources: {', '.join(source.spec.name for source in warm_up.data.sources)}")
    checkpoint = warm_up.read(warm_up.data.base())
    steps = warm_up.data.expert_steps()
    if 1 in stages:
        checkpoint = warm_up.stage1(steps, checkpoint)
    elif (run_dir / "stage1").is_dir():
        checkpoint = run_dir / "stage1"
    if 2 in stages:
        checkpoint = warm_up.stage2(steps, checkpoint)
    final = put_final(checkpoint, run_dir)
    warm_up.cluster.close()
    warm_up.say(f"warm-up done: {final}")
    return final
