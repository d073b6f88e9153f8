"""One place of a pool: the state of the device in it, and what happened to those before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum

from envs.base import DeviceReport
from envs.pool.provider import PooledDevice
from envs.pool.watch import Watch


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    LEASED = "leased"
    REFRESHING = "refreshing"
    QUARANTINED = "quarantined"


@dataclass(slots=True)
class Place:
    number: int
    watch: Watch = field(default_factory=lambda: Watch(State.STARTING))
    device: PooledDevice | None = None
    generation: int = 0
    """Devices that it had before."""
    failures: int = 0
    """In a row."""
    reason: str = ""
    """Of the last failure."""
    faults: int = 0
    """In all."""
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
