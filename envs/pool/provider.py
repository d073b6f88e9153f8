"""Where a pool's devices come from, and what it may ask of them."""

from __future__ import annotations

from typing import Protocol

from envs.base import Health, MobileEnv


class PooledDevice(Protocol):
    """One device and the environment that plays on it. Every method may raise InfraError, or never come back."""

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
        """Checks what all devices need. Raises InfraError with the cure, at start rather than after an hour, and
        leaves nothing open then."""

    async def create(self, number: int, generation: int) -> PooledDevice:
        """A device that has booted, for place `number` of the pool; `generation` counts those it had before."""

    async def discard(self, number: int, failed: bool = True) -> None:
        """Removes whatever an unfinished `create` for this place has left; as `destroy` when it `failed`."""

    async def close(self) -> None:
        """Removes whatever is left of all places. Does nothing when it was not opened, or is closed already."""
