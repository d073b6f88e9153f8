"""Several sources as one stream of samples: opened and checked at once, read lazily, mixed by weight.

Nothing is held in memory but the episode at hand and the shuffle buffer, however large the sources are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Features, IterableDataset, Value, interleave_datasets

from mobilerl.agent.context import ContextPolicy
from sft.sources import aitw, androidcontrol, mobile3m, trajectories
from sft.sources.convert import Reader
from sft.sources.report import Counts, Report
from sft.sources.schema import Demonstration, SourceStep, expand, row_of, step_of
from sft.sources.splits import SPLITS, HashedSplits, Splits, check_same_splits, read_splits

READERS: dict[str, Reader] = {module.NAME: module for module in (androidcontrol, aitw, mobile3m, trajectories)}

_SEEN = {"screenshot": Value("binary"), "width": Value("int32"), "height": Value("int32"), "app": Value("string")}
_TURN = _SEEN | {"step": Value("int32")}
_TURN |= {name: Value("string") for name in ("response", "thought", "action", "summary", "note")}
ROWS = Features(
    {name: Value("string") for name in ("source", "episode", "split", "level", "task", "xml", "action")}
    | {"index": Value("int32"), "listed": Value("bool"), **_SEEN, "turns": [_TURN]}
)
"""The columns of the stream; docs/data.md describes them."""


TRIED = 200
"""Rejected episodes after which a source must have shown something that can be used."""
PASSED_OVER = 10_000
"""Episodes of other splits, in no split, and of failures, after which it must have: any number of these may come first,
but a split file of another data set would have all of them read."""
UNLISTED = "not in the split file"


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source of a mixture. Raises ValueError for settings that cannot be."""

    format: str
    path: str
    weight: float = 1.0
    """Its share of the samples, relative to the other weights."""
    splits: str = ""
    """The data set's split file; empty: `splits.json` beside the data if there is one, else a hash of the episode."""
    low_level: bool = True
    """Whether instructions for single steps, where the source has them, are samples too."""

    def __post_init__(self) -> None:
        if self.format not in READERS:
            raise ValueError(f"sft.sources: unknown format {self.format!r}; choose one of {', '.join(READERS)}")
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise ValueError(f"sft.sources: the weight of {self.path} is {self.weight}; it must be above 0")

    @property
    def name(self) -> str:
        return f"{self.format}:{self.path}"


class _Enough(Exception):
    """Of a look at the first episodes of a source."""


class _Look(Counts):
    """Counts that end such a look."""

    def pass_over(self) -> None:
        super().pass_over()
        self._check()

    def reject_episode(self, reason: str) -> None:
        super().reject_episode(reason)
        self._check()

    def _check(self) -> None:
        rejected = self.rejected_episodes
        passed = rejected[UNLISTED] + rejected[trajectories.UNSUCCESSFUL]
        if rejected.total() - passed >= TRIED or self.other_split + passed >= PASSED_OVER:
            raise _Enough


