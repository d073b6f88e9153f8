"""Critics at work on a buffer, with made-up features that say what a value function could know."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from made_groups import make_task, make_trajectory

from envs.base import Invalid
from mobilerl.algorithms.replay import CircularReplay, PrioritizedReplay
from mobilerl.config import CriticSection, DigirlSection, DistrlSection, load_recipe
from mobilerl.engines import features as frozen
from mobilerl.train.critics import base, make_critic
from mobilerl.train.critics import digirl as digirl_module
from mobilerl.train.critics.digirl import DigirlCritic, _step_advantage
from mobilerl.train.critics.distrl import DistrlCritic
from mobilerl.train.critics.features import Encoder

pytestmark = pytest.mark.usefixtures("one_thread")
CRITIC = CriticSection(updates=150, offline_updates=150, grad_clip=1.0)
RECIPES = Path(__file__).parents[2] / "recipes"
EASY, HARD = (replace(make_task(name), instruction=name, max_steps=6) for name in ("easy", "hard"))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(base, "BATCH", 64)


class MadeUp:
    """The instruction is one of two directions; a screen's first byte says how promising it looks."""

    size = 4

    def make_room(self, vectors):
        self.room = vectors

    def screens(self, pngs):
        return torch.tensor([[png[0] / 10 if png else 0.0, 1.0, 1.0, 1.0] for png in pngs])

    def prompts(self, prompts):
        return torch.tensor([[float(len(p)), 1.0, 1.0, 1.0] for p in prompts])

    def instruction(self, text):
        return torch.tensor([1.0, 0.0, 5.0, 5.0]) if text == "easy" else torch.tensor([0.0, 1.0, 5.0, 5.0])


class Same:
    """An engine whose policy is `shift` nats from the one that acted, in each action."""

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def logprobs(self, rows):
        return [tuple(lp + self.shift / len(r.rollout_logprobs) for lp in r.rollout_logprobs) for r in rows]


def played(name, task, reward, looks):
    """A trajectory whose screens look as promising as `looks` says, 0 to 9 per step."""
    made = make_trajectory(name, reward, len(looks), task)
    steps = [
        replace(s, observation=replace(s.observation, screenshot=bytes([look])))
        for s, look in zip(made.steps, looks, strict=True)
    ]
    return replace(made, steps=tuple(steps))


def filled(buffer=None, success=True):
    """The easy task is nearly always solved, the hard one rarely; successes go by way of promising screens."""
    replay = CircularReplay(100) if buffer is None else buffer
    made = [played(f"easy-{i}", EASY, float(success and i % 10 != 0), [1, 5, 9 if i % 10 else 0]) for i in range(30)]
    made += [
        played(f"hard-{i}", HARD, float(success and i % 10 == 0), [1, 0, 9 if i % 10 == 0 else 0]) for i in range(30)
    ]
    replay.insert(made, [0.0] * len(made), 1)
    return replay


def weights(replay):
    return {e["trajectory"].id: e["advantages"] for e in replay.state_dict()["entries"]}


def digirl(**settings):
    torch.manual_seed(0)
    return DigirlCritic(Encoder(MadeUp()), CRITIC, DigirlSection(**settings))


def distrl(shift=0.0, **settings):
    torch.manual_seed(0)
    return DistrlCritic(Encoder(MadeUp()), CRITIC, DistrlSection(**settings), Same(shift))


# --- DigiRL --------------------------------------------------------------------------------------------------------


def test_only_successes_that_surprise_are_imitated():
    replay = filled()
    metrics = digirl(top_p=0.05).judge(replay, random.Random(0))
    kept = {name for name, rows in weights(replay).items() if any(rows)}
    assert kept == {"hard-0", "hard-10", "hard-20"}, "the filter keeps what the instruction's value did not promise"
    assert all(set(rows) <= {0.0, 1.0} and rows[-1] == 1.0 for name, rows in weights(replay).items() if name in kept)
    assert metrics["critic/kept"] == pytest.approx(sum(sum(rows) for rows in weights(replay).values()) / 180)


