"""DistRL on a buffer whose features say what its value functions could know; and restoring either critic."""

import math
import random
from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch
from made_algorithms import CRITIC, EASY, easy_and_hard, looking, make

from mobilerl.algorithms.base import AlgorithmState
from mobilerl.algorithms.critics import trainer
from mobilerl.config.algorithms import DigiRLSection, DistRLSection
from mobilerl.envs.base import Invalid
from mobilerl.records import Group

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def _quick_values(monkeypatch):
    """A hundred steps are enough with larger ones."""
    monkeypatch.setattr(trainer, "GRAD_CLIP", 1.0)


def distrl(shift=0.0, **settings):
    return make(DistRLSection(critic=CRITIC, updates=1, **{"trajectory_top_p": 1.0, **settings}), shift)


def evaluated(algorithm, groups=None, iteration=1):
    """Evaluates the buffer once; returns the advantages by trajectory id."""
    algorithm.add(easy_and_hard() if groups is None else groups, iteration)
    list(algorithm.mini_batches(random.Random(0)))
    return algorithm.advantages()


def test_trajectories_of_low_value_are_not_learned_from():
    kept = evaluated(distrl(trajectory_top_p=0.5))
    assert set(kept) == {t.id for g in easy_and_hard() for t in g.trajectories if t.success}


@pytest.mark.parametrize(("beta", "loss"), [(0.0, -0.3), (0.5, -0.9)])
def test_the_entropy_bonus_is_part_of_the_loss(beta, loss):
    """Two tokens of log-probability -1 and -1.4 on policy, A = -0.25, mean -log pi 1.2: L = 1.2 A - beta 1.2."""
    logp, ones = torch.tensor([[-1.0, -1.4]]), torch.ones(1, 2)
    micro = SimpleNamespace(logp=logp, rollout_logp=logp, advantage=torch.tensor([-0.25]), mask=ones, weights=ones / 2)
    assert distrl(entropy_coef=beta).objective(micro)[0].item() == pytest.approx(loss)


def test_advantages_and_priorities_equal_a_loop_over_steps():
    """Three episodes of one repeated action under a policy that gives each action 0.6 nats less than it had.

    The first action of the second episode is invalid, so its repeats begin with its third step.
    """
    episodes = (("a", 1.0, [1, 5, 9]), ("b", 0.0, [1, 0, 0, 2]), ("c", 1.0, [3, 9]))
    made = [looking(name, EASY, final, looks) for name, final, looks in episodes]
    invalid = replace(made[1].steps[0], action=Invalid("nonsense"))
    made[1] = replace(made[1], steps=(invalid, *made[1].steps[1:]))
    penalties = {"a": [0, -0.1, -0.2], "b": [-1, 0, -0.1, -0.2], "c": [0, -0.1]}
    algorithm = distrl(shift=-0.6, gamma=0.9)
    advantages = evaluated(algorithm, [Group(EASY, tuple(made))])
    values = [v.tolist() for v in algorithm._values(algorithm._encoder(made))]
    deltas, entropies = [], []
    for t, v in zip(made, values, strict=True):
        steps = len(v)
        returns = [0.9 ** (steps - 1 - i) * t.reward for i in range(steps)]
        own = [0.0] * (steps - 1) + [t.reward]
        ahead = [0.9 * v[i + 1] - v[i] if i + 1 < steps else -v[i] for i in range(steps)]
        expected = [returns[i] + penalties[t.id][i] + ahead[i] for i in range(steps)]
        assert advantages[t.id] == pytest.approx(expected, abs=1e-5)
        deltas.append([abs(own[i] + ahead[i]) for i in range(steps)])
        entropies.append([0.5 + 0.25 + i + 0.6 for i in range(steps)])  # of the log-probabilities in made_groups
    most_delta, most_entropy = (max(max(steps) for steps in of) for of in (deltas, entropies))
    expected = [
        fmean(d) / most_delta + 0.5 * math.exp(-0.6) + 0.5 * fmean(e) / most_entropy
        for d, e in zip(deltas, entropies, strict=True)
    ]
    assert list(algorithm.replay.priorities().values()) == pytest.approx(expected, abs=1e-4)


def test_state_values_are_labels_or_discounted_returns():
    """30 of 60 succeed in three steps: labels are 1, 1, 1, returns with gamma 1/2 are 1/4, 1/2, 1."""
    values = {}
    for retrace in (False, True):
        algorithm = distrl(gamma=0.5, retrace=retrace, lam=1.0)
        for i in range(3):
            evaluated(algorithm, None if i == 0 else [], i)
        values[retrace] = algorithm.metrics()["critic/value"]
    assert values[False] == pytest.approx(0.5, abs=0.05) and values[True] == pytest.approx(0.5 * 1.75 / 3, abs=0.06)


def test_targets_of_the_state_value_golden():
    """Retrace with gamma 0.9, lambda 0.8 and ratios exp(-0.6), for a success of three steps and a failure of two."""
    made = [looking("a", EASY, 1.0, [1, 5, 9]), looking("b", EASY, 0.0, [1, 0])]
    algorithm = distrl(shift=-0.6, gamma=0.9, lam=0.8)
    evaluated(algorithm, [Group(EASY, tuple(made))])
    seen, measured = algorithm._encoder(made), algorithm._measure(made)
    (a, b, c), (d, e) = (v.tolist() for v in algorithm._values(seen))
    trace = 0.9 * 0.8 * math.exp(-0.6)
    deltas = [0.9 * b - a, 0.9 * c - b, 1.0 - c]
    won = [a + deltas[0] + trace * deltas[1] + trace**2 * deltas[2], b + deltas[1] + trace * deltas[2], c + deltas[2]]
    lost = [d + (0.9 * e - d) + trace * -e, 0.0]
    expected = [min(max(value, 0.0), 1.0) for value in (*won, *lost)]
    assert algorithm._targets(seen, measured, torch.zeros(5)).tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("section", [DigiRLSection, DistRLSection])
def test_a_restored_algorithm_continues_bit_for_bit(section, tmp_path):
    straight, resumed = (make(section(critic=CRITIC, updates=2)) for _ in range(2))
    straight.add(easy_and_hard(), 1)
    list(straight.mini_batches(random.Random(3)))
    state = straight.state_dict()
    torch.save(state.tensors, tmp_path / "critic.pt")
    resumed.load_state_dict(AlgorithmState(state.replay, torch.load(tmp_path / "critic.pt", weights_only=True)))
    made = []
    for algorithm in (straight, resumed):
        algorithm.add([Group(EASY, (looking("new", EASY, 1.0, [2, 9]),))], 2)
        made.append((list(algorithm.mini_batches(random.Random(4))), algorithm.advantages(), algorithm.metrics()))
    assert made[0] == made[1] and made[0][0]


def test_partial_credit_is_no_success_to_the_state_value():
    """With the plain labels 1[G > 0] of successes alone: a failure that earns half has none."""
    algorithm, fitted = distrl(retrace=False), []
    fit = algorithm._state.fit
    algorithm._state.fit = lambda features, target, rng, offline: fitted.append(target) or fit(features, target, rng)
    evaluated(algorithm, [Group(EASY, (looking("half", EASY, 0.5, [1, 2]), looking("whole", EASY, 1.0, [1, 2, 3])))])
    assert fitted[0].tolist() == [0, 0, 1, 1, 1]
