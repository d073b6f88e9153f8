import json
import math
import random
from collections import Counter

import pytest
from made_groups import make_trajectory

from mobilerl.algorithms.replay import PrioritizedReplay, PriorityTerms


def buffer_of(lengths, **settings_):
    """A buffer holding one trajectory per name of `lengths`, none of them measured yet."""
    buffer = PrioritizedReplay(**{"capacity": 50, **settings_})
    buffer.insert([make_trajectory(n, 0.0, length) for n, length in lengths.items()], [1.0] * len(lengths), 0)
    return buffer


def terms(delta=0.0, ratio=1.0, entropy=0.0):
    return PriorityTerms.of([delta], [ratio], [entropy])


def test_priorities_golden():
    # a: mean|delta| = (0.2 + 0.4)/2 = 0.3; mean min(1, rho) = (1 + 0.5)/2 = 0.75; mean Ent = (1 + 3)/2 = 2.
    # b: 0.1, 0.2, 4. The largest step of all: |delta| 0.4, Ent 4.
    # p_a = 2 * 0.3/0.4 + 1 * 0.75 + 0.5 * 2/4 = 1.5 + 0.75 + 0.25 = 2.5
    # p_b = 2 * 0.1/0.4 + 1 * 0.2  + 0.5 * 4/4 = 0.5 + 0.2  + 0.5  = 1.2
    # c, never measured: 2 + 1 + 0.5 = 3.5.
    # Square roots 1.581139, 1.095445, 1.870829, sum 4.547413.
    buffer = buffer_of({"a": 2, "b": 1, "c": 1}, alpha=0.5, weights=(2.0, 1.0, 0.5))
    a = PriorityTerms.of([0.2, -0.4], [2.0, 0.5], [1.0, 3.0])
    assert (a.delta, a.ratio, a.entropy, a.max_delta, a.max_entropy) == pytest.approx((0.3, 0.75, 2.0, 0.4, 3.0))
    assert buffer.update({"a": a, "b": terms(0.1, 0.2, 4.0)}) == 2
    assert buffer.priorities() == pytest.approx({"a": 2.5, "b": 1.2, "c": 3.5})
    assert buffer.probabilities() == pytest.approx({"a": 0.347701, "b": 0.240894, "c": 0.411405}, abs=1e-6)


def test_alpha_golden():
    # p = 1 and 4 (times 1/4): alpha 1 gives 1/5 and 4/5, 0.5 gives 1/3 and 2/3, 0 gives halves.
    for alpha, share in ((1.0, 0.2), (0.5, 1 / 3), (0.0, 0.5)):
        buffer = buffer_of({"a": 1, "b": 1}, alpha=alpha, weights=(0.0, 1.0, 0.0))
        buffer.update({"a": terms(ratio=0.25), "b": terms(ratio=1.0)})
        assert buffer.probabilities() == pytest.approx({"a": share, "b": 1 - share})


def chi_square(counts, shares, draws):
    return sum((counts[name] - draws * share) ** 2 / (draws * share) for name, share in shares.items())


def test_sampling_frequencies_follow_the_priorities():
    # p proportional to 1, 4, 9, 16; alpha 0.5: shares 0.1, 0.2, 0.3, 0.4. With 3 degrees of freedom the statistic
    # exceeds 16.27 once in a thousand; were the draw uniform, it would be about 0.2 * draws.
    draws = 6000
    buffer = buffer_of(dict.fromkeys("abcd", 1), alpha=0.5, weights=(0.0, 1.0, 0.0))
    rng = random.Random(5)

    def frequencies():
        return Counter(buffer.draw(1, rng)[0][0].trajectory_id for _ in range(draws))

    shares = dict(zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True))
    buffer.update({name: terms(ratio=(10 * share) ** 2 / 16) for name, share in shares.items()})
    counts = frequencies()
    assert chi_square(counts, shares, draws) < 16.27
    assert chi_square(counts, dict.fromkeys("abcd", 0.25), draws) > 500

    # Measured anew with another policy, the order is the other way round, and so are the draws.
    turned = dict(zip("abcd", (0.4, 0.3, 0.2, 0.1), strict=True))
    buffer.update({name: terms(ratio=(10 * share) ** 2 / 16) for name, share in turned.items()})
    assert chi_square(frequencies(), turned, draws) < 16.27


@pytest.mark.parametrize("position", [0, 2])
def test_each_of_the_three_terms_drives_the_draw(position):
    # Error and entropy (the ratio is above): 0.9 against 0.1 of the maximum, alpha 1: shares 0.9 and 0.1, up to the
    # third trajectory that sets the maximum and takes half.
    buffer = buffer_of({"a": 1, "b": 1, "top": 1}, alpha=1.0, weights=tuple(float(i == position) for i in range(3)))
    name = ("delta", "ratio", "entropy")[position]
    buffer.update({"a": terms(**{name: 1.8}), "b": terms(**{name: 0.2}), "top": terms(**{name: 2.0})})
    rng = random.Random(1)
    counts = Counter(buffer.draw(1, rng)[0][0].trajectory_id for _ in range(4000))
    assert [counts[n] / 4000 for n in ("a", "b", "top")] == pytest.approx([0.45, 0.05, 0.5], abs=0.03)


