"""What became of the episodes, steps and files of every source."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

FAULTS_TOLD = 5
MOST_REASONS = 100
"""Different reasons of one kind: a reason may quote what a damaged file says."""


class Reject(Exception):
    """An episode or a step that cannot be used. The message is the reason it is counted under: no ids, no numbers."""


@dataclass(slots=True)
class Counts:
    """Of one source and one split. `seen = kept + rejected` for episodes; `steps` are training samples."""

    episodes: int = 0
    """Episodes with at least one step kept."""
    other_split: int = 0
    """Episodes left to the other splits. They are not converted, so nothing else is known of them."""
    rejected_episodes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    rejected_steps: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    """What steps lack that were converted all the same."""
    files: int = 0
    """Files read to their end."""
    faulty_files: int = 0
    faults: list[str] = field(default_factory=list)
    """The first few faults of files, in words."""

    def pass_over(self) -> None:
        self.other_split += 1

    def note_step(self, what: str) -> None:
        _add(self.notes, what, 1)

    def reject_steps(self, reason: str, number: int = 1) -> None:
        _add(self.rejected_steps, reason, number)

    def reject_episode(self, reason: str) -> None:
        _add(self.rejected_episodes, reason, 1)

    def file_fault(self, fault: object) -> None:
        self.faulty_files += 1
        if len(self.faults) < FAULTS_TOLD:
            self.faults.append(str(fault))

    def as_dict(self) -> dict[str, Any]:
        return {
            "episodes": {
                "kept": self.episodes,
                "other_split": self.other_split,
                "rejected": sum(self.rejected_episodes.values()),
                "reasons": dict(self.rejected_episodes.most_common()),
            },
            "steps": {
                "kept": self.steps,
                "rejected": sum(self.rejected_steps.values()),
                "reasons": dict(self.rejected_steps.most_common()),
                "notes": dict(self.notes.most_common()),
            },
            "files": {"read": self.files, "faulty": self.faulty_files, "faults": list(self.faults)},
        }


def _add(reasons: Counter[str], reason: str, number: int) -> None:
    known = reason in reasons or len(reasons) < MOST_REASONS
    reasons[reason if known else "other reasons"] += number


class Report:
    """Counts by source. Each source's first pass counts; when mixing repeats a source, it is not counted again."""

    def __init__(self) -> None:
        self.sources: dict[str, Counts] = {}

    def counts(self, source: str) -> Counts:
        return self.sources.setdefault(source, Counts())

    def as_dict(self) -> dict[str, Any]:
        return {name: counts.as_dict() for name, counts in self.sources.items()}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        lines = []
        for name, counts in self.sources.items():
            told = counts.as_dict()
            episodes, steps, files = told["episodes"], told["steps"], told["files"]
            lines.append(
                f"{name}: {steps['kept']} steps of {episodes['kept']} episodes kept; {steps['rejected']} steps and "
                f"{episodes['rejected']} episodes rejected; {episodes['other_split']} episodes of other splits; "
                f"{files['read']} files read, {files['faulty']} with a fault"
            )
            for kind, part in (("episodes", episodes), ("steps", steps)):
                lines += [f"  {count} {kind}: {reason}" for reason, count in part["reasons"].items()]
            lines += [f"  {count} steps, used all the same: {what}" for what, count in steps["notes"].items()]
            lines += [f"  {fault}" for fault in files["faults"]]
        return "\n".join(lines)
