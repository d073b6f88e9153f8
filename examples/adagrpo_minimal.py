"""AdaGRPO (MobileRL, ICLR 2026) in one file: the method, on this package's phone, model and engine.

    python examples/adagrpo_minimal.py [--iterations 20] [--out runs/minimal]

What is left out of the real thing (`mobilerl train`) is what keeps it alive: devices that fail, checkpoints, worker
processes, several engines, settings. What is there is the algorithm, each part with its equation, without some
refinements: no dual clip, no importance weights, no age limit of the replay, no dynamic sampling, and every token has
the same weight, since mini-batches are not made of whole trajectories.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.base import Task
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import train_tasks
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import make_context
from mobilerl.records import MicroBatch, TrainingSample, Trajectory
from mobilerl.records.engine import Sampling
from mobilerl.rollout.collector import Collector, CollectorSettings
from mobilerl.rollout.episode import episode_settings

START = Path(__file__).parents[1] / "recipes" / "generated" / "checkpoint"
GROUP, TASKS, PHONES = 4, 12, 16
EPOCHS, MINI_BATCH = 4, 64
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
KAPPA, GAMMA = 32, 0.25


# --- the reward: shortest-path adjustment (SPA) --------------------------------------------------------------------


def shortest_path_adjusted(group: Sequence[Trajectory]) -> list[float]:
    """R_i = r_i * T_min / T_i, with T_min the length of the group's shortest success: a detour earns less."""
    lengths = [len(t.steps) for t in group if t.reward >= 1]
    if not lengths:
        return [t.reward for t in group]
    return [t.reward * min(1.0, min(lengths) / len(t.steps)) for t in group]


def advantages(group: Sequence[Trajectory]) -> list[float]:
    """A_i = R_i - mean(R). Not divided by the standard deviation, which would inflate a single extra step."""
    rewards = shortest_path_adjusted(group)
    return [r - fmean(rewards) for r in rewards]


# --- the memory: adaptive positive replay (AdaPR) ------------------------------------------------------------------


class Replay:
    """The buffer B of rare successes: a batch is drawn from q = GAMMA * p_B + (1 - GAMMA) * p_on."""

    def __init__(self, capacity: int = 256) -> None:
        self.capacity = capacity
        self.entries: list[tuple[float, list[TrainingSample]]] = []

    def insert(self, groups: Sequence[Sequence[Trajectory]], advantages: Sequence[Sequence[float]]) -> None:
        """The KAPPA rarest successes of an iteration enter, and the least rare leave if B is full.

        A success is the rarer, the fewer of its group there are.
        """
        found = [
            (1.0 - fmean(t.success for t in group), t.samples_to_learn(a, replayed=True))
            for group, advantage in zip(groups, advantages, strict=True)
            for t, a in zip(group, advantage, strict=True)
            if t.success and a > 0
        ]
        self.entries = _rarest(_rarest(found)[:KAPPA] + self.entries)[: self.capacity]

    def draw(self, fresh: int, rng: random.Random) -> list[TrainingSample]:
        """Samples to add to `fresh` others; a trajectory's probability to come first is proportional to 1 / rank."""
        ranked = sorted(enumerate(self.entries, start=1), key=lambda entry: rng.expovariate(1 / entry[0]))
        samples = [s for _, (_, samples) in ranked for s in samples]
        return samples[: int(fresh * GAMMA / (1 - GAMMA))]


def _rarest(entries: list[tuple[float, list[TrainingSample]]]) -> list[tuple[float, list[TrainingSample]]]:
    return sorted(entries, key=lambda entry: -entry[0])


# --- the tasks: failure curriculum filtering (FCF) -----------------------------------------------------------------


