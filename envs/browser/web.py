"""What pages may show, and on which screen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Web:
    """What pages may show, and on which screen. `sites` maps host names to folders, whose files are all that can be
    reached beside the HOST:PORT in `addresses`. Sizes are in CSS pixels, `scale` is that of screenshots. With
    `mobile`, pages choose their width as on a phone (`<meta name="viewport">`)."""

    width: int
    height: int
    scale: float = 1.0
    mobile: bool = True
    sites: Mapping[str, Path] = field(default_factory=dict)
    addresses: Collection[str] = ()
