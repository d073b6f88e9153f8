"""Filtered behavior cloning: successes alone are imitated, from a buffer of the newest trajectories."""

import random

from made_algorithms import make
from made_groups import make_group, make_trajectory

from mobilerl.algorithms.objectives import imitation
from mobilerl.config.algorithms import FilteredBCSection


def test_mini_batches_are_drawn_from_the_successes_in_the_buffer():
    algorithm = make(FilteredBCSection(updates=6))
    group = make_group("g", [1.0, 0.0, 1.0], [3, 4, 2])
    assert algorithm.informative(group) == [True, False, True] and algorithm.objective is imitation
    algorithm.add([group], 1)
    batches = list(algorithm.mini_batches(random.Random(0)))
    assert [len(batch) for batch in batches] == [4] * 6
    drawn = {(s.trajectory_id, s.step, s.advantage) for batch in batches for s in batch}
    assert drawn == {("g-0", i, 1.0) for i in range(3)} | {("g-2", i, 1.0) for i in range(2)}
    assert algorithm.advantages() == {"g-0": [1.0] * 3, "g-2": [1.0] * 2}
    assert algorithm.metrics() == {"replay/size": 3}


def test_without_a_success_there_are_no_steps():
    algorithm = make(FilteredBCSection())
    assert list(algorithm.mini_batches(random.Random(0))) == []
    algorithm.add([make_group("g", [0.0, 0.0], [3, 3])], 1)
    assert list(algorithm.mini_batches(random.Random(0))) == []


def test_stored_trajectories_are_learned_from_first_and_stay_in_the_buffer():
    settings = FilteredBCSection(updates=1, offline={"trajectories": "runs/x"}, replay={"capacity": 2})
    algorithm = make(settings)
    assert algorithm.stored_trajectories == "runs/x"
    stored = [make_trajectory("stored", 1.0, 9)]
    assert len(list(algorithm.offline_batches(stored, random.Random(0)))) == 10
    algorithm.add([make_group("g", [1.0], [1])], 1)
    [batch] = algorithm.mini_batches(random.Random(0))
    assert {s.trajectory_id for s in batch} <= {"stored", "g-0"}
    resumed = make(settings)
    resumed.load_state_dict(algorithm.state_dict())
    assert list(resumed.mini_batches(random.Random(3))) == list(algorithm.mini_batches(random.Random(3)))
