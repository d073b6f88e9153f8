"""Statistics of the episodes, steps and files of every source."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

MAX_FAULTS = 5
MAX_REASONS = 100
"""Distinct reasons of one kind: a reason may quote a damaged file."""


class Reject(Exception):
    """An unusable episode or step. The message is the reason it is counted under, without ids or numbers."""


@dataclass(slots=True)
class Counts:
    """Statistics of one source and one split; `steps` are training samples."""

    episodes: int = 0
    """Episodes with at least one step kept."""
    other_split: int = 0
    """Episodes of other splits, which are not converted."""
    rejected_episodes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    rejected_steps: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    """Information missing from steps that are used nevertheless."""
    files: int = 0
    """Files read to their end."""
    faulty_files: int = 0
    faults: list[str] = field(default_factory=list)
    """The first few faults of files."""

    def note_step(self, note: str) -> None:
        _add(self.notes, note, 1)

    def reject_steps(self, reason: str, number: int = 1) -> None:
        _add(self.rejected_steps, reason, number)

    def reject_episode(self, reason: str) -> None:
        _add(self.rejected_episodes, reason, 1)

    def file_fault(self, fault: object) -> None:
        self.faulty_files += 1
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(str(fault))

    def as_dict(self) -> dict[str, Any]:
        return {
            "episodes": {
                "kept": self.episodes,
                "other_split": self.other_split,
                "rejected": self.rejected_episodes.total(),
                "reasons": dict(self.rejected_episodes.most_common()),
            },
            "steps": {
                "kept": self.steps,
                "rejected": self.rejected_steps.total(),
                "reasons": dict(self.rejected_steps.most_common()),
                "notes": dict(self.notes.most_common()),
            },
            "files": {"read": self.files, "faulty": self.faulty_files, "faults": list(self.faults)},
        }


def _add(reasons: Counter[str], reason: str, number: int) -> None:
    known = reason in reasons or len(reasons) < MAX_REASONS
    reasons[reason if known else "other reasons"] += number


class Report:
    """Counts by source, of the first pass over each; repeated passes are not counted."""

    def __init__(self) -> None:
        self.sources: dict[str, Counts] = {}

    def counts(self, source: str) -> Counts:
        return self.sources.setdefault(source, Counts())

    def to_json(self) -> str:
        sources = {name: counts.as_dict() for name, counts in self.sources.items()}
        return json.dumps(sources, indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        lines = []
        for name, c in self.sources.items():
            lines.append(
                f"{name}: {c.steps} steps of {c.episodes} episodes kept; {c.rejected_steps.total()} steps and "
                f"{c.rejected_episodes.total()} episodes rejected; {c.other_split} episodes of other splits; "
                f"{c.files} files read, {c.faulty_files} with a fault"
            )
            reasons = {"episodes": c.rejected_episodes, "steps": c.rejected_steps, "steps, used nevertheless": c.notes}
            for kind, counter in reasons.items():
                lines += [f"  {count} {kind}: {reason}" for reason, count in counter.most_common()]
            lines += [f"  {fault}" for fault in c.faults]
        return "\n".join(lines)
