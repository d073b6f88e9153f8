"""Reasoning is proposed for recorded steps by a slow server; the process that asks is killed, and started again."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from proposing import KEPT, SlowServer, text_of

from mobilerl.sft.proposal_log import log_of

pytestmark = pytest.mark.slow
STEPS, CANDIDATES, IN_FLIGHT, DELAY_S, LIMIT_S = 1000, 2, 32, 0.02, 900
KILLED_AT = (500, 1300)
"""Requests after which the process is killed."""


def questions(server: SlowServer) -> list[str]:
    """The steps that were asked about, in order; without a request that a kill cut off."""
    texts = ("".join(map(text_of, request["messages"])) for request in list(server.asked) if request)
    return [text.partition("Save note ")[2].partition(".")[0] for text in texts if "Save note " in text]


def test_a_process_that_is_killed_loses_no_proposal_and_asks_only_for_those_that_are_missing(tmp_path: Path) -> None:
    server = SlowServer(DELAY_S)
    words = ["--url", server.url, "--run-dir", tmp_path, "--steps", STEPS, "--candidates", CANDIDATES]
    command = [sys.executable, Path(__file__).with_name("proposing.py"), *words, "--concurrency", IN_FLIGHT]
    log, until, parts = log_of(tmp_path, "stage2-round1"), time.monotonic() + LIMIT_S, []
    for killed_at in (*KILLED_AT, None):
        child = subprocess.Popen([*map(str, command), "--size", "108", "240"])
        while child.poll() is None:
            assert time.monotonic() < until
            if killed_at and len(server.asked) >= killed_at:
                child.kill()
            time.sleep(0.002)
        assert child.wait() == (-9 if killed_at else 0)
        parts.append(log.read_bytes())
    server.stop()

    for part in parts:
        assert parts[-1].startswith(part[: part.rfind(b"\n") + 1]), "a line that was written is lost or changed"
    assert parts[0].count(b"\n") < parts[1].count(b"\n") < parts[2].count(b"\n")
    lines = [json.loads(line) for line in parts[-1].splitlines()]
    assert len(lines) == len({(line["step"], line["candidate"]) for line in lines}) == STEPS * CANDIDATES
    assert {line["task"] for line in lines} == {f"made/{i}" for i in range(STEPS)}
    asked = Counter(questions(server))
    assert len(asked) == STEPS and min(asked.values()) >= CANDIDATES
    assert asked.total() <= STEPS * CANDIDATES + IN_FLIGHT * len(KILLED_AT), "only what was in flight is asked again"
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept == [f"save note {i}" for i in range(STEPS) if i % KEPT], "not as if the process had not been killed"
