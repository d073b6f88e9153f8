"""The task sampler under any sequence of draws, results and restarts."""

from __future__ import annotations

import json
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from made_groups import make_group, make_task

from mobilerl.config import CurriculumSection
from mobilerl.train.tasks import TaskSampler

TASKS = [make_task(f"{template}{i}", template) for template in "ABC" for i in range(2)]
REWARDS = st.lists(st.sampled_from([0.0, 0.0, 1.0, 0.5]), min_size=1, max_size=3)


class SamplerMachine(RuleBasedStateMachine):
    """Beside the sampler stands one that never restarts; the two must stay equal."""

    @initialize(
        kind=st.sampled_from(["fcf", "uniform", "instruction_value"]), by=st.sampled_from(["template", "task"]),
        epoch=st.integers(1, 4), patience=st.integers(1, 2), cooldown=st.integers(0, 2),
        revisit=st.none() | st.integers(1, 3),
    )  # fmt: skip
    def start(self, kind, by, epoch, patience, cooldown, revisit):
        self.section = CurriculumSection(type=kind, by=by, epoch_groups=epoch, patience=patience, cooldown=cooldown,
                                         revisit_every=revisit)  # fmt: skip
        self.sampler, self.twin = (TaskSampler(TASKS, self.section) for _ in range(2))
        self.recorded = 0
        self.epochs: list[dict[str, list[float]]] = []
        update = self.sampler.curriculum.update
        self.spy(update)

    def spy(self, update):
        def noted(rewards, *more):
            self.epochs.append({key: list(values) for key, values in rewards.items()})
            return update(rewards, *more)

        self.sampler.curriculum.update = noted

    @rule(n=st.integers(1, 8), seed=st.integers(0, 99))
    def draw(self, n, seed):
        if not self.sampler.has_tasks:
            assert self.section.revisit_every is None
            return
        drawn, again = (s.sample(n, random.Random(seed)) for s in (self.sampler, self.twin))
        assert drawn == again and len(drawn) == n
        weights = self.sampler.curriculum.weights()
        assert all(weights[self.sampler.key(task)] > 0 for task in drawn)

    @rule(results=st.lists(st.tuples(st.sampled_from(TASKS), REWARDS), max_size=4))
    def record(self, results):
        groups = [make_group(t.id, rewards, [1] * len(rewards), t) for t, rewards in results]
        self.sampler.record(groups)
        self.twin.record(groups)
        self.recorded += len(groups)

    @rule()
    def restart(self):
        state = json.loads(json.dumps(self.sampler.state_dict()))
        self.sampler = TaskSampler(TASKS, self.section)
        self.sampler.load_state_dict(state)
        self.spy(self.sampler.curriculum.update)

    @invariant()
    def every_group_is_in_one_epoch(self):
        size = self.section.epoch_groups
        assert len(self.epochs) == self.recorded // size
        assert self.sampler.state_dict()["seen"] == self.recorded % size

    @invariant()
    def a_restart_changes_nothing(self):
        assert self.sampler.curriculum.weights() == self.twin.curriculum.weights()
        assert json.dumps(self.sampler.state_dict(), sort_keys=True) == json.dumps(
            self.twin.state_dict(), sort_keys=True
        )

    @invariant()
    def weights_make_sense(self):
        weights = self.sampler.curriculum.weights()
        assert self.sampler.has_tasks == bool(weights) and all(w >= 0 for w in weights.values())
        assert weights or self.section.revisit_every is None
        if self.section.type == "uniform":
            assert len(set(weights.values())) == 1 and len(weights) == (3 if self.section.by == "template" else 6)


TestSampler = SamplerMachine.TestCase
TestSampler.settings = settings(max_examples=40, stateful_step_count=20)