class Curriculum:
    """Templates that keep failing are drawn with the weight w = exp(-f), f = failed epochs in a row, and then removed.

    This begins after `patience` failed epochs and takes `cooldown` epochs. An epoch is two groups for every template.
    """

    def __init__(self, tasks: Sequence[Task], patience: int = 2, cooldown: int = 3) -> None:
        self.tasks, self.patience, self.cooldown = tasks, patience, cooldown
        self.names = sorted({t.template for t in tasks})
        self.failed: Counter[str] = Counter()
        self.left: dict[str, int] = {}
        self.seen: list[Sequence[Trajectory]] = []

    def weight(self, name: str) -> float:
        if name not in self.left:
            return 1.0
        return math.exp(-self.failed[name]) if self.left[name] > 0 else 0.0

    def sample(self, count: int, rng: random.Random) -> list[Task]:
        return rng.choices(self.tasks, [self.weight(t.template) for t in self.tasks], k=count)

    def record(self, groups: Sequence[Sequence[Trajectory]]) -> None:
        self.seen += groups
        if len(self.seen) < 2 * len(self.names):
            return
        for name in self.names:
            played = [t for group in self.seen for t in group if t.task.template == name]
            if any(t.success for t in played):
                self.failed[name] = 0
                self.left.pop(name, None)
                continue
            self.failed[name] += bool(played)
            if name in self.left:
                self.left[name] -= 1
            elif self.failed[name] >= self.patience:
                self.left[name] = self.cooldown
        self.seen = []


# --- the loss ------------------------------------------------------------------------------------------------------


def clipped_loss(micro: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """-min(w A, clip(w, 1 - low, 1 + high) A) of every token, w = p / p_old, summed with weights that sum to 1."""
    ratio = (micro.logp - micro.old_logp).exp()
    advantage = micro.advantage.unsqueeze(1)
    inside = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
    loss = -torch.minimum(ratio * advantage, inside * advantage)
    return (micro.weights * micro.mask * loss).sum(), {}


# --- the loop ------------------------------------------------------------------------------------------------------


async def main(iterations: int, out: Path, start: Path = START) -> list[float]:
    """Returns the success rate of every iteration's episodes; the model is saved in `out`."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # steps of so small a model are too small for more
    rng, agent = random.Random(0), read_agent(start)
    engine = LocalEngine(start, LocalSettings(learning_rate=3e-4, micro_batch_tokens=4096, temperature=0.8))
    policy = EnginePolicy(engine)
    actor = ModelActor(policy, make_context(agent), Sampling(0.8, agent.max_new_tokens))
    phones = [PhoneEnv(f"phone-{i}", popup_rate=0.5, screenshots=agent.screenshots > 0) for i in range(PHONES)]
    collector = Collector(phones, actor, CollectorSettings(GROUP, episode=episode_settings(agent)), policy.check_batch)
    policy.expect(lambda: collector.playing)
    curriculum, replay, rates = Curriculum(train_tasks(50)), Replay(), []
    async with collector:
        for iteration in range(1, iterations + 1):
            collected = await collector.collect(curriculum.sample(TASKS, rng), f"{iteration:03d}")
            groups = [group.trajectories for group in collected]
            advantage = [advantages(group) for group in groups]
            curriculum.record(groups)
            replay.insert(groups, advantage)
            fresh = [
                sample
                for group, values in zip(groups, advantage, strict=True)
                for trajectory, a in zip(group, values, strict=True)
                if a != 0  # nothing is learned from a group whose episodes are all alike
                for sample in trajectory.samples_to_learn(a)
            ]
            for _ in range(EPOCHS):
                old = replay.draw(len(fresh), rng)  # compared with the policy of now, or they would soon be clipped
                old = [replace(s, old_logprobs=p) for s, p in zip(old, engine.logprobs(old), strict=True)]
                batch = fresh + old
                rng.shuffle(batch)
                for i in range(0, len(batch), MINI_BATCH):
                    engine.update(batch[i : i + MINI_BATCH], clipped_loss, "token-mean")
            engine.publish()
            rates.append(fmean(t.success for g in groups for t in g))
            recent = fmean(rates[-5:])
            print(f"{iteration:3d}  success {rates[-1]:.0%}, last five {recent:.0%}, replay {len(replay.entries)}")
    out.mkdir(parents=True, exist_ok=True)
    engine.save(out)
    return rates


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("runs/minimal"))
    asyncio.run(main(**vars(parser.parse_args())))
