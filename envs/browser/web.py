"""What pages may show, and on which screen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Web:
    """What pages may show, and on which screen. `sites` maps host names to folders, whose files are all that can be
    reached beside the HOST:PORT in `addresses`. The size is in density-independent pixels, each of which is `scale`
    pixels of a screenshot wide. `viewport` is what `<meta name="viewport">` says in pages that do not say it
    themselves."""

    width: int
    height: int
    scale: float = 1.0
    viewport: str = ""
    sites: Mapping[str, Path] = field(default_factory=dict)
    addresses: Collection[str] = ()