class Source:
    """A source that has been opened: its files are known, and one of them can be read."""

    def __init__(self, spec: SourceSpec) -> None:
        """Raises ValueError, naming the path, when there is nothing to read."""
        self.spec = spec
        path = Path(spec.path)
        if not path.exists():
            raise ValueError(f"sft.sources: {path} does not exist")
        self.reader = READERS[spec.format]
        self.files = self.reader.files(path)
        self.splits = self._splits(path)
        self._check_any()

    def _splits(self, path: Path) -> Splits:
        beside = (path if path.is_dir() else path.parent) / "splits.json"
        if self.spec.splits:
            return read_splits(Path(self.spec.splits))
        return read_splits(beside) if beside.is_file() else HashedSplits(self.spec.format)

    def _check_any(self) -> None:
        """One file that can be read is enough; when none can, the first file's fault is told."""
        faults = []
        for file in self.files:
            try:
                return self.reader.check(file)
            except ValueError as fault:
                faults.append(fault)
        raise ValueError(f"sft.sources: nothing in {self.spec.path} can be read: {faults[0]}")

    def demonstrations(self, file: Path, split: str, counts: Counts) -> Iterator[Demonstration]:
        """The episodes of one file that are in `split`."""

        def wanted(key: str, fixed: str = "") -> bool:
            found = fixed or self.splits.of(key)
            if not found:
                counts.reject_episode(UNLISTED)
            elif found != split:
                counts.pass_over()
            return found == split

        return iter(self.reader.read(file, wanted, counts))

    def steps(self, file: Path, split: str, context: ContextPolicy, counts: Counts) -> Iterator[SourceStep]:
        """The samples of one file that are in `split`."""
        for demo in self.demonstrations(file, split, counts):
            yield from expand(demo, self.spec.name, split, context, self.spec.low_level, counts)

    def check_usable(self, split: str, context: ContextPolicy) -> None:
        """Raises ValueError, with the reasons, when the first episodes of a split give not a single sample."""
        if split == "validation" and isinstance(self.splits, HashedSplits):
            cure = "name a split file, or read the split train or test"
            raise ValueError(f"sft.sources: {self.spec.name} is split by a hash, which gives no validation; {cure}")
        counts = _Look()
        try:
            if any(True for file in self.files for _ in self.steps(file, split, context, counts)):
                return
        except _Enough:
            pass
        reasons = [*counts.rejected_steps, *counts.rejected_episodes, *counts.faults]
        empty = f" (it has no episode there, and {counts.other_split} of other splits)"
        told = f": {'; '.join(reasons[:3])}" if reasons else empty
        raise ValueError(f"sft.sources: {self.spec.name} gives no sample of the split {split!r}{told}")


def open_sources(specs: Sequence[SourceSpec]) -> list[Source]:
    """Opens all sources. Raises ValueError for what cannot be read, and for a leak between train and test."""
    if not specs:
        raise ValueError("sft.sources: there are no sources")
    sources = [Source(spec) for spec in specs]
    check_same_splits((s.spec.format, s.splits) for s in sources)
    return sources


def _maker(source: Source, split: str, context: ContextPolicy, report: Report) -> Callable[..., Iterator[dict]]:
    """What `datasets` calls for the rows of some files. A file that is read again is not counted again.

    A function, because `datasets` copies objects, and the counts would go to the copy.
    """
    counted: set[str] = set()

    def make(files: list[str]) -> Iterator[dict[str, Any]]:
        for file in files:
            counts = Counts() if file in counted else report.counts(source.spec.name)
            counted.add(file)
            for step in source.steps(Path(file), split, context, counts):
                yield row_of(step)

    return make


def rows(sources: Sequence[Source], split: str, context: ContextPolicy, report: Report, seed: int = 0,
         buffer: int = 0) -> IterableDataset:  # fmt: skip
    """The mixed stream of rows. Each source is shuffled among `buffer` rows (0: not at all); the seed decides it all.

    The stream ends when every source has been read to its end once; smaller ones are repeated until then.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}; choose one of {', '.join(SPLITS)}")
    streams = []
    for source in sources:
        source.check_usable(split, context)
        made = _maker(source, split, context, report)
        files = {"files": [str(file) for file in source.files]}
        stream = IterableDataset.from_generator(made, features=ROWS, gen_kwargs=files)
        streams.append(stream.shuffle(seed=seed, buffer_size=buffer) if buffer else stream)
    if len(streams) == 1:
        return streams[0]
    total = sum(source.spec.weight for source in sources)
    shares = [source.spec.weight / total for source in sources]
    return interleave_datasets(streams, shares, seed=seed, stopping_strategy="all_exhausted")


def steps(sources: Sequence[Source], split: str, context: ContextPolicy, report: Report, seed: int = 0,
          buffer: int = 0) -> Iterator[SourceStep]:  # fmt: skip
    """The mixed stream as samples for `sft.samples.encode`."""
    for row in rows(sources, split, context, report, seed, buffer):
        yield step_of(row)
