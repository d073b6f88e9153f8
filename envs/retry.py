"""Retries for work that may be repeated: reading from a device, or anything that starts from a known state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from mobilerl.envs.base import InfraError

T = TypeVar("T")
PAUSES_S = (0.1, 1.0)
"""Pauses before the second and third try: a dropped connection is back at once, a rebooting phone after a while."""


class Lasting(InfraError):
    """A failure that would be the same a moment later."""


def retry(work: Callable[[], T], pauses_s: tuple[float, ...] = PAUSES_S) -> T:
    """Returns what `work` returns. Retries on InfraError after each pause, except on `Lasting`; the error of the last
    try is raised."""
    for pause in pauses_s:
        try:
            return work()
        except Lasting:
            raise
        except InfraError:
            time.sleep(pause)
    return work()
