"""Runs every fuzz target on FUZZ_EXAMPLES (default 200) from FUZZ_SEED (default 0). A failure is shrunk."""

from __future__ import annotations

import os
import time
from typing import Any

import agent_targets
import data_targets
import file_targets
import phone_targets
import pytest
import server_targets
from fuzzing import Target
from hypothesis import HealthCheck, Phase, given, seed, settings

MODULES = (agent_targets, file_targets, phone_targets, data_targets, server_targets)
SLOW_S = 5.0
"""Maximum processor time of one example; no valid input takes as long."""


@pytest.mark.parametrize("target", [t for m in MODULES for t in m.TARGETS], ids=lambda t: t.name.replace(" ", "-"))
def test_hostile_input_is_handled(target: Target):
    @seed(int(os.environ.get("FUZZ_SEED", "0")))
    @settings(
        max_examples=int(os.environ.get("FUZZ_EXAMPLES", "200")),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(target.examples)
    def attack(example: Any) -> None:
        start = time.process_time()
        target.check(example)
        assert time.process_time() - start < SLOW_S

    attack()
