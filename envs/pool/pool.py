"""`DevicePool`: keeps working devices available although single devices fail.

One asyncio task per place of the pool takes its device through this cycle:

    STARTING -> READY -> LEASED -> REFRESHING -> READY ...
                  \\________ a failure ________/  -> (QUARANTINED ->) STARTING, with a new device

Refreshing is off the critical path: with `spares` more devices than leases, a ready one is waiting. Invariants: a
device is leased to one episode at a time; each lease ends, by `give_back` or by its deadline; every created device is
destroyed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from mobilerl.envs.base import DeviceEvent, DeviceReport, InfraError, MobileEnv
from mobilerl.envs.pool.place import Place, PooledDevice, Provider, State

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Times in seconds. `leases` episodes run at once, on `leases + spares` devices."""

    leases: int
    spares: int = 0
    boot_s: float = 300.0
    refresh_s: float = 120.0
    lease_s: float = 900.0
    """Deadline of a lease: if the device is not given back by then, the lease ends and the device is replaced."""
    check_every_s: float = 60.0
    """Interval between health checks of an idle device."""
    look_every_s: float = 5.0
    """Interval at which an idle device is asked whether its connection was lost; then it is checked at once."""
    max_failures: int = 3
    """Failures in a row after which a device is replaced and its place is quarantined."""
    quarantine_s: float = 10.0
    """First quarantine of a place. It doubles with each further failure."""
    quarantine_max_s: float = 600.0
    give_up_s: float = 900.0
    """Time without any working device after which the pool gives up."""


MOST_DOUBLINGS = 30
"""Limit of the exponent of a quarantine: 2.0**1024 overflows, and a place may fail for weeks."""
COUNTS = ("created", "renewed", "replaced", "failures", "quarantines", "lease_timeouts")
"""`renewed`: devices replaced because their reset asks for it; `replaced`: devices that failed."""


