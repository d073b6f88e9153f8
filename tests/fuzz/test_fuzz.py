"""Runs every fuzz target for FUZZ_SECONDS (default 1) from FUZZ_SEED (default 0)."""

from __future__ import annotations

import os

import agent_targets
import data_targets
import file_targets
import phone_targets
import pytest
import server_targets
from fuzzing import Target, run_for
from hypothesis import strategies as st

MODULES = (agent_targets, file_targets, phone_targets, data_targets, server_targets)


@pytest.mark.parametrize("target", [t for m in MODULES for t in m.TARGETS], ids=lambda t: t.name.replace(" ", "-"))
def test_hostile_input_is_handled(target: Target):
    seconds, seed = float(os.environ.get("FUZZ_SECONDS", "1")), int(os.environ.get("FUZZ_SEED", "0"))
    assert run_for(target, seconds, seed) >= 20


def test_a_failure_is_found():
    def check(text: str) -> None:
        assert "b" not in text, f"found {text!r}"

    with pytest.raises(AssertionError, match="found 'b'"):
        run_for(Target("planted", st.text("ab", max_size=50), check), 5.0, 7)
