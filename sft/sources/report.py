"""Statistics of the episodes, steps and files of every source."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field


class Reject(Exception):
    """An unusable episode or step. The message is the reason for the statistics, without ids or numbers."""


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
    """Information that is missing from steps that are used nevertheless."""
    faults: list[str] = field(default_factory=list)
    """Faults at which reading a file stopped early."""


class Report:
    """Counts by source for the first pass over each. Repeated passes are not counted."""

    def __init__(self) -> None:
        self.sources: dict[str, Counts] = {}

    def counts(self, source: str) -> Counts:
        return self.sources.setdefault(source, Counts())

    def to_json(self) -> str:
        return json.dumps({name: asdict(counts) for name, counts in self.sources.items()}, indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {c.steps} steps of {c.episodes} episodes kept; {c.rejected_steps.total()} steps and "
            f"{c.rejected_episodes.total()} episodes rejected; {len(c.faults)} faults"
            + (f", the first: {c.faults[0]}" if c.faults else "")
            for name, c in self.sources.items()
        )
