"""An evaluation's journal, killed at any byte and gone on with: what ended is kept, what was set up is known."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mobilerl.config import ConfigError
from mobilerl.eval.journal import Journal, read_journal

PROTOCOL = {"seed": 30, "prompt_hash": "a"}
SERVERS = st.sampled_from(["one:1", "two:2"])


class JournalMachine(RuleBasedStateMachine):
    """The model is the list of lines that were written whole."""

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "episodes.jsonl"
        self.lines: list[tuple] = []
        self.ends: list[int] = []
        self.number = 0
        self.journal: Journal | None = None
        self.open()

    def open(self):
        self.journal = Journal(read_journal(self.path.parent))
        self.journal.begin("androidworld", PROTOCOL, 9)
        if not self.lines:
            self.note(("head",))

    def note(self, line):
        self.lines.append(line)
        self.ends.append(self.path.stat().st_size)

    @precondition(lambda self: self.journal is not None)
    @rule(server=SERVERS, index=st.integers(0, 3))
    def begin(self, server, index):
        self.journal.start(server, "T", index)
        self.note(("start", server, ("T", index)))

    @precondition(lambda self: self.journal is not None)
    @rule(server=SERVERS, task=st.sampled_from("ab"), trial=st.integers(0, 1), text=st.text(max_size=4))
    def end(self, server, task, trial, text):
        self.number += 1
        record = {"server": server, "task_id": task, "trial": trial, "number": self.number, "text": text}
        self.journal.end(record)
        self.note(("end", server, record))

    @precondition(lambda self: self.journal is not None)
    @rule()
    def nobody_else_may_write(self):
        with pytest.raises(ConfigError, match="written by another evaluation"):
            Journal(read_journal(self.path.parent))

    @precondition(lambda self: self.journal is not None)
    @rule(lost=st.integers(0, 200))
    def killed_and_gone_on_with(self, lost):
        """A power cut takes the last bytes; whole lines before them stay."""
        self.journal.__exit__()
        size = max(0, self.path.stat().st_size - lost)
        with open(self.path, "rb+") as f:
            f.truncate(size)
        whole = sum(end <= size for end in self.ends)
        self.lines, self.ends = self.lines[:whole], self.ends[:whole]
        self.open()

    @invariant()
    def what_was_written_is_read(self):
        past = read_journal(self.path.parent)
        episodes, leftovers = {}, {}
        for kind, *rest in self.lines:
            if kind == "start":
                leftovers[rest[0]] = rest[1]
            elif kind == "end":
                leftovers.pop(rest[0], None)
                episodes[rest[1]["task_id"], rest[1]["trial"]] = rest[1]
        assert (
            (past.protocol, past.total) == (PROTOCOL, 9) and past.episodes == episodes and past.leftovers == leftovers
        )

    def teardown(self):
        if getattr(self, "journal", None) is not None:
            self.journal.__exit__()
            self.folder.cleanup()


TestJournal = JournalMachine.TestCase
TestJournal.settings = settings(max_examples=25, stateful_step_count=15)
