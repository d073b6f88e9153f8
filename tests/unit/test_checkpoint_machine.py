"""A run's checkpoints under any sequence of saves, kills and damage: the newest whole one is always found."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mobilerl.config import AgentSection
from mobilerl.train import checkpoint
from mobilerl.train.checkpoint import SCHEMA, CheckpointError, latest, load_engine, read_state, save

STATE = {"elapsed_s": 1.5, "env_steps": 7, "sampler": {"seen": 3}, "rng": checkpoint.rng_to_json(random.Random(3))}


class Killed(BaseException):
    """Nothing catches it, as nothing catches a SIGKILL: what `save` would tidy up stays."""


class FileEngine:
    def __init__(self, version: int = 0, killed_after: int = 99) -> None:
        self.version, self.killed_after = version, killed_after

    def save(self, path: Path) -> None:
        for number, name in enumerate(("config.json", "model.safetensors", "trainer.pt")):
            if number == self.killed_after:
                raise Killed
            (path / name).write_bytes(b"%d" % self.version * 50)

    def load(self, path: Path) -> None:
        self.version = int((path / "trainer.pt").read_bytes()[: len((path / "trainer.pt").read_bytes()) // 50])


class CheckpointMachine(RuleBasedStateMachine):
    """`whole` are the iterations whose checkpoints can be resumed from, oldest first."""

    @initialize(keep=st.integers(1, 3))
    def start(self, keep):
        self.run = Path(tempfile.mkdtemp())
        self.keep, self.iteration = keep, 0
        self.whole: list[int] = []
        self.damaged: set[int] = set()

    def saved(self, **engine):
        self.iteration += 1
        return save(self.run, self.iteration, FileEngine(self.iteration, **engine), AgentSection(), None, None, STATE,
                    self.keep)  # fmt: skip

    @rule()
    def save_one(self):
        path = self.saved()
        assert path == latest(self.run)
        self.whole = [*self.whole, self.iteration][-self.keep :]
        self.damaged &= set(self.whole)

    @rule(after=st.integers(0, 2))
    def killed_in_the_middle(self, after):
        with pytest.raises(Killed):
            self.saved(killed_after=after)
        assert any(p.name.startswith(".iter-") for p in (self.run / "checkpoints").iterdir())

    @precondition(lambda self: self.whole and self.whole[-1] not in self.damaged)
    @rule(name=st.sampled_from(["config.json", "model.safetensors", "trainer.pt", "state.json", "agent.json"]),
          how=st.sampled_from(["cut", "gone", "schema"]))  # fmt: skip
    def damage_the_newest(self, name, how):
        path = latest(self.run) / name
        if how == "schema":
            path = latest(self.run) / "state.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "schema": SCHEMA + 1}))
        elif how == "cut":
            path.write_bytes(path.read_bytes()[:-1])
        elif name == "state.json":
            return  # without it the folder is none: another rule
        else:
            path.unlink()
        self.damaged.add(self.whole[-1])

    @precondition(lambda self: self.whole)
    @rule()
    def delete_the_newest(self):
        """As the message of a damaged one says."""
        shutil.rmtree(latest(self.run))
        self.damaged.discard(self.whole.pop())

    @invariant()
    def the_newest_is_found_and_is_whole_or_named(self):
        found = latest(self.run)
        assert (found.name if found else None) == (f"iter-{self.whole[-1]:06d}" if self.whole else None)
        if found is None:
            return
        if self.whole[-1] in self.damaged:
            with pytest.raises(CheckpointError, match=found.name):
                read_state(found)
            return
        engine = FileEngine()
        load_engine(found, engine)
        assert read_state(found)["iteration"] == engine.version == self.whole[-1]

    def teardown(self):
        if hasattr(self, "run"):
            shutil.rmtree(self.run)


TestCheckpoints = CheckpointMachine.TestCase
TestCheckpoints.settings = settings(max_examples=25, stateful_step_count=12)
