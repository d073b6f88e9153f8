"""The online training loop that every algorithm runs through.

Sample tasks from the curriculum, collect groups, hand them to the algorithm, update on the mini-batches it yields,
publish the weights, update the curriculum, log, checkpoint.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from mobilerl.algorithms.base import make_algorithm
from mobilerl.config.reading import lock_run_dir
from mobilerl.engines.registry import engine_kind, make_trainer_engine
from mobilerl.envs.base import Devices, MobileEnv, Task
from mobilerl.records import Group, TrainingSample
from mobilerl.records.batches import keep_batches
from mobilerl.records.engine import Engine
from mobilerl.suites.fleet import fleet_type
from mobilerl.system.free_memory import give_back_free_memory
from mobilerl.training import checkpoint
from mobilerl.training.announcements import announce, next_commands
from mobilerl.training.cost import CostTracker
from mobilerl.training.history import start_from_history
from mobilerl.training.interrupt import Snapshot, StopGuard, Stopped
from mobilerl.training.learner import learn, step_counter
from mobilerl.training.metrics import LEARNED, IterationWatch
from mobilerl.training.mismatch import check_k3, k3_limit
from mobilerl.training.nothing_to_learn import NothingToLearn
from mobilerl.training.offline import load_offline_trajectories
from mobilerl.training.progress import ProgressView, describe_status
from mobilerl.training.run import Run
from mobilerl.training.run_dir import check_run_dir
from mobilerl.training.run_log import RunLog
from mobilerl.training.setup import make_resources, reads_screenshots
from mobilerl.training.source import Collectors, GroupSource, make_group_source, take_some
from mobilerl.training.start_model import as_started
from mobilerl.training.state import RunState
from mobilerl.training.tasks import TaskSampler

T = TypeVar("T")
NOTHING = "stopped in the first iteration; nothing is saved"
REMOVED = "the curriculum removed every task (see algorithm.curriculum.revisit_every)"


def train(run: Run) -> None:
    """Starts or resumes a training run. Raises ConfigError or CheckpointError for problems that the user can fix."""
    with lock_run_dir(run.run_dir):
        check_run_dir(run.recipe, run.run_dir, run.resume)
        _train(run)


def _train(run: Run) -> None:
    recipe = run.recipe
    if recipe.judge.reward:
        from mobilerl.judge.judge import check_judge

        check_judge(recipe.judge)
    tasks, devices = run.suite.open(run.run_dir)
    with ExitStack() as unplayed:
        if devices is not None and not isinstance(devices, Sequence):
            unplayed.callback(_close, devices)  # some of them may be running already
        announce(recipe, run.run_dir, tasks, devices)
        trainer = OnlineTrainer(run, tasks, devices)
        asyncio.run(trainer.run(take_over=unplayed.pop_all))


def _close(devices: Devices) -> None:
    asyncio.run(devices.close())


class OnlineTrainer:
    """One training run. Its state, which checkpoints hold, is in `state`."""

    def __init__(self, opened: Run, tasks: Sequence[Task], devices: Devices | Sequence[MobileEnv] | None) -> None:
        self._opened, self.devices = opened, devices
        self.recipe, self.run_dir = recipe, run_dir = opened.recipe, opened.run_dir
        self.cost = CostTracker(run_dir, engine_kind(recipe.engine).gpus(recipe), recipe.judge.reward, opened.resume)
        self.sampler = TaskSampler(tasks, recipe.algorithm.curriculum)
        self.rng = random.Random(recipe.train.seed)
        self.engine: Engine = make_trainer_engine(recipe)
        self.algorithm = make_algorithm(recipe.algorithm, make_resources(recipe, self.engine))
        self.sampler.use_values(self.algorithm.instruction_values)
        self.steps = step_counter(self.algorithm)
        self.state = RunState(self.engine, self.sampler, self.algorithm, self.rng)
        self.log = RunLog(as_started(recipe, run_dir), run_dir)
        self._max_k3 = k3_limit(recipe)
        self._reads_screenshots = reads_screenshots(recipe, self.algorithm)
        self._held_out = opened.suite.held_out(recipe.eval.instances) if recipe.eval.every else {}
        self._asked = 0
        """Number of groups asked for in this iteration."""
        self._thread = ThreadPoolExecutor(1, "learning")
        checkpoint.clean(run_dir)
        if opened.resume:
            self.state.restore(run_dir)
            saved = self.state.saved_iteration
            self.log.truncate_after(-1 if saved is None else saved)
        if (history := recipe.algorithm.curriculum.history) and self.state.saved_iteration is None:
            start_from_history(self.sampler, Path(history))

    async def run(self, take_over: Callable[[], object]) -> None:
        """Runs the loop. Calls `take_over` when the collector becomes responsible for closing `devices`."""
        train, state = self.recipe.train, self.state
        state.start_clock()
        view = ProgressView(train.iterations, max_minutes=train.max_minutes, max_env_steps=train.max_env_steps)
        self.sampler.report_to(view.say)
        if aside := self.sampler.excluded.set_aside:
            view.say(f"excluded before: {', '.join(aside)}")
        with closing(self.engine), self._thread, self.log, view, StopGuard(view.say) as guard:
            if state.saved_iteration is not None and self._done():
                self.sampler.check()
                view.say(f"{self.run_dir} is finished: {self._why_done()}\n{self._what_next()}")
                return
            collector, source = make_group_source(self._opened, self.engine, self.sampler, self.rng, self.devices)
            collector.on_event(lambda event: view.say(str(event)))
            nothing = NothingToLearn(view.say)
            watch = IterationWatch(collector, ahead=self.recipe.rollout.max_staleness > 0)
            if state.saved_iteration is None and self.algorithm.stored_trajectories:
                view.status("learning from stored trajectories")
                self.log.hold(await self._aside(self._learn_offline))
                self._check_steps()
            given_up: Snapshot | None = None
            take_over()
            async with self.cost.holding(collector), collector:
                if state.saved_iteration is None and self._held_out:
                    view.status("evaluating")
                    view.update({"iteration": 0} | (first := await self._evaluate(collector)))
                    self.log.metrics({"iteration": 0, "time_s": state.elapsed_s, **first})
                while not (guard.requested or self._done()):
                    before = Snapshot(self.sampler, self.rng)
                    try:
                        with view.watching(lambda: self._status(collector, watch)):
                            metrics = await self._iterate(collector, source, watch, nothing, guard)
                    except Stopped:  # during collection, so nothing has been learned from it
                        given_up = before
                        break
                    view.update(metrics, collector.report())
                    nothing.say()
                    self._check_steps()
                    check_k3(metrics.get("train/rollout_k3"), self._max_k3, checkpoint.left_of(self.run_dir))
                    if state.iteration % train.checkpoint_every == 0:
                        await state.save(self.recipe, self.run_dir, self._thread)
                    give_back_free_memory()
            if not guard.requested:
                self._check_steps(ended=True)
            if given_up is not None:
                await given_up.restore()
                state.iteration -= 1
            if state.saved_iteration != state.iteration and self.log.has_begun:
                self.log.keep_directory()
                await state.save(self.recipe, self.run_dir, self._thread)
            self.cost.record()
            view.say(self.cost.summary())
            saved = checkpoint.latest(self.run_dir)
            guard.raise_if_requested(f"stopped; iteration {state.iteration} is saved in {saved}" if saved else NOTHING)
            self.sampler.check()
            if not self.sampler.has_tasks:
                view.say(f"stopped: {REMOVED}")
            view.say(self._what_next())
            if not self.steps.taken:
                view.say(nothing.no_step())

    async def _iterate(
        self,
        collector: Collectors,
        source: GroupSource,
        watch: IterationWatch,
        nothing: NothingToLearn,
        guard: StopGuard,
    ) -> dict[str, float | None]:
        state = self.state
        state.iteration += 1
        watch.begin()
        draw = self._reads_screenshots or self.log.keeps(state.iteration)
        groups = await guard.until_stopped(self._collect(collector, source, draw))
        watch.end_phase("rollout")
        state.env_steps += sum(len(t.steps) for g in groups for t in g.trajectories)
        informative = [useful for g in groups for useful in self.algorithm.informative(g)]
        learned = await self._learn(groups)
        watch.end_phase("update")
        version = self.engine.version
        await self._aside(self.engine.publish)
        self.sampler.record(groups)
        watch.end_phase("publish")
        metrics: dict[str, float | None] = {
            "iteration": state.iteration,
            "time_s": state.elapsed_s,
            **watch.metrics(groups, version),
            **dict.fromkeys(LEARNED),
            **learned,
            "rollout/env_steps": state.env_steps,
            "rollout/informative": fmean(informative) if informative else None,
            **self.sampler.excluded.metrics(),
            **{f"curriculum/{k}": n for k, n in self.sampler.curriculum.counts().items()},
            **(await self._evaluate(collector)),
            **self.cost.record(),
        }
        nothing.after(groups, informative, metrics)
        self.log.metrics(metrics)
        self.log.status(state.iteration, self.sampler, groups, collector.report())
        if self.log.keeps(state.iteration):
            learned_from = self.algorithm.advantages(), self.algorithm.shaped_rewards()
            self.log.trajectories(state.iteration, groups, *learned_from)
        return metrics

    async def _evaluate(self, collector: Collectors) -> dict[str, float | None]:
        """Success rates on held-out tasks; empty in iterations without an evaluation."""
        every = self.recipe.eval.every
        if not every or (self.state.iteration % every and not self._done()):
            return {}
        rates: dict[str, float | None] = {}
        began = time.monotonic()
        for name, tasks in self._held_out.items():
            label = f"{self.state.iteration:06d}-eval-{name}"
            groups = await collector.evaluate(tasks, label, self._reads_screenshots)
            rates[f"eval/{name}"] = fmean(g.trajectories[0].success for g in groups) if groups else None
        return {**rates, "time/eval_s": time.monotonic() - began}

    async def _collect(self, collector: Collectors, source: GroupSource, draw: bool) -> list[Group]:
        """Collects this iteration's groups; dynamic sampling replaces zero-variance ones while rounds are left."""
        wanted = self._asked = self.recipe.rollout.tasks_per_iteration
        label, give_up_s = f"{self.state.iteration:06d}-0", self.recipe.fleet.give_up_s
        groups = await take_some(source, wanted, label, give_up_s, collector, draw)
        for round in range(1, 1 + (self.algorithm.max_resample_rounds if source.can_resample else 0)):
            missing = wanted - sum(any(self.algorithm.informative(g)) for g in groups)
            if missing <= 0:
                break
            self._asked += missing
            groups += await source.take(missing, f"{self.state.iteration:06d}-{round}", draw)
        return groups

    def _status(self, collector: Collectors, watch: IterationWatch) -> str:
        episodes = self._asked * self.recipe.algorithm.group_size
        return describe_status(self.state.iteration, watch.episodes(), episodes, collector.status())

    def _learn_offline(self) -> dict[str, float | None]:
        """Learns from the trajectories of another run, before the first iteration."""
        trajectories = load_offline_trajectories(Path(self.algorithm.stored_trajectories))
        batches = self.algorithm.offline_batches(trajectories, self.rng)
        learned = learn(self.engine, self.algorithm, batches, self.steps)
        self.engine.publish()
        return {"iteration": 0, **learned, **self.cost.record()}

    async def _learn(self, groups: Sequence[Group]) -> dict[str, float | None]:
        """Updates in a thread, unless nothing else needs the event loop, as a pool that repairs devices does."""
        if self.recipe.rollout.max_staleness == 0 and fleet_type(self.recipe.fleet).in_process:
            return self._update(groups)
        return await self._aside(self._update, groups)

    def _update(self, groups: Sequence[Group]) -> dict[str, float | None]:
        iteration, keep = self.state.iteration, self.recipe.train.keep_batches
        self.algorithm.add(groups, iteration)
        batches: Iterable[Sequence[TrainingSample]] = self.algorithm.mini_batches(self.rng)
        if keep:
            batches = keep_batches(self.run_dir, iteration, batches, keep)
        return learn(self.engine, self.algorithm, batches, self.steps)

    def _check_steps(self, ended: bool = False) -> None:
        """Raises NotFinite if nothing can be learned any more; called before a checkpoint could be written."""
        self.steps.check(checkpoint.left_of(self.run_dir), ended)

    async def _aside(self, work: Callable[..., T], *args: object) -> T:
        """Runs `work` in a thread while episodes go on; always the same one, as malloc keeps each thread's peak."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _what_next(self) -> str:
        return next_commands(checkpoint.latest(self.run_dir), self.recipe, self.run_dir)

    def _done(self) -> bool:
        return bool(self._why_done())

    def _why_done(self) -> str:
        """The limit that the run has reached and what to change to go on; "" before."""
        train, state = self.recipe.train, self.state
        reached = {
            "train.iterations": state.iteration >= train.iterations,
            "train.max_minutes": train.max_minutes is not None and state.elapsed_s > 60 * train.max_minutes,
            "train.max_env_steps": train.max_env_steps is not None and state.env_steps >= train.max_env_steps,
        }
        if names := [name for name, at_limit in reached.items() if at_limit]:
            return f"it has done {state.iteration} iterations; to go on, raise {' and '.join(names)}"
        return "" if self.sampler.has_tasks else REMOVED
