"""The online loop. It reads like the paper's algorithm; every algorithm runs through it.

Sample tasks from the curriculum, collect groups, assign credit, insert into replay, update on mini-batches that mix
fresh and replayed rows, publish, move the curriculum, log, checkpoint.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar

from envs.base import Devices, MobileEnv, Task
from mobilerl.config import Recipe
from mobilerl.engines.base import Engine
from mobilerl.free_memory import give_back_free_memory
from mobilerl.records import Group
from mobilerl.setup import make_replay, make_trainer_engine
from mobilerl.train import checkpoint
from mobilerl.train.credit import Credited, assign_credit, learned_from
from mobilerl.train.critics import make_critic
from mobilerl.train.interrupt import Before, StopGuard, Stopped
from mobilerl.train.learner import Learner
from mobilerl.train.metrics import LEARNED, IterationWatch
from mobilerl.train.players import make_players
from mobilerl.train.progress import ProgressView, doing
from mobilerl.train.run_dir import open_run
from mobilerl.train.run_log import RunLog
from mobilerl.train.source import GroupSource, Players, take_some
from mobilerl.train.spending import Spending, gpus_of
from mobilerl.train.state import RunState
from mobilerl.train.stored import stored_trajectories
from mobilerl.train.tasks import TaskSampler, open_suite

T = TypeVar("T")


def train(recipe: Recipe, run_dir: Path, resume: bool) -> None:
    """Runs (or goes on with) a training run. Raises ConfigError or CheckpointError for what the user can mend."""
    recipe = open_run(recipe, run_dir, resume)
    if recipe.judge.reward:
        from mobilerl.judge.judge import check_judge

        check_judge(recipe.judge)
    tasks, devices = open_suite(recipe, run_dir)
    with ExitStack() as unplayed:
        if devices is not None and not isinstance(devices, Sequence):
            unplayed.callback(_close, devices)  # some of them may be running already
        trainer = OnlineTrainer(recipe, run_dir, resume, tasks, devices)
        asyncio.run(trainer.run(take_over=unplayed.pop_all))


def _close(devices: Devices) -> None:
    asyncio.run(devices.close())


class OnlineTrainer:
    """One run: what a checkpoint holds of it is in `state`."""

    def __init__(
        self, recipe: Recipe, run_dir: Path, resume: bool, tasks: Sequence[Task],
        devices: Devices | Sequence[MobileEnv] | None,
    ) -> None:  # fmt: skip
        self.recipe, self.run_dir, self.devices = recipe, run_dir, devices
        self.spending = Spending(run_dir, gpus_of(recipe), recipe.judge.reward, resume)
        self.sampler = TaskSampler(tasks, recipe.algorithm.curriculum, recipe.collect.task_losses)
        self.replay = make_replay(recipe.algorithm.replay)
        self.rng = random.Random(recipe.train.seed)
        self.engine: Engine = make_trainer_engine(recipe)
        self.critic = make_critic(recipe, self.engine)
        if self.critic is not None:
            self.sampler.value_of = self.critic.instruction_values
        self.learner = Learner(self.engine, recipe.algorithm, recipe.train, self.critic)
        self.state = RunState(self.engine, self.sampler, self.replay, self.critic, self.rng)
        self.log = RunLog(recipe, run_dir)
        self._thread = ThreadPoolExecutor(1, "learning")
        checkpoint.clean(run_dir)
        if resume:
            self.state.restore(run_dir)
            saved = self.state.saved_iteration
            self.log.forget_after(-1 if saved is None else saved)

    async def run(self, take_over: Callable[[], object]) -> None:
        """`take_over` is called when `devices` get into the hands of what plays on them, and closes them."""
        train, state = self.recipe.train, self.state
        state.start_clock()
        view = ProgressView(train.iterations, max_minutes=train.max_minutes, max_env_steps=train.max_env_steps)
        self.sampler.say = view.say
        if aside := self.sampler.losses.set_aside:
            view.say(f"set aside before, and not played: {', '.join(aside)}")
        with closing(self.engine), self._thread, self.log, view, StopGuard(view.say) as guard:
            collector, source = make_players(
                self.recipe, self.run_dir, self.engine, self.sampler, self.rng, self.devices
            )
            watch = IterationWatch(collector, ahead=self.recipe.collect.max_staleness > 0)
            if state.saved_iteration is None and self.recipe.offline.trajectories:
                view.status("learning from stored trajectories")
                self.log.metrics(await self._aside(self._learn_offline))
            given_up: Before | None = None
            take_over()
            async with self.spending.holding(collector), collector:
                while not (guard.requested or self._done()):
                    before = Before(self.sampler, self.rng)
                    try:
                        with view.watching(lambda: doing(state.iteration, collector.status())):
                            metrics = await self._iterate(collector, source, watch, guard)
                    except Stopped:  # while it collected: nothing has been learned from it
                        given_up = before
                        break
                    view.update(metrics)
                    if state.iteration % train.checkpoint_every == 0:
                        await state.save(self.recipe, self.run_dir, self._thread)
                    give_back_free_memory()
            if given_up is not None:
                await given_up.restore()
                state.iteration -= 1
            if state.saved_iteration != state.iteration:
                await state.save(self.recipe, self.run_dir, self._thread)
            self.spending.record()
            view.say(self.spending.summary())
            guard.raise_if_requested(
                f"stopped; iteration {state.iteration} is saved in {checkpoint.latest(self.run_dir)}"
            )
            self.sampler.check()
            if not self.sampler.has_tasks:
                view.say("stopped: the curriculum removed every task (see algorithm.curriculum.revisit_every)")

    async def _iterate(
        self, collector: Players, source: GroupSource, watch: IterationWatch, guard: StopGuard
    ) -> dict[str, float]:
        state = self.state
        state.iteration += 1
        watch.begin()
        groups, credited = await guard.until_stopped(self._collect(collector, source))
        watch.ended("rollout")
        state.env_steps += sum(len(t.steps) for g in groups for t in g.trajectories)
        if self.replay is not None:
            self.replay.insert([c.trajectory for c in credited], [c.advantage for c in credited], state.iteration)
        learned = await self._learn(learned_from(credited, self.recipe.algorithm.credit))
        watch.ended("update")
        version = self.engine.version
        await self._aside(self.engine.publish)
        self.sampler.record(groups)
        watch.ended("publish")
        metrics = {
            "iteration": state.iteration,
            "time_s": state.elapsed_s,
            **watch.metrics(groups, version),
            **dict.fromkeys(LEARNED),
            **learned,
            "rollout/env_steps": state.env_steps,
            "rollout/informative": sum(c.informative for c in credited) / len(credited) if credited else None,
            "replay/size": len(self.replay) if self.replay is not None else 0,
            **self.sampler.losses.metrics(),
            **{f"curriculum/{k}": n for k, n in self.sampler.curriculum.counts().items()},
            **self.spending.record(),
        }
        self.log.metrics(metrics)
        self.log.boards(state.iteration, self.sampler, groups, collector.report())
        if self.log.keeps(state.iteration):
            self.log.trajectories(state.iteration, groups, self._advantages(credited))
        return metrics

    async def _collect(self, collector: Players, source: GroupSource) -> tuple[list[Group], list[Credited]]:
        """Groups of this iteration with their credit; constant groups are replaced while refills are left."""
        settings = self.recipe.algorithm.credit
        wanted = self.recipe.collect.tasks_per_iteration
        label, give_up_s = f"{self.state.iteration:06d}-0", self.recipe.fleet.give_up_s
        groups = await take_some(source, wanted, label, give_up_s, collector)
        credited = assign_credit(groups, settings)
        for refill in range(1, settings.max_refills + 1 if settings.drop_constant_groups else 1):
            missing = wanted - _informative_groups(groups, credited)
            if missing <= 0:
                break
            more = await source.take(missing, f"{self.state.iteration:06d}-{refill}")
            groups += more
            credited += assign_credit(more, settings)
        return groups, credited

    def _learn_offline(self) -> dict[str, float]:
        """Before the first iteration: from trajectories that another run collected."""
        offline = self.recipe.offline
        groups = [Group(t.task, (t,)) for t in stored_trajectories(Path(offline.trajectories))]
        credited = assign_credit(groups, self.recipe.algorithm.credit)
        self.replay.insert([c.trajectory for c in credited], [c.advantage for c in credited], 0)
        learned = self.learner.learn_from_replay(self.replay, offline.updates, self.rng, offline=True)
        self.engine.publish()
        return {"iteration": 0, "replay/size": len(self.replay), **learned, **self.spending.record()}

    async def _learn(self, credited: Sequence[Credited]) -> dict[str, float]:
        """Aside, unless nobody needs the event loop meanwhile: a pool mends its devices by the clock."""
        if self.recipe.collect.max_staleness == 0 and self.recipe.fleet.type == "embedded":
            return self.learner.learn(credited, self.replay, self.rng)
        return await self._aside(self.learner.learn, credited, self.replay, self.rng)

    async def _aside(self, work: Callable[..., T], *args: object) -> T:
        """In a thread, while devices are played on. Always the same one: malloc keeps the most that each ever used."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def _done(self) -> bool:
        return self.state.iteration >= self.recipe.train.iterations or self._spent() or not self.sampler.has_tasks

    def _spent(self) -> bool:
        """Has the run had the time, or the steps on devices, that the recipe gives it?"""
        minutes, steps = self.recipe.train.max_minutes, self.recipe.train.max_env_steps
        out_of_time = minutes is not None and self.state.elapsed_s > 60 * minutes
        return out_of_time or (steps is not None and self.state.env_steps >= steps)

    def _advantages(self, credited: Sequence[Credited]) -> Mapping[str, float | Sequence[float]]:
        """By trajectory; a critic's are one per step, and anew for all that the replay holds."""
        if self.critic is not None:
            return self.replay.advantages()
        return {c.trajectory.id: c.advantage for c in credited}


def _informative_groups(groups: Sequence[Group], credited: Sequence[Credited]) -> int:
    """Those with anything to learn from: what is informative may be a group as a whole, or some of its episodes."""
    useful = {c.trajectory.id for c in credited if c.informative}
    return sum(any(t.id in useful for t in g.trajectories) for g in groups)
