"""A fixed set of devices: embedded phones in this process. None is repaired or replaced."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from mobilerl.envs.base import DeviceEvent, DeviceReport, InfraError, MobileEnv
from mobilerl.envs.pool.place import Watch

CLOSE_TIMEOUT_S = 30.0


class FixedDevices:
    """Implements `mobilerl.envs.base.Devices`. A device that failed is reused at once, but not for the same episode."""

    failure: Exception | None = None

    def __init__(self, envs: Sequence[MobileEnv]) -> None:
        if not envs or len({env.device_id for env in envs}) < len(envs):
            raise ValueError("a collector needs at least one device, and devices need different device_ids")
        self.envs = tuple(envs)
        self.capacity = len(envs)
        self._changed: Callable[[], None] = lambda: None
        self._happened: Callable[[DeviceEvent], None] = lambda event: None
        self._free = {env.device_id: env for env in envs}
        self._watches = {env.device_id: Watch("ready") for env in envs}
        self._faults: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        """Reason of each device's last fault."""
        self._failed: dict[str, float] = {}
        """When the devices whose last episode failed first did so."""

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def on_event(self, happened: Callable[[DeviceEvent], None]) -> None:
        self._happened = happened

    async def start(self) -> None:
        """Does nothing: the devices need no start."""

    async def close(self) -> None:
        await asyncio.gather(*(self._close(env) for env in self.envs))

    async def _close(self, env: MobileEnv) -> None:
        """Ignores devices that fail or hang: they are no longer needed, and the others must be closed too."""
        with contextlib.suppress(InfraError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await env.close()

    def take(self, avoid: Collection[str] = ()) -> MobileEnv | None:
        """The device that has been free for longest. Devices to avoid are used only when there are no others at all."""
        everywhere = all(env.device_id in avoid for env in self.envs)
        for device_id in self._free:
            if everywhere or device_id not in avoid:
                self._watches[device_id].enter("leased")
                return self._free.pop(device_id)
        return None

    def give_back(self, env: MobileEnv, error: str = "") -> None:
        self._free[env.device_id] = env
        self._watches[env.device_id].enter("ready")
        if error:
            self._faults[env.device_id] += 1
            self._reasons[env.device_id] = error
            if env.device_id not in self._failed:
                self._failed[env.device_id] = time.monotonic()
                self._happened(DeviceEvent(env.device_id, "failed", error))
        elif env.device_id in self._failed:
            away_s = time.monotonic() - self._failed.pop(env.device_id)
            self._happened(DeviceEvent(env.device_id, "back", seconds=away_s))

    def report(self) -> list[DeviceReport]:
        return [
            DeviceReport(
                name, name, watch.state, watch.seconds(), self._faults[name], self._reasons.get(name, ""), name
            )
            for name, watch in self._watches.items()
        ]

    def status(self) -> Mapping[str, float]:
        return {}
