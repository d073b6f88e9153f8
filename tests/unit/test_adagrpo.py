"""AdaGRPO, and what it shares with GiGPO: advantages of groups, and samples ready for the clipped loss."""

import math
import random
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from made_algorithms import easy_and_hard, make
from made_groups import make_group
from pydantic import ValidationError

from mobilerl.algorithms.critics import ValueTrainer
from mobilerl.config.algorithms import AdaGRPOSection
from mobilerl.envs.base import Invalid

GROUPS = [make_group("g", (1, 0), (2, 3)), make_group("h", (0, 1), (4, 3)), make_group("c", (0, 0), (2, 2))]


def advantages(groups, **settings) -> list[float]:
    algorithm = make(AdaGRPOSection(**settings))
    algorithm.add(groups, 1)
    return list(algorithm.advantages().values())


def samples(algorithm, groups=GROUPS, iteration=1):
    algorithm.add(groups, iteration)
    return [s for batch in algorithm.mini_batches(random.Random(0)) for s in batch]


STD = math.sqrt(0.171875)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        # Rewards 1 1 0 0 in 2, 4, 3, 3 steps. SPA: R = 1, 2/4 = 0.5, 0, 0; mean 0.375.
        # Centered: 0.625, 0.125, -0.375, -0.375; variance (0.390625 + 0.015625 + 2 * 0.140625) / 4 = 0.171875.
        ({"normalize_std": True}, [0.625 / STD, 0.125 / STD, -0.375 / STD, -0.375 / STD]),
        ({"normalize_std": True, "spa": False}, [1, 1, -1, -1]),
        ({}, [0.625, 0.125, -0.375, -0.375]),
        # alpha = 0.5: R = 1, 1 - 0.5 * (4 - 2) / 4 = 0.75, 0, 0; mean 0.4375.
        ({"spa": 0.5}, [0.5625, 0.3125, -0.4375, -0.4375]),
    ],
)
def test_advantages_golden(settings, wanted):
    made = advantages([make_group("g", (1, 1, 0, 0), (2, 4, 3, 3))], **settings)
    assert [a[0] for a in made] == pytest.approx(wanted, rel=1e-5)
    assert [len(set(a)) for a in made] == [1] * 4, "a trajectory's steps share its advantage"


def test_one_extra_step_among_successes_hardly_counts():
    """Seven successes of 4 steps and one of 5: R = 1 and 4/5; mean 0.975. Over the standard deviation it was -2.65."""
    group = make_group("g", (1,) * 8, (4,) * 7 + (5,))
    assert [a[0] for a in advantages([group])] == pytest.approx([0.025] * 7 + [-0.175])
    assert advantages([group], normalize_std=True)[7][0] == pytest.approx(-math.sqrt(7), rel=1e-4)


def test_a_part_of_a_task_does_not_make_its_solution_look_long():
    """Half of a composite in 2 steps and all of it in 6: T_min is 6, so R = 0.5, 1; mean 0.75."""
    assert [a[0] for a in advantages([make_group("g", (0.5, 1), (2, 6))])] == pytest.approx([-0.25, 0.25])


def test_step_credit_compares_steps_on_the_same_screen():
    """Both begin on one screen; the returns there are 0.95^(T - 1) r = 0.95 and 0, half of their difference 0.475."""
    made = advantages([make_group("g", (1, 0), (2, 1))], step_weight=2.0, spa=False)
    assert made[0][0] == pytest.approx(0.5 + 2 * (0.95 - (0.95 + 1 + 0) / 3))
    assert made[1][0] == pytest.approx(-0.5 + 2 * (0 - (0.95 + 1 + 0) / 3))


