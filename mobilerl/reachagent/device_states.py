"""Returns a device to a page, either from a snapshot or by repeating the actions that led there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from envs.base import Home, InfraError, Launch
from envs.device import Device
from envs.phone.console import State, restore_snapshot, take_snapshot
from envs.phone.phone import Phone
from mobilerl.reachagent.actions import PageAction, device_actions

HOME_APP = "Home"
"""Name of the launcher among the apps."""


def open_app(device: Device, app: str) -> None:
    """Raises InfraError when there is no such app."""
    if reason := device.act(Home() if app == HOME_APP else Launch(app)):
        raise InfraError(reason)


class Snapshots:
    """In-memory snapshots of an embedded phone of this process.

    `seed` determines the phone's contents, and `fill` changes them: a page that no contents lead to cannot be found.
    """

    exact = True
    """Whether `load` restores exactly the saved state."""

    def __init__(self, phone: Phone, device: Device, seed: int, fill: Callable[[], None] | None = None) -> None:
        self._phone, self._device, self._seed, self._fill = phone, device, seed, fill

    def start(self, app: str) -> None:
        """Resets the device and opens the app at its home page."""
        self._phone.reset(self._seed)
        if self._fill is not None:
            self._fill()
        open_app(self._device, app)

    def save(self, app: str, path: tuple[PageAction, ...]) -> State:
        """The device's current state, reached by `path` from the app's home."""
        return take_snapshot(self._phone)

    def load(self, saved: State) -> None:
        restore_snapshot(self._phone, saved)


class Replay:
    """States of any device: restarts the app and repeats the actions, waiting `settle_s` seconds after each.

    `fresh` resets the device, for example by loading an emulator's snapshot. Without it the app is stopped and its data
    are kept, so that changes made while exploring (a deleted note) remain.
    """

    exact = False

    def __init__(
        self,
        device: Device,
        packages: Mapping[str, str],
        fresh: Callable[[], None] | None = None,
        settle_s: float = 0.0,
    ) -> None:
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
            perform(self._device, action)
            time.sleep(self._settle_s)


DeviceStates = Snapshots | Replay
"""Every method may raise InfraError and may then be called again."""


def perform(device: Device, action: PageAction) -> None:
    """Carries an action out on a device; `complete` only ends an episode and does nothing."""
    if action.kind != "complete":
        for command in device_actions(action):
            device.act(command)
