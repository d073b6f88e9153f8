"""Whether an evaluation may go on: what is on disk must have been played by the protocol of now."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mobilerl.config import ConfigError

LONGEST_QUOTE = 60


def check_protocol(before: Mapping[str, Any], now: Mapping[str, Any], not_compared: Collection[str],
                   path: Path) -> None:  # fmt: skip
    """Raises ConfigError for the first part of `now` that `before`, the protocol in the file `path`, has otherwise.

    Parts named in `not_compared` may differ; those that `before` alone has are not looked at.
    """
    for name, value in now.items():
        if name not in not_compared and before.get(name) != value:
            raise ConfigError(f"{path} was played with {name} = {_short(before.get(name))} and not {_short(value)}; "
                              "choose another --out, or go on with the settings of that one")  # fmt: skip


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."
