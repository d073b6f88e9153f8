"""Every fuzz target for some seconds: FUZZ_SECONDS each (default 1). `python -m benchmarks.fuzz` runs them for long."""

from __future__ import annotations

import os

import pytest
from all_targets import TARGETS
from fuzzing import Target, TooSlow, run_for
from hypothesis import strategies as st

SECONDS = float(os.environ.get("FUZZ_SECONDS", "1"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name.replace(" ", "-"))
def test_nothing_hostile_gets_through(target: Target):
    """The same examples first in every run, others with FUZZ_SEED; what crashed says the chunk, which `--seed` of the
    runner repeats."""
    outcome = run_for(target, SECONDS, int(os.environ.get("FUZZ_SEED", "0")))
    assert not outcome.crash, outcome.crash
    assert outcome.examples >= 20


def test_names_differ():
    assert len({t.name for t in TARGETS}) == len(TARGETS)


def test_a_crash_is_found_made_small_and_can_be_had_again():
    def check(text: str) -> None:
        assert "b" not in text

    target = Target("planted", st.text("ab", max_size=50), check)
    outcome = run_for(target, 5.0, 7)
    assert "example='b'" in outcome.crash and isinstance(outcome.error, AssertionError)
    assert run_for(target, 5.0, 7).examples == outcome.examples


def test_what_works_too_long_is_a_crash(monkeypatch):
    monkeypatch.setattr("fuzzing.SLOW_S", 0.05)

    def check(size: int) -> None:
        sum(range(size))

    outcome = run_for(Target("planted", st.just(10**7), check), 5.0, 1)
    assert isinstance(outcome.error, TooSlow)


def test_what_waits_for_ever_is_interrupted(monkeypatch):
    monkeypatch.setattr("fuzzing.HANG_S", 0.2)
    import threading

    outcome = run_for(Target("planted", st.none(), lambda _: threading.Event().wait()), 5.0, 1)
    assert isinstance(outcome.error, TooSlow)
