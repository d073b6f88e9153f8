"""Parts of a pool: devices, their provider, and the places that hold them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from envs.base import DeviceReport, Health, MobileEnv


class PooledDevice(Protocol):
    """One device and its environment. Every method may raise InfraError, or never return."""

    env: MobileEnv
    """Its `device_id` is unique: a replacement has another one."""

    async def refresh(self) -> bool:
        """Makes the device as clean as its next episode needs it. False: another one has to take its place."""

    async def check(self) -> Health:
        """Whether it is fit for an episode."""

    async def destroy(self, failed: bool = False) -> None:
        """Gives back all it holds: container, ports, connection. What it says of a failure is kept when it `failed`."""


class Provider(Protocol):
    """Makes devices. `create` may raise or be abandoned at any moment: what it began must be gone after `discard`."""

    async def open(self) -> None:
        """Checks what all devices need. Raises InfraError with the fix, at start rather than after an hour, and
        leaves nothing open then."""

    async def create(self, number: int, generation: int) -> PooledDevice:
        """A device that has booted, for place `number` of the pool; `generation` counts those it had before."""

    async def discard(self, number: int, failed: bool = True) -> None:
        """Removes what an unfinished `create` for this place has left; as `destroy` when it `failed`."""

    async def close(self) -> None:
        """Removes what is left of all places. Does nothing when it was not opened, or is closed already."""


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
        """By state, the present one up to now."""
        self.enter(self.state)
        return dict(self._seconds)


@dataclass(slots=True)
class Place:
    """One place of a pool: the state of the device in it, and what happened to those before."""

    number: int
    watch: Watch = field(default_factory=lambda: Watch(State.STARTING))
    device: PooledDevice | None = None
    generation: int = 0
    """Devices that it had before."""
    failures: int = 0
    """Consecutive failures."""
    reason: str = ""
    """Reason of the last failure."""
    faults: int = 0
    """Failures in total."""
    since: float = 0.0
    """When the device became ready, by the event loop's clock in seconds."""
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    returned: asyncio.Future[str] | None = None
    """The end of the lease: what failed in it, or ""."""

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
        """Whether its device is worth waiting for: a place that fails again and again may never have one."""
        if self.state is State.STARTING:
            return not self.failures
        return self.state is not State.QUARANTINED

    def report(self) -> DeviceReport:
        return DeviceReport(
            str(self.number), self.device_id, str(self.state), self.watch.seconds(), self.faults, self.reason
        )