def test_every_success_passes_where_stored_trajectories_are_learned_from():
    replay = filled()
    digirl(top_p=0.05).judge(replay, random.Random(0), offline=True)
    successes = {t.id for t in replay.trajectories if t.success}
    assert {name for name, rows in weights(replay).items() if any(rows)} == successes


def test_a_step_that_leads_nowhere_better_is_filtered_out():
    """The hard task's second screen looks hopeless: going there is no better than expected, leaving it is."""
    replay = filled()
    digirl(top_p=1.0, lam=0.0).judge(replay, random.Random(0))
    first, second, last = weights(replay)["hard-0"]
    assert (first, second, last) == (0.0, 1.0, 1.0)


def test_step_advantages_are_those_worked_by_hand():
    """Eq. 4.3 with lambda 0.5 and values .2, .4, .8: w = .25, .5, 1 for a success, 0 for a failure."""
    values = torch.tensor([0.2, 0.4, 0.8])
    solved, failed = (_step_advantage(make_trajectory("a", reward, 3), values, 0.5).tolist() for reward in (1.0, 0.0))
    assert solved == pytest.approx([0.25 + 0.75 * 0.2, 0.5 + 0.5 * 0.4, 1.0])
    assert failed == pytest.approx([0.2, 0.4, -0.8])


def test_a_step_is_kept_by_the_budget_of_its_task_not_by_the_steps_played(monkeypatch):
    """0.2 is more than 1/6 of the budget's six steps, and less than 1/3 of the three that were played."""
    monkeypatch.setattr(digirl_module, "_step_advantage", lambda trajectory, value, lam: torch.full_like(value, 0.2))
    replay = filled()
    assert digirl(top_p=1.0).judge(replay, random.Random(0))["critic/kept"] == 0.5
    assert all(set(weights(replay)[t.id]) == {float(t.success)} for t in replay.trajectories)


def test_soft_weights_rank_all_rows():
    replay = filled()
    digirl(filter="soft", beta=0.5).judge(replay, random.Random(0))
    rows = weights(replay)
    assert all(w > 0 for numbers in rows.values() for w in numbers)
    assert rows["hard-0"][-1] > rows["hard-1"][-1]


def test_without_a_success_nothing_is_learned():
    replay = filled(success=False)
    critic = digirl()
    assert critic.judge(replay, random.Random(0))["critic/kept"] == 0.0
    assert not any(any(rows) for rows in weights(replay).values())
    assert replay.draw(8, random.Random(0)) == []
    assert critic.instruction_values(["easy"]) is None


def test_instructions_have_values():
    critic = digirl()
    critic.judge(filled(), random.Random(0))
    easy, hard = critic.instruction_values(["easy", "hard"])
    assert easy == pytest.approx(0.9, abs=0.1) and hard == pytest.approx(0.1, abs=0.1)


# --- DistRL --------------------------------------------------------------------------------------------------------


def test_failures_are_worse_than_successes_and_invalid_actions_cost():
    replay = filled()
    spoiled = played("spoiled", EASY, 1.0, [1, 5, 9])
    bad = replace(spoiled.steps[1], action=Invalid("nonsense"))
    replay.insert([replace(spoiled, steps=(spoiled.steps[0], bad, spoiled.steps[2]))], [0.0], 1)
    distrl(trajectory_top_p=1.0, per_repeat=0.0, per_invalid=1.0).judge(replay, random.Random(0))
    rows = weights(replay)
    assert min(rows["easy-1"]) > 0 > rows["easy-0"][1]
    assert rows["spoiled"][1] == pytest.approx(rows["easy-1"][1] - 1.0, abs=1e-5)
    assert rows["spoiled"][2] == pytest.approx(rows["easy-1"][2], abs=1e-5)


def test_trajectories_of_low_value_are_withheld():
    replay = filled()
    distrl(trajectory_top_p=0.5).judge(replay, random.Random(0))
    drawn = {row.trajectory_id for row, _ in replay.draw(1000, random.Random(0))}
    assert len(drawn) == 30 and {t.id for t in replay.trajectories if t.success} == drawn


