"""What is said when the episodes of a run teach nothing."""

from __future__ import annotations

from made_groups import make_group

from mobilerl.training.nothing_to_learn import AGAIN, NothingToLearn

FAILED, PARTIAL, MIXED, SOLVED = (0, 0), (0, 0.5), (0, 1), (1, 1)


def told(*iterations: tuple[int, ...], informative: bool = False, **metrics: float) -> tuple[list[str], NothingToLearn]:
    """What was said after each iteration; "" for nothing. Each has two groups with these rewards."""
    said: list[str] = []
    watch = NothingToLearn(lambda text: said.append(text))
    lines = []
    for rewards in iterations:
        groups = [make_group(name, rewards, (1,) * len(rewards)) for name in "ab"]
        watch.after(groups, [informative or len(set(rewards)) > 1] * 2, metrics)
        watch.say()
        lines.append(said.pop() if said else "")
    return lines, watch


def test_failures_are_named_when_they_begin_and_when_they_go_on():
    lines, watch = told(MIXED, *[FAILED] * (AGAIN + 1), MIXED, FAILED, **{"rollout/finished": 0.25})
    assert [i for i, line in enumerate(lines) if line] == [1, AGAIN, AGAIN + 3]
    assert lines[1].startswith("nothing to learn from: every group failed. Try a model that has had SFT")
    assert "easier tasks" in lines[1] and "more steps per episode (75% of the episodes did not finish)" in lines[1]
    assert lines[AGAIN].startswith(f"nothing to learn from for {AGAIN} iterations: every group failed")
    assert watch.no_step().startswith("the model is unchanged: no optimizer step was taken; every group failed. Try")


def test_failures_with_partial_credit_are_something_to_learn_from_unless_it_is_the_same():
    assert told(PARTIAL)[0] == [""]
    assert told((0.5, 0.5))[0][0].startswith("nothing to learn from: every group failed")


def test_successes_alone_are_named_unless_the_algorithm_learns_from_them():
    assert told(SOLVED)[0] == ["nothing to learn from: every group succeeded. Try harder tasks (tasks.templates)"]
    assert told(SOLVED, informative=True)[0] == [""]
    lines, watch = told(FAILED, SOLVED, MIXED)
    assert "failed" in lines[0] and "succeeded" in lines[1] and not lines[2]
    assert watch.no_step() == "the model is unchanged: no optimizer step was taken"