def test_steps_that_failed_are_not_reinforced():
    group = make_group("g", (1, 0), (3, 3))
    spoiled = tuple(
        replace(t, steps=(t.steps[0], replace(t.steps[1], note="no app"), replace(t.steps[2], action=Invalid("?"))))
        for t in group.trajectories
    )
    spoiled = [replace(group, trajectories=spoiled)]
    drawn = samples(make(AdaGRPOSection()), spoiled)
    assert sorted((s.trajectory_id, s.step) for s in drawn) == [("g-0", 0), ("g-1", 0), ("g-1", 1), ("g-1", 2)]
    algorithm = make(AdaGRPOSection(learn_failed_steps=True, replay={"fraction": 0.5}))
    drawn = samples(algorithm, spoiled)
    assert {s.step for s in drawn if not s.replayed and s.trajectory_id == "g-0"} == {0, 1, 2}
    assert {s.step for s in drawn if s.replayed} == {0, 1, 2}


def test_steps_that_the_policy_was_sure_of_are_left_out():
    """Step k of `make_group` has the probability exp(-0.75 - k): with a bound of exp(-1) the first is sure."""
    algorithm = make(AdaGRPOSection(max_response_prob=math.exp(-1), replay={"fraction": 0.5}))
    fresh = samples(algorithm, [make_group("g", (1, 0), (3, 2))])
    assert {(s.trajectory_id, s.step) for s in fresh} == {("g-0", 1), ("g-0", 2), ("g-1", 1)}
    replayed = [s for s in samples(algorithm, [make_group("h", (0, 0), (3, 3))], iteration=2) if s.replayed]
    assert {(s.trajectory_id, s.step) for s in replayed} == {("g-0", 1), ("g-0", 2)}


def test_successes_of_rarer_tasks_come_first_in_the_buffer():
    """The shortest of eight successes has a large advantage over its group, but nothing was hard about it."""
    rare, easy = make_group("rare", (1,) + (0,) * 7, (4,) * 8), make_group("easy", (1,) * 8, (2,) + (9,) * 7)
    algorithm = make(AdaGRPOSection())
    algorithm.add([easy, rare], 1)
    held = algorithm.state_dict().replay["entries"]
    assert [(e["trajectory"].id, e["rarity"]) for e in held] == [("rare-0", 7 / 8), ("easy-0", 0.0)]


def test_successes_of_the_highest_advantage_come_first_in_the_buffer_if_it_is_ordered_by_it():
    """SPA and mean: R = 1, 0 x 7, so A = 7/8; R = 1, 2/9 x 7, so the mean is 23/72 and A = 49/72 and -7/72.

    The lowest advantage leaves, and every mini-batch gets the highest ones: here 4 of the 6 steps, all of rare-0.
    """
    rare, easy = make_group("rare", (1,) + (0,) * 7, (4,) * 8), make_group("easy", (1,) * 8, (2,) + (9,) * 7)
    good = make_group("good", (1, 0), (3, 3))
    algorithm = make(AdaGRPOSection(replay={"order": "advantage", "capacity": 2, "kappa": 2}))
    algorithm.add([easy, good], 1)
    algorithm.add([rare], 2)
    held = algorithm.state_dict().replay["entries"]
    assert [e["trajectory"].id for e in held] == ["rare-0", "easy-0"]
    assert [e["advantage"] for e in held] == pytest.approx([7 / 8, 49 / 72])
    drawn = [algorithm.replay.draw(16, random.Random(seed)) for seed in range(9)]
    assert {tuple(s.trajectory_id for s in batch) for batch in drawn} == {("rare-0",) * 4}


def test_an_iteration_without_an_advantage_learns_from_the_buffer():
    algorithm = make(AdaGRPOSection(replay={"fraction": 0.25}))
    samples(algorithm)
    drawn = samples(algorithm, [make_group("z", (0, 0), (3, 3))], iteration=2)
    assert drawn and all(s.replayed for s in drawn)


