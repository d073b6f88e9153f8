"""Distributes the samples of an optimizer step over processes. Does not import verl."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mobilerl.engines.scoring import micro_batches
from mobilerl.records import TrainingSample
from mobilerl.records.engine import EngineError


@dataclass(frozen=True, slots=True)
class Shard:
    """The samples of one process, in micro-batches.

    Sharded weights are gathered in every forward pass, so all processes need the same number of passes: `parts` beyond
    the first `counted` repeat a sample and are ignored.
    """

    index: list[int]
    """Indices into the samples of the whole step."""
    parts: list[list[int]]
    """Micro-batches, as positions in `index`."""
    counted: int


def shards(rows: Sequence[TrainingSample], processes: int, tokens: int) -> list[Shard]:
    """Puts every sample in exactly one counted part; parts have at most `tokens` padded tokens.

    Raises ValueError without samples, and EngineError if only some samples have images: a process without images in its
    micro-batch skips the sharded vision tower, and the others would wait for it forever.
    """
    if not rows:
        raise ValueError("an optimizer step needs at least one row")
    if len({bool(row.images) for row in rows}) > 1:
        raise EngineError(
            'engine.type = "verl" cannot learn from prompts with and without screenshots in one step: set '
            "agent.screenshots to 1 or more for all of them, or to 0"
        )
    longest_first = sorted(range(len(rows)), key=lambda i: -(len(rows[i].prompt_ids) + len(rows[i].response_ids)))
    # Back and forth, so that no process gets the longer sample in every round.
    dealt: list[list[int]] = [[] for _ in range(processes)]
    for turn, i in enumerate(longest_first):
        lap, place = divmod(turn, processes)
        dealt[place if lap % 2 == 0 else processes - 1 - place].append(i)
    parts = [list(micro_batches([rows[i] for i in mine], tokens)) for mine in dealt]
    most = max(map(len, parts))
    shortest = longest_first[-1]
    result = []
    for mine, own in zip(dealt, parts, strict=True):
        idle = most - len(own)
        index = mine + [shortest] if idle else mine
        result.append(Shard(index, own + [[len(index) - 1]] * idle, len(own)))
    return result
