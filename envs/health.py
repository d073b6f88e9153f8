"""Whether a phone is fit for an episode."""

from __future__ import annotations

import re

from envs.base import Health, InfraError
from envs.device import Device

MIN_FREE_KB = 64 << 10
EARLIEST = 1_577_836_800
"""2020-01-01: a clock before it was never set."""
_FOCUS = re.compile(r"mCurrentFocus=(.*)")


def examine(device: Device) -> Health:
    """Boot completed, clock set, room on the disk, a screen that shows something, and a home screen that comes up.

    Takes about six commands; leaves the phone at its home screen.
    """
    try:
        return Health(True) if not (reason := _complaint(device)) else Health(False, reason)
    except InfraError as error:
        return Health(False, str(error))


def _complaint(device: Device) -> str:
    def says(*words: str) -> str:
        return device.look(*words).strip()

    if says("getprop", "sys.boot_completed") != "1":
        return "the boot has not completed"
    clock = says("date", "+%s")
    if not clock.isdecimal() or int(clock) < EARLIEST:
        return f"the clock says {clock!r}"
    if (free := _free_kb(says("df", "-k", "/data"))) is not None and free < MIN_FREE_KB:
        return f"only {free} KB are free on /data; a fresh device has more"
    device.home()
    focus = _FOCUS.search(device.look("dumpsys", "window"))
    if focus is None or focus[1] == "null" or "Not Responding" in focus[1]:
        return f"the home screen does not come up (focus: {focus[1] if focus else 'none'})"
    device.screenshot()  # raises for a black one
    return ""


def _free_kb(df: str) -> int | None:
    """The column "Available" of the last line; None when `df` says something else."""
    words = df.splitlines()[-1].split() if df else []
    return int(words[3]) if len(words) >= 6 and words[3].isdecimal() else None