@pytest.mark.parametrize(
    ("rewards", "lengths", "spa", "informative"),
    [
        ((0, 0, 0), (3, 4, 5), True, False),  # nobody succeeded
        ((1, 1, 1), (4, 4, 4), True, False),  # everybody did, equally fast
        ((1, 1, 1), (4, 4, 5), True, True),  # the shortest-path adjustment finds a difference
        ((1, 1, 1), (4, 4, 5), False, False),
        ((1,), (4,), True, False),  # nobody to compare with
        ((), (), True, False),
    ],
)
def test_groups_without_advantages_are_uninformative_and_dropped(rewards, lengths, spa, informative):
    group = make_group("g", rewards, lengths)
    algorithm = make(AdaGRPOSection(spa=spa, replay={"fraction": 0.0}))
    assert algorithm.informative(group) == [informative] * len(rewards)
    assert len(samples(algorithm, [group])) == (sum(lengths) if informative else 0)
    once = {"spa": spa, "dynamic_sampling": False, "replay": {"fraction": 0.0}}
    assert make(AdaGRPOSection(**once)).max_resample_rounds == 0 < algorithm.max_resample_rounds
    assert len(samples(make(AdaGRPOSection(**once)), [group])) == (sum(lengths) if informative else 0)
    regularized = make(AdaGRPOSection(**once, loss={"kl_coef": 0.1}))
    assert len(samples(regularized, [group])) == sum(lengths), "the KL term learns from all of them"


def test_samples_carry_the_advantage_of_their_trajectory():
    algorithm = make(AdaGRPOSection(epochs=2, replay={"fraction": 0.0}, loss={"recompute_old_logprobs": False}))
    drawn = samples(algorithm)
    assert set(Counter((s.trajectory_id, s.step) for s in drawn).values()) == {2} and len(drawn) == 2 * 12
    assert all(s.advantage == algorithm.advantages()[s.trajectory_id][s.step] for s in drawn)
    assert all(s.old_logprobs is None and s.ref_logprobs is None and not s.replayed for s in drawn)


@pytest.mark.parametrize("ratio", ["behavior", "current"])
def test_replayed_samples_are_clipped_against_what_the_setting_says(ratio):
    settings = AdaGRPOSection(
        replay={"fraction": 0.5, "ratio": ratio}, loss={"recompute_old_logprobs": True, "kl_coef": 0.1}
    )
    algorithm = make(settings, shift=1.0)
    samples(algorithm)
    drawn = samples(algorithm, [make_group("i", (1, 0), (5, 5))], iteration=2)
    assert {s.replayed for s in drawn} == {True, False} and algorithm.metrics() == {"replay/size": 3}
    for s in drawn:
        recomputed = tuple(lp + 0.5 for lp in s.rollout_logprobs)
        assert s.old_logprobs == (recomputed if not s.replayed or ratio == "current" else None)
        assert s.ref_logprobs == (-2.0, -2.0)


def test_the_reference_scores_a_fresh_sample_once_however_many_epochs_there_are():
    settings = AdaGRPOSection(
        epochs=3, replay={"fraction": 0.0}, loss={"kl_coef": 0.1, "recompute_old_logprobs": False}
    )
    algorithm, scored = make(settings), []
    score = algorithm._resources.scorer.logprobs
    algorithm._resources.scorer.logprobs = lambda rows, **which: scored.extend(rows) or score(rows, **which)
    drawn = samples(algorithm)
    assert len(drawn) == 3 * len(scored) and all(s.ref_logprobs == (-2.0, -2.0) for s in drawn)


@pytest.mark.parametrize("value_baseline", [False, True])
def test_a_restored_algorithm_continues_with_the_same_batches(value_baseline):
    settings = AdaGRPOSection(replay={"fraction": 0.5}, value_baseline=value_baseline)
    straight, resumed = (make(settings) for _ in range(2))
    samples(straight)
    resumed.load_state_dict(deepcopy(straight.state_dict()))
    following = [make_group("i", (1, 0), (5, 5))]
    assert samples(straight, following, 2) == samples(resumed, following, 2)
    assert straight.metrics() == resumed.metrics() and ("critic/value" in straight.metrics()) == value_baseline