def test_draws_without_replacement_are_sequential():
    # Shares 0.1, 0.3, 0.6; two of three. P(i in) = P_i + sum_{j != i} P_j P_i / (1 - P_j):
    # a: 0.1 + 0.3 * 0.1/0.7 + 0.6 * 0.1/0.4 = 0.292857;  b: 0.3 + 0.1 * 0.3/0.9 + 0.6 * 0.3/0.4 = 0.783333;
    # c: 0.6 + 0.1 * 0.6/0.9 + 0.3 * 0.6/0.7 = 0.923810.
    buffer = buffer_of({"a": 1, "b": 1, "c": 1}, alpha=1.0, weights=(0.0, 1.0, 0.0))
    buffer.update({"a": terms(ratio=0.1), "b": terms(ratio=0.3), "c": terms(ratio=0.6)})
    rng = random.Random(2)
    counts = Counter(row.trajectory_id for _ in range(5000) for row, _ in buffer.draw(2, rng))
    assert [counts[n] / 5000 for n in "abc"] == pytest.approx([0.292857, 0.783333, 0.923810], abs=0.025)


def test_trajectories_are_used_whole_and_only_the_last_one_is_cut():
    buffer = buffer_of(dict.fromkeys("abc", 4))
    rows = [row for row, _ in buffer.draw(6, random.Random(1))]
    assert [r.step for r in rows[:4]] == [0, 1, 2, 3]
    assert rows[4].trajectory_id == rows[5].trajectory_id != rows[0].trajectory_id
    assert rows[4].step < rows[5].step
    assert len(buffer_of({"a": 3}).draw(99, random.Random(0))) == 3


def test_priority_zero_comes_last_and_all_zero_is_uniform():
    buffer = buffer_of({"a": 1, "b": 1, "c": 1}, weights=(1.0, 0.0, 0.0))
    buffer.update({"a": terms(delta=0.0), "b": terms(delta=0.5), "c": terms(delta=0.0)})
    rng = random.Random(0)
    assert {buffer.draw(3, rng)[0][0].trajectory_id for _ in range(200)} == {"b"}
    seconds = Counter(buffer.draw(3, rng)[1][0].trajectory_id for _ in range(2000))
    assert seconds["a"] / 2000 == pytest.approx(0.5, abs=0.05)
    buffer = buffer_of({"a": 1, "b": 1}, weights=(1.0, 0.0, 0.0))
    buffer.update({"a": terms(), "b": terms()})
    assert buffer.probabilities() == {"a": 0.5, "b": 0.5}


def test_the_maximum_is_of_everything_seen_even_if_it_has_left():
    buffer = buffer_of({"a": 1}, capacity=1, weights=(1.0, 0.0, 0.0))
    buffer.update({"a": terms(delta=0.8)})
    buffer.insert([make_trajectory("b", 0.0, 1)], [1.0], 1)
    assert buffer.priorities() == {"b": 1.0}  # of a, nothing is left but the maximum
    assert buffer.update({"a": terms(delta=9.0), "b": terms(delta=0.2)}) == 1
    assert buffer.priorities() == {"b": pytest.approx(0.25)}


def test_state_survives_json_but_for_the_trajectories():
    buffer = buffer_of({"a": 2, "b": 1})
    buffer.update({"a": PriorityTerms.of([0.2, -0.4], [2.0, 0.5], [1.0, 3.0])})
    state = buffer.state_dict()
    rest = [{k: v for k, v in entry.items() if k != "trajectory"} for entry in state["entries"]]
    read = json.loads(json.dumps({**state, "entries": rest}))
    entries = [{**e, "trajectory": o["trajectory"]} for e, o in zip(read["entries"], state["entries"], strict=True)]
    twin = PrioritizedReplay(capacity=50)
    twin.load_state_dict({**read, "entries": entries})
    assert twin.state_dict() == state
    assert twin.priorities() == buffer.priorities()


def test_bad_input_is_named():
    for settings_, message in [
        ({"capacity": 0}, "capacity"),
        ({"alpha": -1.0}, "alpha"),
        ({"weights": (1.0, 1.0)}, "weights must be three"),
        ({"weights": (0.0, 0.0, 0.0)}, "not all zero"),
        ({"weights": (1.0, math.nan, 0.0)}, "weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            PrioritizedReplay(**{"capacity": 1, **settings_})
    for numbers, message in [
        (([], [], []), "0 deltas"),
        (([1.0], [1.0, 1.0], [1.0]), "1 deltas, 2 ratios"),
        (([math.nan], [1.0], [1.0]), "NaN"),
        (([1.0], [-1.0], [1.0]), "negative"),
    ]:
        with pytest.raises(ValueError, match=message):
            PriorityTerms.of(*numbers)
    buffer = buffer_of({"a": 1})
    before = buffer.state_dict()
    for state in ({}, {**before, "entries": [{**before["entries"][0], "terms": {"delta": 1}}]}):
        with pytest.raises(ValueError, match="not one of PrioritizedReplay"):
            buffer.load_state_dict(state)
    assert buffer.state_dict() == before
