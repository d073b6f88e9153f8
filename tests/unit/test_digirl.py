"""DigiRL on a buffer whose features say what its value functions could know."""

import random

import pytest
import torch
from made_algorithms import CRITIC, EASY, HARD, MadeFeatures, easy_and_hard, looking, make
from made_groups import make_group

from mobilerl.algorithms import digirl as module
from mobilerl.algorithms.critics import trainer
from mobilerl.algorithms.digirl import _step_advantage
from mobilerl.config.algorithms import DigiRLSection

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _quick_values(monkeypatch):
    """A hundred steps are enough with larger ones."""
    monkeypatch.setattr(trainer, "GRAD_CLIP", 1.0)


def evaluated(success: bool = True, offline: bool = False, **settings):
    """(algorithm, weights by trajectory id, metrics)."""
    algorithm = make(DigiRLSection(critic=CRITIC, updates=1, **settings))
    groups, rng = easy_and_hard(success), random.Random(0)
    if offline:
        batches = algorithm.offline_batches([t for g in groups for t in g.trajectories], rng)
    else:
        algorithm.add(groups, 1)
        batches = algorithm.mini_batches(rng)
    assert bool(list(batches)) == success
    return algorithm, algorithm.advantages(), algorithm.metrics()


def test_only_surprising_successes_are_imitated():
    algorithm, weights, metrics = evaluated(top_p=0.05)
    assert algorithm.instruction_values(["easy", "hard"]) == pytest.approx([0.9, 0.1], abs=0.1)
    kept = {name for name, steps in weights.items() if any(steps)}
    assert kept == {"hard-0", "hard-10", "hard-20"}, "the filter keeps what the instruction's value did not predict"
    assert all(set(weights[name]) <= {0.0, 1.0} and weights[name][-1] == 1.0 for name in kept)
    assert metrics["critic/kept"] == pytest.approx(sum(sum(steps) for steps in weights.values()) / 180)


def test_offline_every_success_passes_the_instruction_filter():
    _, weights, _ = evaluated(top_p=0.05, offline=True)
    successes = {t.id for g in easy_and_hard() for t in g.trajectories if t.success}
    assert {name for name, steps in weights.items() if any(steps)} == successes


def test_a_step_that_leads_nowhere_better_is_filtered_out():
    """The hard task's second screen looks hopeless: going there is no better than expected, leaving it is."""
    _, weights, _ = evaluated(top_p=1.0, lam=0.0)
    assert weights["hard-0"] == [0.0, 1.0, 1.0]


def test_step_advantages_golden():
    """Eq. 4.3 with lambda 0.5 and values .2, .4, .8: w = .25, .5, 1 for a success, 0 for a failure."""
    values = torch.tensor([0.2, 0.4, 0.8])
    won, lost = make_group("g", (1.0, 0.0), (3, 3)).trajectories
    assert _step_advantage(won, values, 0.5).tolist() == pytest.approx([0.25 + 0.75 * 0.2, 0.5 + 0.5 * 0.4, 1.0])
    assert _step_advantage(lost, values, 0.5).tolist() == pytest.approx([0.2, 0.4, -0.8])


def test_the_step_filter_uses_the_step_limit_of_the_task(monkeypatch):
    """0.2 is more than 1/6, of the budget of six steps, and less than 1/3, of the three that were taken."""
    monkeypatch.setattr(module, "_step_advantage", lambda trajectory, value, lam: torch.full_like(value, 0.2))
    _, weights, metrics = evaluated(top_p=1.0)
    assert metrics["critic/kept"] == 0.5 and weights["easy-1"] == [1.0] * 3 and weights["easy-0"] == [0.0] * 3


def test_nothing_is_kept_before_the_first_success():
    algorithm, weights, metrics = evaluated(success=False)
    assert metrics["critic/kept"] == 0.0 and not weights and algorithm.instruction_values(["easy"]) is None


# --- features ------------------------------------------------------------------------------------------------------


def test_a_state_is_the_last_two_screens_and_the_prompt():
    encoder = module.Encoder(MadeFeatures())
    seen = encoder([looking("a", EASY, 1.0, [1, 5, 9]), looking("b", HARD, 0.0, [3, 7])])
    scale = encoder.state_dict()["scale"]
    features = seen.states * scale["state_std"] + scale["state_mean"]
    before, now, prompt = (features[:, i * MadeFeatures.size].tolist() for i in range(3))
    assert before == pytest.approx([0.1, 0.1, 0.5, 0.3, 0.3], abs=1e-6)
    assert now == pytest.approx([0.1, 0.5, 0.9, 0.3, 0.7], abs=1e-6)
    assert prompt == pytest.approx([3.0] * 5) and (seen.lengths, seen.last_rows.tolist()) == ((3, 2), [2, 4])
    assert seen.row_instructions.tolist() == [seen.instructions[0].tolist()] * 3 + [seen.instructions[1].tolist()] * 2
    alone = module.Encoder(MadeFeatures())
    alone([looking("a", EASY, 1.0, [1, 5, 9])])  # of one instruction: constant dimensions must not be scaled up
    assert alone.instructions(["easy", "hard"]).abs().max() < 5
