"""Replay helps where successes are rare: AdaGRPO on a tabular policy that succeeds once in a hundred at first."""

import random
from statistics import fmean

import torch
from made_groups import make_task

from mobilerl.algorithms.adagrpo import AdaGRPO
from mobilerl.algorithms.base import Resources
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.engines.scoring import make_micro_batch, sample_weights
from mobilerl.envs.base import Observation, Tap
from mobilerl.records import Completion, Group, Status, Step, Trajectory

TASKS, RESPONSES, GROUP = 16, 100, 8
SEEN = Observation(b"", 100, 200, "<hierarchy/>", "App", 0)


class Table:
    """A policy of one step: a distribution over responses for every task; response 0 succeeds. An engine, and a
    scorer."""

    version = 0

    def __init__(self, seed: int) -> None:
        self.logits = torch.zeros(TASKS, RESPONSES, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.logits], lr=10.0)
        self.random = torch.Generator().manual_seed(seed)

    def play(self, iteration: int, task: int) -> Group:
        logp = self.logits[task].detach().log_softmax(-1)
        drawn = torch.multinomial(logp.exp(), GROUP, replacement=True, generator=self.random).tolist()
        made = make_task(str(task))
        return Group(
            made, tuple(self._episode(f"{iteration}-{task}-{i}", made, task, r, logp) for i, r in enumerate(drawn))
        )

    def _episode(self, name, made, task, response, logp) -> Trajectory:
        completion = Completion((task,), (response,), (logp[response].item(),), self.version, "")
        step = Step(SEEN, completion, (), "", Tap(1, 1))
        return Trajectory(name, made, (step,), float(response == 0), Status.FINISHED, "d")

    def _logp(self, samples) -> torch.Tensor:
        rows = self.logits.log_softmax(-1)
        return torch.stack([rows[s.prompt_ids[0], s.response_ids[0]] for s in samples]).unsqueeze(1)

    def logprobs(self, samples, reference=False):
        return [tuple(row) for row in self._logp(samples).tolist()]

    def update(self, samples, objective, aggregation) -> None:
        logp = self._logp(samples)
        micro = make_micro_batch(
            samples, sample_weights(samples, aggregation), logp, torch.ones_like(logp), self.version
        )
        self.optimizer.zero_grad()
        objective(micro)[0].backward()
        self.optimizer.step()

    def success(self) -> float:
        return self.logits.softmax(-1)[:, 0].mean().item()


def learned(seed: int, **replay) -> float:
    """Probability of success after forty iterations of every task, with these settings of the replay."""
    table, rng = Table(seed), random.Random(seed)
    settings = AdaGRPOSection(replay={"max_age": None, **replay})
    algorithm = AdaGRPO(settings, Resources(table, lambda: None, mini_batch_size=32))
    for iteration in range(40):
        algorithm.add([table.play(iteration, task) for task in range(TASKS)], iteration)
        for batch in algorithm.mini_batches(rng):
            table.update(batch, algorithm.objective, algorithm.aggregation)
        table.version += 1
    return table.success()


def test_replay_multiplies_what_rare_successes_teach():
    """Means of four seeds: 48 % without replay, 90 % with it, and 52 % where it is clipped against its first policy."""
    without, current, behavior = (
        fmean(learned(seed, **replay) for seed in range(4))
        for replay in ({"fraction": 0.0}, {"fraction": 0.25}, {"fraction": 0.25, "ratio": "behavior"})
    )
    assert current > without + 0.25 and current > behavior + 0.2