def test_priorities_are_those_of_the_newest_policy():
    """delta is largest where the outcome is least expected; ratios and entropies are those of the engine."""
    replay = filled(PrioritizedReplay(100, 1.0, (1.0, 0.0, 0.0)))
    distrl(trajectory_top_p=1.0).judge(replay, random.Random(0))
    chances = replay.probabilities()
    surprising = {f"{task}-{i}" for task in ("easy", "hard") for i in (0, 10, 20)}
    assert set(sorted(chances, key=chances.__getitem__)[-6:]) == surprising
    assert chances["hard-0"] > 2 * chances["easy-1"]

    by_ratio = filled(PrioritizedReplay(100, 1.0, (0.0, 1.0, 0.0)))
    distrl(shift=-1.0).judge(by_ratio, random.Random(0))
    assert list(by_ratio.priorities().values()) == pytest.approx([0.36788] * 60, abs=1e-4)


@pytest.mark.parametrize("reward", ["mc", "td"])
def test_advantages_and_priorities_equal_a_loop_over_steps(reward):
    """Three episodes of one repeated action under a policy that gives each action 0.6 nats less than it had."""
    made = [played(name, EASY, final, looks) for name, final, looks in
            (("a", 1.0, [1, 5, 9]), ("b", 0.0, [1, 0, 0, 2]), ("c", 1.0, [3, 9]))]  # fmt: skip
    replay = PrioritizedReplay(100, 0.5, (1.0, 0.5, 0.5))
    replay.insert(made, [0.0] * 3, 1)
    critic = distrl(shift=-0.6, gamma=0.9, reward=reward, trajectory_top_p=1.0, per_repeat=0.1, repeat_cap=0.15)
    critic.judge(replay, random.Random(0))
    values = [v.tolist() for v in critic._values(critic._encoder(made))]
    deltas, entropies = [], []
    for t, v in zip(made, values, strict=True):
        steps = len(v)
        returns = [0.9 ** (steps - 1 - i) * t.reward for i in range(steps)]
        own = [0.0] * (steps - 1) + [t.reward]
        penalty = [-min(0.1 * i, 0.15) for i in range(steps)]
        ahead = [0.9 * v[i + 1] - v[i] if i + 1 < steps else -v[i] for i in range(steps)]
        shaped = returns if reward == "mc" else own
        expected = [shaped[i] + penalty[i] + ahead[i] for i in range(steps)]
        assert weights(replay)[t.id] == pytest.approx(expected, abs=1e-5)
        deltas.append([abs(own[i] + ahead[i]) for i in range(steps)])
        entropies.append([0.5 + 0.25 + i + 0.6 for i in range(steps)])  # as made_groups has log-probabilities
    most_delta, most_entropy = (max(max(rows) for rows in of) for of in (deltas, entropies))
    expected = [fmean(d) / most_delta + 0.5 * math.exp(-0.6) + 0.5 * fmean(e) / most_entropy
                for d, e in zip(deltas, entropies, strict=True)]  # fmt: skip
    assert list(replay.priorities().values()) == pytest.approx(expected, abs=1e-4)


def test_retrace_discounts_what_an_older_policy_did():
    """With ratio 1 and lambda 1 targets are discounted returns; of what the policy turned from, one-step estimates."""
    learned = {}
    for name, settings in (
        ("labels", {"retrace": False}),
        ("retrace", {"lam": 1.0}),
        ("gone", {"lam": 1.0, "shift": -9}),
    ):
        critic = distrl(gamma=0.5, trajectory_top_p=1.0, **settings)
        for _ in range(3):
            metrics = critic.judge(filled(), random.Random(0))
        learned[name] = metrics["critic/value"]
    # 30 of 60 succeed in three steps: labels are 1, 1, 1, returns 1/4, 1/2, 1. In the end both ways of correcting come
    # to the same values.
    assert learned["labels"] == pytest.approx(0.5, abs=0.05)
    assert learned["retrace"] == pytest.approx(0.5 * 1.75 / 3, abs=0.06)
    assert learned["gone"] == pytest.approx(learned["retrace"], abs=0.08)


