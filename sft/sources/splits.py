"""Which episodes are trained on and which are kept for testing, and the guard that no episode is in both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sft.sources.schema import SourceStep

SPLITS = ("train", "validation", "test")
BUCKETS = 1000


class Splits(Protocol):
    def of(self, key: str) -> str:
        """The split of an episode; "" when it is in none."""


@dataclass(frozen=True, slots=True)
class HashedSplits:
    """By a hash of the episode's key: the same on every machine, whatever order the episodes come in."""

    format: str
    test: float = 0.05
    """Share of the episodes kept for testing, in steps of a thousandth."""

    def of(self, key: str) -> str:
        digest = hashlib.sha256(f"{self.format}/{key}".encode()).digest()
        return "test" if int.from_bytes(digest[:8]) % BUCKETS < self.test * BUCKETS else "train"


@dataclass(frozen=True, slots=True)
class PublishedSplits:
    """As a data set's own split file says."""

    by_key: Mapping[str, str]

    def of(self, key: str) -> str:
        return self.by_key.get(key, "")


def read_splits(path: Path) -> PublishedSplits:
    """A file {"train": [ids], "validation": [ids], "test": [ids]}, as AndroidControl and Android in the Wild have.

    Raises ValueError when it is of another form, or lists an episode in two splits.
    """
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        raise ValueError(f"split file {path} cannot be read: {fault}") from None
    if not isinstance(listed, dict) or not set(listed) <= set(SPLITS) or "train" not in listed:
        raise ValueError(f"split file {path} must be an object with the lists {', '.join(SPLITS)}")
    by_key: dict[str, str] = {}
    for split, ids in listed.items():
        if not isinstance(ids, list) or not all(isinstance(i, int | str) for i in ids):
            raise ValueError(f"split file {path}: {split} must be a list of episode ids")
        for key in map(str, ids):
            if by_key.setdefault(key, split) != split:
                raise ValueError(f"leak: split file {path} has episode {key} in {by_key[key]} and in {split}")
    return PublishedSplits(by_key)


def check_same_splits(splits: Iterable[tuple[str, Splits]]) -> None:
    """Sources of one format must agree on every episode. Raises ValueError where one trains on what another tests."""
    first: dict[str, Splits] = {}
    for format, rule in splits:
        if first.setdefault(format, rule) != rule:
            raise ValueError(
                f"leak: two {format} sources are split by different rules, so that an episode could be trained on and "
                "tested with; give both the same split file"
            )


def check_no_leak(train: Iterable[SourceStep], test: Iterable[SourceStep]) -> None:
    """Raises ValueError when an episode of `test` is in `train`, whichever copy of the data set it came from."""
    trained = {_key(step) for step in train}
    for step in test:
        if _key(step) in trained:
            raise ValueError(f"leak: episode {step.episode} of {step.source} is in training and in the test")


def _key(step: SourceStep) -> str:
    return step.task.id
