"""Base class of AdaGRPO and GiGPO: fresh groups, group-relative advantages, and the clipped policy loss."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mobilerl.algorithms.base import Algorithm, Resources
from mobilerl.algorithms.batching import mini_batches
from mobilerl.algorithms.objectives import clipped
from mobilerl.algorithms.replay import AdaptivePositiveReplay
from mobilerl.config.algorithms.base import GroupSection
from mobilerl.records import Group, TrainingSample

StepAdvantages = list[float]
"""One advantage per step of a trajectory."""


class GroupAlgorithm(Algorithm):
    """Learns from fresh groups with the clipped loss. A subclass computes the advantages of a group."""

    reads_screenshots = False
    replay: AdaptivePositiveReplay | None = None

    def __init__(self, settings: GroupSection, resources: Resources) -> None:
        self.settings, self._resources = settings, resources
        self.objective = clipped(settings.loss)
        self.aggregation = settings.loss.loss_aggregation
        self.max_resample_rounds = int(settings.dynamic_sampling)
        self._fresh: list[TrainingSample] = []
        self._advantages: dict[str, StepAdvantages] = {}
        self._computed: dict[int, tuple[Group, list[StepAdvantages]]] = {}
        """Advantages of groups that have not been added yet, by the group's `id`."""

    def group_advantages(self, group: Group) -> list[StepAdvantages]:
        """Step advantages of each trajectory."""
        raise NotImplementedError

    def informative(self, group: Group) -> list[bool]:
        """All trajectories of a group or none, since a zero-variance group has no advantages."""
        useful = any(a != 0.0 for steps in self._once(group) for a in steps)
        return [useful] * len(group.trajectories)

    def add(self, groups: Sequence[Group], iteration: int) -> None:
        self._fresh, self._advantages = [], {}
        regularized = self.settings.uses_reference and not self.settings.dynamic_sampling
        for group, advantages in zip(groups, self.final_advantages(groups), strict=True):
            # With zero advantages only the KL term has a gradient.
            keep = regularized or any(a != 0.0 for steps in advantages for a in steps)
            for trajectory, steps in zip(group.trajectories, advantages, strict=True):
                self._advantages[trajectory.id] = steps
                if keep:
                    self._fresh += trajectory.samples_to_learn(
                        steps,
                        max_response_prob=self.settings.max_response_prob,
                        failed_steps=self.settings.learn_failed_steps,
                    )
        self._computed.clear()

    def final_advantages(self, groups: Sequence[Group]) -> list[list[StepAdvantages]]:
        """Step advantages of an iteration's groups, which are learned from."""
        return [self._once(group) for group in groups]

    def _once(self, group: Group) -> list[StepAdvantages]:
        """`group_advantages`, computed once for both `informative` and `add`."""
        if id(group) not in self._computed:
            self._computed[id(group)] = group, self.group_advantages(group)
        return self._computed[id(group)][1]

    def mini_batches(self, rng: random.Random) -> Iterator[list[TrainingSample]]:
        fresh = self._with_ref_logprobs(self._with_old_logprobs(self._fresh))
        for _ in range(self.settings.epochs):
            for batch in mini_batches(fresh, self.replay, self._resources.mini_batch_size, rng, self.aggregation):
                yield self._with_ref_logprobs(self.prepare_batch(batch))

    def prepare_batch(self, batch: list[TrainingSample]) -> list[TrainingSample]:
        """Hook to change a mini-batch before it is learned from."""
        return batch

    def _with_old_logprobs(self, samples: list[TrainingSample]) -> list[TrainingSample]:
        return self.rescore(samples) if self.settings.loss.recompute_old_logprobs else samples

    def rescore(self, samples: list[TrainingSample]) -> list[TrainingSample]:
        """The samples with `old_logprobs` recomputed under the current weights."""
        scores = self._resources.scorer.logprobs(samples) if samples else []
        return [replace(s, old_logprobs=logp) for s, logp in zip(samples, scores, strict=True)]

    def _with_ref_logprobs(self, samples: list[TrainingSample]) -> list[TrainingSample]:
        """Adds the reference model's log-probabilities where they are missing, so that each sample is scored once."""
        missing = [s for s in samples if s.ref_logprobs is None] if self.settings.uses_reference else []
        if not missing:
            return samples
        scores = iter(self._resources.scorer.logprobs(missing, reference=True))
        return [s if s.ref_logprobs is not None else replace(s, ref_logprobs=next(scores)) for s in samples]

    def advantages(self) -> Mapping[str, float | Sequence[float]]:
        return self._advantages
