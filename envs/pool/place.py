"""The parts of a pool: devices, their provider, and the places that hold them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from mobilerl.envs.base import DeviceReport, Health, MobileEnv


class PooledDevice(Protocol):
    """One device and its environment. Every method may raise InfraError, or never return."""

    env: MobileEnv
    """Its `device_id` is unique: a replacement has a new one."""

    async def refresh(self) -> bool:
        """Makes the device clean for its next episode. Returns False if another device has to take its place."""

    async def check(self) -> Health:
        """Whether the device is fit for an episode."""

    async def lost(self) -> bool:
        """Whether the connection to the device is known to be lost. Must not use the device."""

    async def destroy(self, failed: bool = False) -> None:
        """Releases what the device holds: container, ports, connection. Its log is kept when it `failed`."""


class Provider(Protocol):
    """Creates devices. `create` may raise or be cancelled at any time; `discard` removes what it began."""

    replaces: bool
    """Whether `create` makes a new device, or connects to the same one again."""

    def name(self, number: int) -> str:
        """What the user calls the device of place `number`."""

    async def open(self) -> None:
        """Checks what all devices need, so that mistakes show at start. Raises InfraError with the fix, and leaves
        nothing open in that case."""

    async def create(self, number: int, generation: int) -> PooledDevice:
        """A booted device for place `number` of the pool. `generation` counts the devices that the place had before."""

    async def discard(self, number: int, failed: bool = True) -> None:
        """Removes what an unfinished `create` for this place left behind. `failed` as in `destroy`."""

    async def wait_for_return(self, number: int) -> None:
        """Waits until the device of a place, which could not be reached, can be reached; may wait forever."""

    async def close(self) -> None:
        """Removes what is left of all places. Does nothing when the provider is not open."""


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    LEASED = "leased"
    REFRESHING = "refreshing"
    QUARANTINED = "quarantined"


class Watch:
    """How long something has been in each of its states."""

    def __init__(self, state: str) -> None:
        self.state = state
        self._since = time.monotonic()
        self._seconds: dict[str, float] = defaultdict(float)

    def enter(self, state: str) -> None:
        now = time.monotonic()
        self._seconds[self.state] += now - self._since
        self.state, self._since = state, now

    def seconds(self) -> dict[str, float]:
        """Seconds by state, including the current one up to now."""
        self.enter(self.state)
        return dict(self._seconds)


@dataclass(slots=True)
class Place:
    """One place of a pool: the state of its device, and the history of earlier ones."""

    number: int
    name: str
    watch: Watch = field(default_factory=lambda: Watch(State.STARTING))
    device: PooledDevice | None = None
    generation: int = 0
    """Number of devices that the place had before."""
    failures: int = 0
    """Consecutive failures."""
    reason: str = ""
    """Reason of the last failure."""
    faults: int = 0
    """Failures in total."""
    since: float = 0.0
    """When the device became ready, in seconds of the event loop's clock."""
    failed: float | None = None
    """When it first failed since it last worked or came back, on that clock."""
    out: bool = False
    """Whether it lost a device since then, or never had one."""
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    returned: asyncio.Future[str] | None = None
    """Resolved at the end of the lease with what failed in it, or ""."""

    @property
    def state(self) -> State:
        return State(self.watch.state)

    @state.setter
    def state(self, state: State) -> None:
        self.watch.enter(state)

    @property
    def device_id(self) -> str:
        """Empty while there is no device."""
        return self.device.env.device_id if self.device is not None else ""

    @property
    def expected(self) -> bool:
        """Whether the device is worth waiting for: a place that keeps failing may never have one."""
        if self.state is State.STARTING:
            return not self.failures
        return self.state is not State.QUARANTINED

    def report(self) -> DeviceReport:
        return DeviceReport(
            str(self.number), self.device_id, str(self.state), self.watch.seconds(), self.faults, self.reason, self.name
        )
