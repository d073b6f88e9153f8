"""Phone calls: at most one at a time, without a voice, and the log of those that were."""

from __future__ import annotations

from typing import Any

from mobilerl.envs.phone.app import Host, Page
from mobilerl.envs.phone.system import Call, System

IDLE, RINGING, OFFHOOK = 0, 1, 2
"""Android's call states."""
INCOMING, OUTGOING, MISSED = 1, 2, 3
"""Values of the call log's `type`."""
CALL = "call"
"""Name of the panel that shows a call."""


def state(phone: System) -> int:
    return phone.call.state if phone.call is not None else IDLE


def ring(phone: Host, number: str) -> None:
    """Somebody calls. While there is a call they hear that the line is busy."""
    if phone.call is None:
        phone.call = Call(number, RINGING, outgoing=False)
        phone.show_panel(Page(CALL))


def dial(phone: Host, number: str) -> None:
    if phone.call is None:
        phone.call = Call(number, OFFHOOK, outgoing=True)
        phone.show_panel(Page(CALL))


def answer(phone: Host) -> None:
    if phone.call is not None:
        phone.call.state = OFFHOOK
        phone.invalidate()


def hang_up(phone: Host) -> None:
    """Ends or declines the call, and writes it into the log."""
    call, phone.call = phone.call, None
    if call is None:
        return
    kind = OUTGOING if call.outgoing else INCOMING if call.state == OFFHOOK else MISSED
    row: dict[str, Any] = {
        "_id": 1 + max((r["_id"] for r in phone.calls), default=0),
        "number": call.number,
        "type": kind,
        "date": phone.unix_ms,
        "duration": 0,
        "name": None,
        "new": 1,
    }
    phone.calls.append(row)
    phone.close_panel(CALL)