def test_a_value_function_is_the_baseline_once_it_has_seen_a_success(monkeypatch):
    """Rewards 1, 1, 0 in 2, 4 and 1 steps; SPA gives R = 1, 0.5, 0, of mean 0.5.

    V = 0.5, 0.75 | 0.25 x 4 | 0.5: the last deltas are R - V = 0.25, 0.25, -0.5, the one before is 0.25.
    With lam = 0.5: A = 0.25 + 0.5 * 0.25, 0.25 | 0.25 / 8, / 4, / 2, / 1 | -0.5.
    """
    algorithm = make(AdaGRPOSection(value_baseline=True, lam=0.5))
    group = make_group("g", (1, 1, 0), (2, 4, 1))
    algorithm.add([group], 1)
    assert [a[0] for a in algorithm.advantages().values()] == pytest.approx([0.5, 0.0, -0.5]), "there is none yet"
    assert algorithm._baseline.ready and algorithm.reads_screenshots and not make(AdaGRPOSection()).reads_screenshots
    values = torch.tensor([0.5, 0.75, *[0.25] * 4, 0.5])
    monkeypatch.setattr(ValueTrainer, "predict", lambda self, *features: values)
    assert algorithm.informative(group) == [True] * 3
    algorithm.add([group], 2)
    wanted = {"g-0": [0.375, 0.25], "g-1": [0.03125, 0.0625, 0.125, 0.25], "g-2": [-0.5]}
    assert {name: pytest.approx(a) for name, a in wanted.items()} == algorithm.advantages()


def test_the_value_function_learns_which_screens_lead_to_success():
    algorithm = make(AdaGRPOSection(value_baseline=True, spa=False, critic={"updates": 400}))
    for iteration in (1, 2):
        algorithm.add(easy_and_hard(), iteration)
    hard = {name: a for name, a in algorithm.advantages().items() if name.startswith("hard")}
    first, last = hard["hard-0"][0], hard["hard-0"][-1]  # the rare success, at whose end the screen looks promising
    assert first > 0.5 > last and hard["hard-1"][0] < 0


def test_single_episodes_need_a_value_function():
    with pytest.raises(ValidationError, match="value_baseline"):
        AdaGRPOSection(group_size=1)
    assert AdaGRPOSection(group_size=1, value_baseline=True).uses_start_model and not AdaGRPOSection().uses_start_model


def test_partial_credit_is_less_than_any_success_and_is_never_replayed():
    """Half of the credit in 2 steps, a success in 6 and two failures: R = 0.5, 1, 0, 0, of mean 0.375."""
    group = make_group("g", (0.5, 1, 0, 0), (2, 6, 3, 3))
    algorithm = make(AdaGRPOSection())
    algorithm.add([group], 1)
    assert [a[0] for a in algorithm.advantages().values()] == pytest.approx([0.125, 0.625, -0.375, -0.375])
    assert [(e["trajectory"].id, e["rarity"]) for e in algorithm.state_dict().replay["entries"]] == [("g-1", 0.75)]
    algorithm.add([make_group("h", (0.5, 0.25), (2, 2))], 2)
    assert [a[0] for a in algorithm.advantages().values()] == pytest.approx([0.125, -0.125]), "there is no T_min"
    assert algorithm.metrics() == {"replay/size": 1}


def test_the_shaped_rewards_are_those_the_advantages_are_made_of():
    algorithm = make(AdaGRPOSection())
    algorithm.add([make_group("g", (1, 1, 0, 0), (2, 4, 3, 3)), make_group("h", (1, 0), (5, 5))], 1)
    assert list(algorithm.shaped_rewards().values()) == [1, 0.5, 0, 0, 1, 0]
    algorithm = make(AdaGRPOSection(spa=False))
    algorithm.add(GROUPS, 1)
    assert algorithm.shaped_rewards() == {}
