"""Converts a source to the format of one's own recordings (`recordings`), with the split of every episode."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from mobilerl.config.training import SourceSection
from mobilerl.sft.sources.recordings import write
from mobilerl.sft.sources.report import Counts, Report
from mobilerl.sft.sources.schema import Demonstration
from mobilerl.sft.sources.stream import Source
from mobilerl.system.atomic_files import put_folder
from mobilerl.system.terminal import progress_bar


def convert(section: SourceSection, out: Path, split: str = "") -> Report:
    """Writes the episodes of a source, or those of one split, to the new folder `out`, which is complete or absent.

    Raises ValueError if `out` exists, or if there is nothing to convert.
    """
    if out.exists():
        raise ValueError(f"{out} exists: name a new folder")
    source, report = Source(section), Report()
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    counts = report.counts(source.name)
    write(_episodes(source, split, counts), temporary)
    if not counts.episodes:
        reasons = [*counts.faults, *counts.rejected_steps, *counts.rejected_episodes]
        shutil.rmtree(temporary)
        raise ValueError(f"{source.name} has no episode to convert: {'; '.join(reasons[:3]) or 'it is empty'}")
    put_folder(temporary, out)
    return report


def _episodes(source: Source, split: str, counts: Counts) -> Iterator[tuple[Demonstration, str]]:
    """The episodes with their splits, counted. Recordings have no sample for episodes without a step."""
    found = ""

    def wanted(key: str, fixed: str = "") -> bool:
        nonlocal found
        found = source.split_of(key, fixed, counts, split)
        return found == split if split else bool(found)

    with progress_bar("files") as show:
        for number, file in enumerate(source.files, start=1):
            for demo in source.reader.read(file, wanted, counts):
                counts.episodes += 1
                counts.steps += len(demo.steps)
                if demo.fault:
                    counts.rejected_steps[demo.fault] += 1 + demo.lost
                yield demo, found
            show(number, len(source.files))
