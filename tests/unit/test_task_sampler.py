import json
import random
from collections import Counter

import pytest
from made_groups import make_group, make_task

from envs.phone.tasks import suite
from mobilerl.config import ConfigError, CurriculumSection, TasksSection
from mobilerl.train.tasks import TaskSampler, training_tasks

TASKS = [make_task(f"{t}{i}", t) for t in "AB" for i in range(3)]


def sampler(**settings) -> TaskSampler:
    return TaskSampler(TASKS, CurriculumSection(**settings))


def group(task_index: int, reward: float):
    task = TASKS[task_index]
    return make_group(task.id, (reward, reward), (1, 1), task)


def test_templates_come_equally_often_whatever_their_instances():
    tasks = [*TASKS, *(make_task(f"B{i}", "B") for i in range(3, 30))]
    drawn = TaskSampler(tasks, CurriculumSection()).sample(100, random.Random(0))
    assert Counter(t.template for t in drawn) == {"A": 50, "B": 50}
    assert len({t.id for t in drawn if t.template == "B"}) > 15


def test_an_epoch_ends_with_its_last_group_and_then_the_curriculum_moves():
    s = sampler(epoch_groups=2, patience=1, cooldown=1)
    s.record([group(0, 0.0)])
    assert s.curriculum.active == {"A", "B"}
    s.record([group(3, 1.0)])  # epoch 1 ends: A has failed once, which is its patience
    assert s.curriculum.cooling == {"A"} and s.curriculum.active == {"B"}
    s.record([group(3, 1.0), group(3, 1.0)])  # epoch 2, in which A was not sampled, ends its cooldown
    assert s.curriculum.removed == {"A"}
    assert {t.template for t in s.sample(50, random.Random(0))} == {"B"}


def test_a_curriculum_that_removed_everything_has_no_tasks():
    s = sampler(epoch_groups=2, patience=1, cooldown=0)
    assert s.has_tasks
    s.record([group(0, 0.0), group(3, 0.0)])
    assert not s.has_tasks
    kept = sampler(epoch_groups=2, patience=1, cooldown=0, revisit_every=1)
    for _ in range(2):
        kept.record([group(0, 0.0), group(3, 0.0)])
    assert kept.has_tasks


def test_with_probes_there_is_always_a_task_to_play():
    rng, s = random.Random(0), sampler(epoch_groups=2, patience=2, cooldown=3, revisit_every=4)
    for _ in range(20):
        assert s.has_tasks
        s.record([make_group(t.id, (0.0, 0.0), (1, 1), t) for t in s.sample(2, rng)])
    assert s.curriculum.removed == {"A", "B"}


def test_one_record_may_hold_the_end_of_one_epoch_and_the_start_of_the_next():
    s = sampler(epoch_groups=2, patience=2, cooldown=3)
    s.record([group(0, 0.0), group(3, 1.0), group(0, 1.0)])
    assert s.state_dict()["seen"] == 1 and s.state_dict()["rewards"] == {"A": [1.0, 1.0]}
    s.record([group(3, 0.0)])  # A succeeded in epoch 2, so its first failure is forgotten
    assert s.curriculum.active == {"A", "B"}
    history = s.curriculum.state_dict()["tasks"]
    assert (history["A"]["failed"], history["B"]["failed"]) == (0, 1)


def test_an_epoch_is_as_long_as_the_list_of_tasks_unless_said_otherwise():
    s = sampler(patience=1, cooldown=5)
    s.record([group(0, 0.0)] * (len(TASKS) - 1))
    assert not s.curriculum.cooling
    s.record([group(0, 0.0)])
    assert s.curriculum.cooling == {"A"}


def test_by_task_every_instance_is_judged_alone():
    s = sampler(by="task", epoch_groups=1, patience=1, cooldown=1)
    s.record([group(0, 0.0)])
    assert s.curriculum.cooling == {TASKS[0].id} and len(s.curriculum.active) == 5


def test_uniform_never_gives_up():
    s = sampler(type="uniform", epoch_groups=1, patience=1, cooldown=0)
    for _ in range(50):
        s.record([group(0, 0.0)])
    assert s.curriculum.active == {"A", "B"}


@pytest.mark.parametrize("by", ["task", "template"])
def test_a_restored_sampler_goes_on_exactly(by):
    straight, played = sampler(by=by, epoch_groups=3, patience=1, cooldown=2), random.Random(7)
    groups = [group(played.randrange(6), float(played.random() < 0.3)) for _ in range(40)]
    straight.record(groups[:17])
    resumed = sampler(by=by, epoch_groups=3, patience=1, cooldown=2)
    resumed.load_state_dict(json.loads(json.dumps(straight.state_dict())))
    assert resumed.state_dict() == straight.state_dict()
    for s in (straight, resumed):
        s.record(groups[17:21])
    drawn = [[t.id for t in s.sample(20, random.Random(3))] for s in (straight, resumed)]
    assert drawn[0] == drawn[1]
    for s in (straight, resumed):
        s.record(groups[21:])
    assert json.dumps(straight.state_dict()) == json.dumps(resumed.state_dict())


def test_training_tasks_are_those_named_and_never_held_out_ones():
    tasks = training_tasks(TasksSection(per_template=3, templates=("MusicPause", "TodoDue")))
    assert Counter(t.template for t in tasks) == {"MusicPause": 3, "TodoDue": 3}
    assert not any(suite.held_out(t.template, dict(t.params)) for t in tasks)


@pytest.mark.parametrize("name", ["MusicPaus", "MusicAddToPlaylist"])  # a typo; one that is reserved for testing
def test_a_template_that_cannot_be_trained_on_is_an_error(name):
    with pytest.raises(ConfigError, match=f"tasks.templates.*'{name}'"):
        training_tasks(TasksSection(templates=(name,)))


def test_values_of_instructions_choose_the_tasks_once_the_critic_knows():
    s = sampler(type="instruction_value", epoch_groups=1, top_p=0.5)
    value = {"do A0": 0.4, "do A1": 0.6, "do A2": 0.5}
    s.record([group(0, 0.0)])
    assert s.curriculum.active == {"B"}, "without values it is the mean reward that counts"
    s.value_of = lambda instructions: [value.get(i, 0.99) for i in instructions]
    s.record([group(0, 0.0)])
    assert s.curriculum.active == {"A"} and s.curriculum.weights() == {"A": 1.0, "B": 0.2}
    again = sampler(type="instruction_value", epoch_groups=1, top_p=0.5)
    again.load_state_dict(json.loads(json.dumps(s.state_dict())))
    assert again.sample(20, random.Random(5)) == s.sample(20, random.Random(5))
