"""How a device is brought back to a page: by a snapshot, or by playing the way there again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from envs.base import Home, InfraError, Launch
from envs.device import Device
from envs.phone import snapshots
from envs.phone.phone import Phone
from sft.pages.actions import PageAction, device_actions

HOME_APP = "Home"
"""Stands for the launcher among the names of apps."""


class States(Protocol):
    """Every method may raise InfraError, and may then be called again."""

    exact: bool
    """Whether `load` gives just the state that was saved."""

    def start(self, app: str) -> None:
        """A fresh device with the app at its home page."""

    def save(self, app: str, path: tuple[PageAction, ...]) -> Any:
        """A token for the device's present state, which `path` led to from the app's home."""

    def load(self, saved: Any) -> None: ...


def open_app(device: Device, app: str) -> None:
    """Raises InfraError when there is no such app."""
    if reason := device.act(Home() if app == HOME_APP else Launch(app)):
        raise InfraError(reason)


class Snapshots:
    """States of an embedded phone of this process: taken and put back at once.

    `seed` says what the phone holds, and `fill` changes that: a page that no contents lead to cannot be found.
    """

    exact = True

    def __init__(self, phone: Phone, device: Device, seed: int, fill: Callable[[], None] | None = None) -> None:
        self._phone, self._device, self._seed, self._fill = phone, device, seed, fill

    def start(self, app: str) -> None:
        self._phone.reset(self._seed)
        if self._fill is not None:
            self._fill()
        open_app(self._device, app)

    def save(self, app: str, path: tuple[PageAction, ...]) -> snapshots.State:
        return snapshots.take(self._phone)

    def load(self, saved: snapshots.State) -> None:
        snapshots.restore(self._phone, saved)


class Replay:
    """States of any device: the app is started anew and the actions are played again.

    `fresh` brings the device into its first state, e.g. by loading an emulator's snapshot. Without it the app is
    stopped and its data are kept, so that what exploring changes (a deleted note) stays changed. `settle_s` seconds
    pass after every action.
    """

    exact = False

    def __init__(self, device: Device, packages: Mapping[str, str], fresh: Callable[[], None] | None = None,
                 settle_s: float = 0.0) -> None:  # fmt: skip
        self._device, self._packages, self._fresh, self._settle_s = device, dict(packages), fresh, settle_s

    def start(self, app: str) -> None:
        if self._fresh is not None:
            self._fresh()
        elif app in self._packages:
            self._device.look("am", "force-stop", self._packages[app])
        open_app(self._device, app)
        time.sleep(self._settle_s)

    def save(self, app: str, path: tuple[PageAction, ...]) -> tuple[str, tuple[PageAction, ...]]:
        return app, path

    def load(self, saved: tuple[str, tuple[PageAction, ...]]) -> None:
        app, path = saved
        self.start(app)
        for action in path:
            play(self._device, action)
            time.sleep(self._settle_s)


def play(device: Device, action: PageAction) -> None:
    """Carries an action out. `complete` ends an episode and is nothing to a device."""
    if action.kind != "complete":
        for command in device_actions(action):
            device.act(command)
