"""AdaGRPO (MobileRL, ICLR 2026) in one file: the method, on this package's phone, model and engine.

    python examples/adagrpo_minimal.py [--iterations 20] [--out runs/minimal]

What is left out of the real thing (`mobilerl train`) is what keeps it alive: devices that fail, checkpoints, worker
processes, several engines, settings. What is there is the algorithm, each part with its equation.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from envs.base import Task
from envs.phone.env import PhoneEnv
from envs.phone.tasks.suite import train_tasks
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.inference.engine_policy import EnginePolicy
from mobilerl.interfaces import Sampling
from mobilerl.models.checkpoint_folder import read_agent
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import make_context
from mobilerl.records import MicroBatch, TrainingSample, Trajectory
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
    """The successes that were hardest to come by: by the group's failure rate, then by their advantage."""

    def __init__(self, capacity: int = 256) -> None:
        self.capacity = capacity
        self.entries: list[tuple[float, float, list[TrainingSample]]] = []

    def insert(self, group: Sequence[Trajectory], advantage: Sequence[float]) -> None:
        """The KAPPA best of all that is known stay candidates; failures are never kept."""
        rarity = 1.0 - fmean(t.success for t in group)
        found = [
            (rarity, a, [replace(s, advantage=a, replayed=True) for s in t.samples()])
            for t, a in zip(group, advantage, strict=True)
            if t.success and a > 0
        ]
        self.entries = sorted([*found, *self.entries], key=lambda e: e[:2], reverse=True)[: self.capacity]

    def draw(self, fresh: int, rng: random.Random) -> list[TrainingSample]:
        """At most GAMMA of a batch with `fresh` samples in it is replayed."""
        best = self.entries[:KAPPA]
        samples = [s for _, _, samples in rng.sample(best, len(best)) for s in samples]
        return samples[: int(fresh * GAMMA / (1 - GAMMA))]


# --- the tasks: failure curriculum filtering (FCF) -----------------------------------------------------------------


class Curriculum:
    """Templates that keep failing rest for a while; the others are drawn more often, the less surely they fail."""

    def __init__(self, tasks: Sequence[Task], patience: int = 2, cooldown: int = 3) -> None:
        self.tasks, self.patience, self.cooldown = tasks, patience, cooldown
        self.failures: Counter[str] = Counter()
        self.rests: Counter[str] = Counter()

    def sample(self, count: int, rng: random.Random) -> list[Task]:
        awake = [t for t in self.tasks if not self.rests[t.template]] or list(self.tasks)
        weights = [0.5 ** self.failures[t.template] for t in awake]
        self.rests = Counter({name: left - 1 for name, left in self.rests.items() if left > 1})
        return rng.choices(awake, weights, k=count)

    def record(self, group: Sequence[Trajectory]) -> None:
        name = group[0].task.template
        if any(t.success for t in group):
            self.failures[name] = 0
            return
        self.failures[name] += 1
        if self.failures[name] >= self.patience:
            self.failures[name], self.rests[name] = 0, self.cooldown


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
    policy.expected = lambda: collector.playing
    curriculum, replay, rates = Curriculum(train_tasks(50)), Replay(), []
    async with collector:
        for iteration in range(1, iterations + 1):
            groups = await collector.collect(curriculum.sample(TASKS, rng), f"{iteration:03d}")
            fresh: list[TrainingSample] = []
            for group in groups:
                advantage = advantages(group.trajectories)
                curriculum.record(group.trajectories)
                replay.insert(group.trajectories, advantage)
                for trajectory, a in zip(group.trajectories, advantage, strict=True):
                    if a != 0:  # nothing is learned from a group whose episodes are all alike
                        fresh += [replace(s, advantage=a) for s in trajectory.samples()]
            for _ in range(EPOCHS):
                batch = fresh + replay.draw(len(fresh), rng)
                rng.shuffle(batch)
                for i in range(0, len(batch), MINI_BATCH):
                    engine.update(batch[i : i + MINI_BATCH], clipped_loss, "token-mean")
            engine.publish()
            rates.append(fmean(t.success for g in groups for t in g.trajectories))
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
