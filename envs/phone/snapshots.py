"""A phone's whole state, taken and put back: the emulator's snapshots."""

from __future__ import annotations

import copy
from typing import Any

from envs.phone.phone import Phone

State = dict[str, Any]
_STORED = ("settings", "files", "attributes", "calls", "clipboard", "properties", "display", "location", "_clock")
_SHOWN = ("inputs", "popup", "panel", "call", "awake", "finger", "current", "_popup_plan", "_recent")
_OF_PHONE = (*_STORED, *_SHOWN)
_OF_APP = ("stack", "snack", "db", "prefs")


def take(phone: Phone) -> State:
    """Nothing that happens to the phone later changes what was taken."""
    state = {name: getattr(phone, name) for name in _OF_PHONE}
    apps = {package: {name: getattr(app, name) for name in _OF_APP} for package, app in phone.apps.items()}
    return copy.deepcopy(state | {"apps": apps})


def restore(phone: Phone, state: State) -> None:
    """May be done any number of times with one state. The phone counts as not rebooted."""
    state = copy.deepcopy(state)
    for name in _OF_PHONE:
        setattr(phone, name, state[name])
    for package, values in state["apps"].items():
        for name, value in values.items():
            setattr(phone.apps[package], name, value)
    phone.changed()
