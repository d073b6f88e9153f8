"""The estimate of the time left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mobilerl.train.progress import RECENT, ProgressView, TimeLeft, duration


def after(left: TimeLeft, iteration: int, time_s: float, **more) -> float | None:
    return left.after({"iteration": iteration, "time_s": time_s, **more})


def test_the_first_iteration_counts_by_what_it_took_itself():
    """Of the 100 s until its end, 90 went into loading the model, which is not repeated."""
    parts = {"time/rollout_s": 6.0, "time/update_s": 3.5, "time/publish_s": 0.5}
    assert after(TimeLeft(11), 1, 100.0, **parts) == pytest.approx(10 * 10.0)


def test_later_the_mean_of_recent_iterations_counts():
    left = TimeLeft(100)
    for i in range(1, 31):
        seconds = after(left, i, 50.0 * i)
    for i in range(31, 31 + RECENT):  # the run becomes faster; what was before is forgotten
        seconds = after(left, i, 1500.0 + 5.0 * (i - 30))
    assert seconds == pytest.approx(5.0 * 50)


def test_the_end_that_comes_first_counts():
    left = TimeLeft(1000, max_minutes=10.0)
    after(left, 1, 30.0)
    assert after(left, 2, 60.0) == pytest.approx(540.0)  # 998 x 30 s are longer than the rest of ten minutes
    short = TimeLeft(4, max_minutes=10.0)
    after(short, 1, 30.0)
    assert after(short, 2, 60.0) == pytest.approx(60.0)
    assert after(TimeLeft(None, max_minutes=1.0), 1, 90.0) == 0.0
    steps = TimeLeft(1000, max_env_steps=1000)
    after(steps, 1, 10.0, **{"rollout/env_steps": 100})
    assert after(steps, 2, 20.0, **{"rollout/env_steps": 300}) == pytest.approx(700 / 200 * 10)


def test_a_resumed_run_does_not_count_what_came_before():
    """time_s goes on counting from where the run stopped."""
    left = TimeLeft(60)
    after(left, 51, 5010.0, **{"time/rollout_s": 10.0})
    assert after(left, 52, 5020.0) == pytest.approx(8 * 10.0)


def test_nothing_is_said_where_nothing_is_known():
    assert TimeLeft(10).after({"iteration": 3}) is None
    assert after(TimeLeft(None), 1, 5.0) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3599, "60 min"), (89.4 * 60, "89 min"), (12000, "3 h 20 min"),
     (35.4 * 3600, "35 h 24 min"), (53 * 3600, "2 d 5 h")],
)  # fmt: skip
def test_durations_in_words(seconds, said):
    assert duration(seconds) == said


def test_the_line_of_an_iteration_ends_with_the_time_left():
    out = io.StringIO()
    with ProgressView(iterations=5, console=Console(file=out, width=200)) as view:
        view.update({"iteration": 1, "time_s": 70.0, "time/rollout_s": 50.0, "time/update_s": 10.0})
        view.say("saved [it]")
    first, second = out.getvalue().splitlines()
    assert first.endswith("left 4 min") and second == "saved [it]"