def test_the_targets_of_the_state_value_are_those_worked_by_hand():
    """Retrace with gamma 0.9, lambda 0.8 and ratios exp(-0.6), for one success of three steps."""
    made = [played("a", EASY, 1.0, [1, 5, 9]), played("b", EASY, 0.0, [1, 0])]
    replay = PrioritizedReplay(100, 0.5, (1.0, 0.5, 0.5))
    replay.insert(made, [0.0] * 2, 1)
    critic = distrl(shift=-0.6, gamma=0.9, lam=0.8, trajectory_top_p=1.0)
    critic.judge(replay, random.Random(0))
    seen, measured = critic._encoder(made), critic._measure(made)
    (a, b, c), (d, e) = (v.tolist() for v in critic._values(seen))
    trace = 0.9 * 0.8 * math.exp(-0.6)
    deltas = [0.9 * b - a, 0.9 * c - b, 1.0 - c]
    third = c + deltas[2]
    second = b + deltas[1] + trace * deltas[2]
    solved = [a + deltas[0] + trace * deltas[1] + trace**2 * deltas[2], second, third]
    failed = [d + (0.9 * e - d) + trace * -e, 0.0]
    expected = [min(max(value, 0.0), 1.0) for value in (*solved, *failed)]
    assert critic._targets(seen, measured, torch.zeros(5)).tolist() == pytest.approx(expected, abs=1e-5)


# --- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [digirl, distrl])
def test_a_restored_critic_goes_on_bit_for_bit(make, tmp_path):
    critic, rng = make(), random.Random(3)
    critic.judge(filled(), rng)
    torch.save(critic.state_dict(), tmp_path / "critic.pt")
    at = rng.getstate()
    first, second = filled(), filled()
    expected = critic.judge(first, rng)

    rng.setstate(at)
    again = make()
    again.load_state_dict(torch.load(tmp_path / "critic.pt", weights_only=True))
    assert again.judge(second, rng) == expected
    assert weights(first) == weights(second)


def test_a_state_is_the_screen_before_this_screen_and_the_prompt():
    encoder = Encoder(MadeUp())
    made = [played("a", EASY, 1.0, [1, 5, 9]), played("b", HARD, 0.0, [3, 7])]
    seen = encoder(made)
    scale = encoder.state_dict()["scale"]
    features = seen.states * scale["state_std"] + scale["state_mean"]
    size = MadeUp.size
    before, now, prompt = (features[:, i * size].tolist() for i in range(3))
    assert before == pytest.approx([0.1, 0.1, 0.5, 0.3, 0.3], abs=1e-6)
    assert now == pytest.approx([0.1, 0.5, 0.9, 0.3, 0.7], abs=1e-6)
    assert prompt == pytest.approx([3.0] * 5) and (seen.lengths, seen.last_rows.tolist()) == ((3, 2), [2, 4])
    assert seen.row_instructions.tolist() == [seen.instructions[0].tolist()] * 3 + [seen.instructions[1].tolist()] * 2


def test_what_the_first_trajectories_share_is_not_blown_up_in_later_ones():
    encoder = Encoder(MadeUp())
    encoder([played(f"a{i}", EASY, 1.0, [1, 5, 9]) for i in range(5)])  # one instruction alone
    assert encoder.instructions(["easy", "hard"]).abs().max() < 5


def test_heads_follow_the_seed_alone(monkeypatch):
    monkeypatch.setattr(frozen, "FrozenFeatures", lambda *_: MadeUp())

    def heads(seed: int, drawn: int) -> list[float]:
        torch.manual_seed(drawn)
        recipe = load_recipe(RECIPES / "digirl.toml", ["--train.seed", str(seed), "--model", "m"])
        before = torch.get_rng_state()
        state = make_critic(recipe, engine=None).state_dict()["step"]["head"]
        assert torch.equal(torch.get_rng_state(), before), "the engine's draws stay what they were"
        return [x for tensor in state.values() for x in tensor.flatten().tolist()]

    assert heads(1, drawn=0) == heads(1, drawn=5) != heads(2, drawn=0)


def test_features_of_no_steps_are_refused():
    with pytest.raises(ValueError, match="has no steps"):
        Encoder(MadeUp())([make_trajectory("empty", 0.0, 0)])
