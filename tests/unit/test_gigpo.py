"""GiGPO: advantages of steps among those taken in the same state, and which screens are the same state."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_algorithms import make
from made_groups import make_group, make_trajectory

from mobilerl.algorithms import gigpo
from mobilerl.algorithms.advantages import group_relative
from mobilerl.algorithms.gigpo import state_key, step_advantages
from mobilerl.config.algorithms import GiGPOSection
from mobilerl.envs.base import Observation
from mobilerl.records import Group


def advantages(rewards, states, gamma=0.5, step_weight=1.0, normalize_std=True):
    """`states`: those of each episode."""
    length = torch.tensor([len(s) for s in states])
    state = torch.tensor([number for episode in states for number in episode])
    reward = torch.tensor(rewards, dtype=torch.float64)
    return step_advantages(reward, length, state, gamma, step_weight, normalize_std)


TWO = ([1, 0], [[0, 1, 2], [0, 3]])
"""A success in three steps and a failure in two, which both began in state 0."""
THREE = ([1, 1, 0], [[0, 1], [0, 0, 1], [0]])
"""State 0 is visited in all episodes and twice in the second one; state 1 is the last one of both successes."""


@pytest.mark.parametrize(
    ("episodes", "arguments", "wanted"),
    [
        # A_E: +-1. Returns with gamma 0.5: 1/4, 1/2, 1 and 0, 0. State 0 has 1/4 and 0: A_S = +-1; the others were
        # visited once: A_S = 0.
        (TWO, {}, [2, 1, 1, -2, -1]),
        (TWO, {"step_weight": 0.5}, [1.5, 1, 1, -1.5, -1]),
        # Without the division: A_E = +-1/2; state 0 has mean 1/8.
        (TWO, {"normalize_std": False}, [0.625, 0.5, 0.5, -0.625, -0.5]),
        # gamma 1: the returns are the rewards, so state 0 has 1 and 0.
        (TWO, {"normalize_std": False, "gamma": 1.0}, [1, 0.5, 0.5, -1, -0.5]),
        # A_E = 1/3, 1/3, -2/3. State 0: returns 1/2 | 1/4, 1/2 | 0 with mean 5/16. State 1: 1 and 1, so A_S = 0.
        (THREE, {"normalize_std": False}, [25 / 48, 1 / 3, 13 / 48, 25 / 48, 1 / 3, -47 / 48]),
    ],
)
def test_step_advantages_golden(episodes, arguments, wanted):
    assert advantages(*episodes, **arguments).tolist() == pytest.approx(wanted, abs=1e-4)


EPISODES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.lists(st.integers(0, 3), min_size=1, max_size=5)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=100)
@given(EPISODES, st.floats(0.1, 1), st.floats(0, 3), st.booleans())
def test_without_shared_states_or_step_weight_it_is_grpo(episodes, gamma, step_weight, normalize_std):
    rewards, states = zip(*episodes, strict=True)
    lengths = torch.tensor([len(s) for s in states])
    alone = group_relative(torch.tensor(rewards, dtype=torch.float64), torch.zeros_like(lengths), normalize_std)
    grpo = alone.repeat_interleave(lengths)
    torch.testing.assert_close(advantages(rewards, states, gamma, 0.0, normalize_std), grpo)
    numbers = iter(range(100))
    distinct = [[next(numbers) for _ in episode] for episode in states]
    torch.testing.assert_close(advantages(rewards, distinct, gamma, step_weight, normalize_std), grpo)


NODE = '<node class="Button" text="{text}" bounds="{bounds}" focused="{focused}" package="app"/>'
CLOCK = '<node class="TextView" text="{clock}" package="com.android.systemui"/>'
SCREEN = f"<hierarchy>{NODE}{CLOCK}</hierarchy>"


def screen(app="Notes", xml=SCREEN, **changes) -> Observation:
    shown = {"text": "Save", "bounds": "[0,0][9,9]", "focused": "false", "clock": "12:00", **changes}
    return Observation(b"", 100, 200, xml.format(**shown), app, 0)


def test_a_state_is_what_the_app_shows():
    moved = screen(bounds="[5,5][9,9]", focused="true", clock="12:01")
    assert state_key(screen()) == state_key(moved)
    states = [screen(), screen(text="Delete"), screen(app="Mail"), screen(xml=SCREEN.replace(NODE, NODE + NODE))]
    states += [screen(xml=SCREEN[:-5]), screen(xml=SCREEN[:-6])]  # truncated dumps
    assert len({state_key(s) for s in states}) == 6


def test_samples_carry_the_advantage_of_their_step():
    # All screens of `make_group` are the same state: with gamma 1/2 returns 1/4, 1/2, 1 | 0, 0, whose mean is 0.35.
    algorithm = make(GiGPOSection(gamma=0.5, normalize_std=False))
    algorithm.add([make_group("g", (1, 0), (3, 2))], 1)
    drawn = [s for batch in algorithm.mini_batches(random.Random(0)) for s in batch]
    got = {(s.trajectory_id, s.step): s.advantage for s in drawn}
    wanted = {("g-0", 0): 0.4, ("g-0", 1): 0.65, ("g-0", 2): 1.15, ("g-1", 0): -0.85, ("g-1", 1): -0.85}
    assert got == pytest.approx(wanted)
    assert algorithm.advantages() == {"g-0": [got["g-0", i] for i in range(3)], "g-1": [got["g-1", i] for i in (0, 1)]}


def test_a_group_of_successes_is_informative_where_some_took_longer():
    quick, slow = make_trajectory("q", 1.0, 1), make_trajectory("s", 1.0, 2)
    algorithm = make(GiGPOSection())
    assert algorithm.informative(Group(quick.task, (quick, slow))) == [True, True]
    assert algorithm.informative(Group(quick.task, (quick, quick))) == [False, False]
    assert make(GiGPOSection(step_weight=0.0)).informative(Group(quick.task, (quick, slow))) == [False, False]


def test_a_screen_is_hashed_once_however_often_its_group_is_looked_at(monkeypatch):
    hashed, algorithm, group = [], make(GiGPOSection()), make_group("g", (1, 0), (3, 2))
    monkeypatch.setattr(gigpo, "state_key", lambda seen: hashed.append(seen) or "same")
    for _ in range(2):
        assert algorithm.informative(group) == algorithm.informative(group) == [True, True]
        algorithm.add([group], 1)
    assert len(hashed) == 2 * 5, "once in an iteration"