class DevicePool:
    """Implements `mobilerl.envs.base.Devices`. `counts` holds the counters of `COUNTS`, which only grow."""

    def __init__(self, provider: Provider, settings: PoolSettings) -> None:
        self.provider, self.settings = provider, settings
        self.capacity = settings.leases
        self.failure: Exception | None = None
        self._changed: Callable[[], None] = lambda: None
        self._happened: Callable[[DeviceEvent], None] = lambda event: None
        self.counts: Counter[str] = Counter()
        self._places = [Place(i, provider.name(i)) for i in range(settings.leases + settings.spares)]
        self._tending: list[asyncio.Task[None]] = []
        self._worked = 0.0
        """When a device was last known to work."""
        self._settled = asyncio.Event()
        """Set when the first device is ready, or all have failed."""

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def on_event(self, happened: Callable[[DeviceEvent], None]) -> None:
        self._happened = happened

    async def start(self) -> None:
        """Returns when the first device is ready; the others follow. Cleans up before it raises."""
        await self.provider.open()
        try:
            self._worked = _now()
            self._tending = [asyncio.create_task(self._tend(place)) for place in self._places]
            for tending in self._tending:
                tending.add_done_callback(self._tender_died)
            await self._settled.wait()
            if self.failure is None and not self._in(State.READY):
                self.failure = InfraError(f"no device of {len(self._places)} starts: {self._places[0].reason}")
            if self.failure is not None:
                raise self.failure
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """May be called repeatedly, and without `start`: the provider may hold something from before."""
        for tending in self._tending:
            tending.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        ends: list[BaseException | None] = []
        try:
            if self._tending:
                work = (self._destroy(place, failed=False) for place in self._places)
                ends = await asyncio.gather(*work, return_exceptions=True)
        finally:
            self._tending = []
            await self._run_bounded(self.provider.close(), "closing")
        if mistakes := [end for end in ends if end is not None]:
            raise mistakes[0]

    def take(self, avoid: Collection[str] = ()) -> MobileEnv | None:
        """The device that has been ready for longest, or None."""
        if self._in(State.LEASED) >= self.capacity:
            return None
        others = any(p.device_id not in avoid for p in self._places if p.expected)
        ready = [p for p in self._places if p.state is State.READY and not (others and p.device_id in avoid)]
        if not ready:
            return None
        place = min(ready, key=lambda p: p.since)
        assert place.device is not None
        place.state, place.returned = State.LEASED, asyncio.get_running_loop().create_future()
        place.taken.set()
        return place.device.env

    def give_back(self, env: MobileEnv, error: str = "") -> None:
        """Ends the lease. Does nothing if the lease has already ended at its deadline."""
        for place in self._places:
            if place.state is State.LEASED and place.device is not None and place.device.env is env:
                assert place.returned is not None
                place.state = State.REFRESHING
                if not place.returned.done():
                    place.returned.set_result(error)

    async def _tend(self, place: Place) -> None:
        while True:
            ending = "replaced"
            try:
                async with _deadline(self.settings.boot_s, "the boot"):
                    place.device = await self.provider.create(place.number, place.generation)
                    await self._check(place.device)
                self.counts["created"] += 1
                ending = await self._serve(place, place.device)
            except InfraError as error:
                self._record_failure(place, str(error))
            place.state, place.out = State.STARTING, ending == "replaced"
            self.counts[ending] += place.device is not None
            if not place.expected:
                self._changed()  # a caller that waited for this place may now take a device that it wanted to avoid
            await self._destroy(place, failed=ending == "replaced")
            place.generation += 1
            if all(p.generation for p in self._places):
                self._settled.set()  # only after the log is saved: a failed start cleans up at once
            if place.failures >= self.settings.max_failures:
                await self._quarantine(place)
                place.state = State.STARTING

    async def _serve(self, place: Place, device: PooledDevice) -> str:
        """Leases the device out until it has to go. Returns "renewed" when it is used up, and "replaced" when it failed
        too often or in the episode that used it up. Raises InfraError when it fails between episodes."""
        settings = self.settings
        while True:
            self._ready(place)
            error = await self._lease(place, device)
            self._worked = _now()
            place.state = State.REFRESHING
            if error:
                self._record_failure(place, error)
                if place.failures >= settings.max_failures:
                    return "replaced"
            async with _deadline(settings.refresh_s, "refreshing it"):
                usable = await device.refresh()
                if usable:
                    await self._check(device)
            if not error:
                place.failures, place.failed = 0, None
            if not usable:
                return "replaced" if error else "renewed"

    def _ready(self, place: Place) -> None:
        place.taken.clear()
        place.state, place.since = State.READY, _now()
        self._worked = place.since
        if place.out and place.failed is not None:
            self._happened(
                DeviceEvent(
                    place.name, "replaced" if self.provider.replaces else "back", seconds=place.since - place.failed
                )
            )
            place.failed = None
        place.out = False
        self._settled.set()
        self._changed()

    async def _lease(self, place: Place, device: PooledDevice) -> str:
        """Waits for a lease and for its end. Returns what failed in the episode, or ""."""
        while not place.taken.is_set():
            due = _now() + self.settings.check_every_s
            lost = False
            while not (place.taken.is_set() or lost or _now() >= due):
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(self.settings.look_every_s, due - _now())):
                        await place.taken.wait()  # wait_for may swallow a cancellation
                lost = not place.taken.is_set() and await device.lost()
            if not place.taken.is_set():
                place.state = State.REFRESHING
                async with _deadline(self.settings.refresh_s, "a health check"):
                    await self._check(device)
                self._ready(place)
        assert place.returned is not None
        try:
            async with asyncio.timeout(self.settings.lease_s):
                return await place.returned
        except TimeoutError:
            self.counts["lease_timeouts"] += 1
            raise InfraError(f"{place.device_id}: not given back after {self.settings.lease_s:g} s") from None

    async def _check(self, device: PooledDevice) -> None:
        health = await device.check()
        if not health.ok:
            raise InfraError(f"{device.env.device_id}: {health.reason}")

    def _record_failure(self, place: Place, reason: str) -> None:
        place.failures += 1
        place.faults += 1
        place.reason = reason
        self.counts["failures"] += 1
        if place.failed is None:
            place.failed = _now()
            self._happened(DeviceEvent(place.name, "failed", reason))
        log.info("device %s: failure %d in a row: %s", place.device_id or place.number, place.failures, reason)

    async def _quarantine(self, place: Place) -> None:
        settings = self.settings
        place.state = State.QUARANTINED
        self.counts["quarantines"] += 1
        working = self._in(State.READY) + self._in(State.LEASED) + self._in(State.REFRESHING)
        if not working and _now() - self._worked > settings.give_up_s and self.failure is None:
            said = f"no device has worked for {settings.give_up_s:g} s; the last said: {place.reason}"
            self.failure = InfraError(said)
            self._changed()
        beyond = min(place.failures - settings.max_failures, MOST_DOUBLINGS)
        longest_s = min(settings.quarantine_s * 2**beyond, settings.quarantine_max_s)
        if not beyond:
            self._happened(DeviceEvent(place.name, "quarantined", place.reason, longest_s))
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self.provider.wait_for_return(place.number)

    async def _destroy(self, place: Place, failed: bool) -> None:
        device, place.device = place.device, None
        work = device.destroy(failed) if device is not None else self.provider.discard(place.number, failed)
        await self._run_bounded(work, f"destroying device {place.number}")

    async def _run_bounded(self, work: Awaitable[None], what: str) -> None:
        """Cleaning up must neither hang nor raise: containers left behind are found by their label next time."""
        try:
            async with _deadline(self.settings.refresh_s, what):
                await work
        except InfraError as error:
            log.warning("%s: %s", what, error)

    def _tender_died(self, tending: asyncio.Task[None]) -> None:
        """Handles an exception that is a bug in the code, not a fault of a device."""
        if not tending.cancelled() and (error := tending.exception()) is not None:
            self.failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._settled.set()
            self._changed()

    def _in(self, state: State) -> int:
        return sum(place.state is state for place in self._places)

    def status(self) -> Mapping[str, float]:
        """The number of devices in each state, and the counters."""
        return {str(s): self._in(s) for s in State} | {name: self.counts[name] for name in COUNTS}

    def report(self) -> list[DeviceReport]:
        return [place.report() for place in self._places]


@asynccontextmanager
async def _deadline(seconds: float, what: str) -> AsyncIterator[None]:
    """`asyncio.timeout` that raises InfraError when it expires."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise InfraError(f"{what} took more than {seconds:g} s") from None


def _now() -> float:
    return asyncio.get_running_loop().time()
