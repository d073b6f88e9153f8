"""Several sources as one stream of samples: checked when opened, read lazily, mixed by weight.

Only the current episode and the shuffle buffers are held in memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from mobilerl.config.training import SourceSection
from mobilerl.policy.context import ContextPolicy
from mobilerl.sft.sources import aitw, androidcontrol, mobile3m, recordings, trajectories
from mobilerl.sft.sources.convert import Reader
from mobilerl.sft.sources.report import Counts, Report
from mobilerl.sft.sources.schema import SourceStep, expand

_FORMATS: tuple[Reader, ...] = (androidcontrol, aitw, mobile3m, trajectories, recordings)
READERS = {module.NAME: module for module in _FORMATS}

UNLISTED = "not in the split file"
SPLIT_FILE = "splits.json"
"""Name of a data set's split file, in the folder of its data."""
SPLITS = ("train", "validation", "test")
TEST_SHARE = 0.05
"""Fraction of the episodes that are reserved for testing by hash."""


def hashed_split(format: str, key: str) -> str:
    """The split of an episode if there is no split file: "train" or "test", the same on every machine."""
    digest = hashlib.sha256(f"{format}/{key}".encode()).digest()
    return "test" if int.from_bytes(digest[:8]) % 1000 < 1000 * TEST_SHARE else "train"


def read_splits(path: Path) -> dict[str, str]:
    """Reads {"train": [ids], "validation": [ids], "test": [ids]}, as published with data sets, as episode id -> split.

    Raises ValueError for another format, or if an episode is in two splits.
    """
    try:
        listed = json.loads(path.read_bytes())
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
    return by_key


class Source:
    """An opened source."""

    def __init__(self, settings: SourceSection) -> None:
        """Raises ValueError, naming the path, if there is nothing to read."""
        self.settings, self.name = settings, f"{settings.format}:{settings.path}"
        path = Path(settings.path)
        if not path.exists():
            raise ValueError(f"sft.sources: {path} does not exist")
        self.reader = READERS[settings.format]
        self.files = self.reader.files(path)
        split_file = (path if path.is_dir() else path.parent) / SPLIT_FILE
        self.splits = read_splits(split_file) if split_file.is_file() else None
        """Episode id -> split; None if splits are hashed."""

    def split_of(self, key: str, fixed: str, counts: Counts, split: str = "") -> str:
        """The split of an episode; "" if it is not in the split file. Counts it unless it is `split`, or that is ""."""
        listed = self.splits
        found = fixed or (hashed_split(self.settings.format, key) if listed is None else listed.get(key, ""))
        if not found:
            counts.rejected_episodes[UNLISTED] += 1
        elif split and found != split:
            counts.other_split += 1
        return found

    def steps(self, file: Path, split: str, context: ContextPolicy, counts: Counts) -> Iterator[SourceStep]:
        """The samples of one file that belong to `split`."""

        def wanted(key: str, fixed: str = "") -> bool:
            return self.split_of(key, fixed, counts, split) == split

        for demo in self.reader.read(file, wanted, counts):
            yield from expand(demo, context, counts)

    def check_usable(self, split: str, context: ContextPolicy) -> None:
        """Raises ValueError, with the reasons, if no sample of the split can be read."""
        counts = Counts()
        if any(True for file in self.files for _ in self.steps(file, split, context, counts)):
            return
        reasons = [*counts.faults, *counts.rejected_steps, *counts.rejected_episodes]
        empty = f"no episodes, and {counts.other_split} of other splits"
        raise ValueError(
            f"sft.sources: {self.name} has no sample of the split {split!r}: {'; '.join(reasons[:3]) or empty}"
        )


def open_sources(sections: Sequence[SourceSection], split: str, context: ContextPolicy) -> list[Source]:
    """Opens all sources. Raises ValueError if one has no sample of `split`, or if test episodes could leak."""
    sources = [Source(section) for section in sections]
    first: dict[str, dict[str, str] | None] = {}
    for source in sources:
        format = source.settings.format
        if first.setdefault(format, source.splits) != source.splits:
            raise ValueError(
                f"leak: two {format} sources have different splits, so that an episode could be in training and in the "
                f"test; give both the same {SPLIT_FILE}"
            )
    for source in sources:
        source.check_usable(split, context)
    return sources


def steps(
    sources: Sequence[Source],
    split: str,
    context: ContextPolicy,
    report: Report,
    seed: int = 0,
    buffer: int = 0,
    limits: Sequence[int | None] = (),
) -> Iterator[SourceStep]:
    """A stream of samples, drawn from the sources by weight. Its order depends only on the seed and the files.

    Each source is shuffled with a buffer of `buffer` samples (0: not shuffled). The stream ends when every source has
    been read completely or has given as many samples as it may; smaller ones are repeated until then. `limits` has
    the maximum of every source, None for all of its samples; by default that of its settings.
    """
    rng = random.Random(seed)

    def one_pass(source: Source, counts: Counts) -> Iterator[SourceStep]:
        files = list(source.files)
        if buffer:
            rng.shuffle(files)
        return _shuffle((step for file in files for step in source.steps(file, split, context, counts)), buffer, rng)

    passes = [one_pass(source, report.counts(source.name)) for source in sources]
    limits = limits or [source.settings.limit for source in sources]
    left = [math.inf if limit is None else limit for limit in limits]
    weights, unread = [source.settings.weight for source in sources], {i for i, number in enumerate(left) if number}
    while unread:
        (i,) = rng.choices(range(len(sources)), [w if number else 0.0 for w, number in zip(weights, left, strict=True)])
        step = next(passes[i], None)
        if step is not None:
            left[i] -= 1
            yield step
        else:
            passes[i] = one_pass(sources[i], Counts())
        if step is None or not left[i]:
            unread.discard(i)


def _shuffle(steps: Iterator[SourceStep], buffer: int, rng: random.Random) -> Iterator[SourceStep]:
    held: list[SourceStep] = []
    for step in steps:
        if len(held) < buffer:
            held.append(step)
        elif buffer:
            i = rng.randrange(buffer)
            held[i], step = step, held[i]
            yield step
        else:
            yield step
    rng.shuffle(held)
    yield from held
