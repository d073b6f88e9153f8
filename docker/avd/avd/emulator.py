"""The emulator's command line, and the wait until its phone can be used."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence

from avd import BAD_SETTINGS, BOOT_FAILED, Failure
from avd.adb import Adb
from avd.settings import Settings

FROM_SNAPSHOT_S, COLD_S = 120, 600
"""Longest boots, unless BOOT_TIMEOUT says otherwise."""
POLL_S = 0.5
QUIET = (
    ("system", "pointer_location", "0"),  # the bar of coordinates that AndroidWorld's set-up leaves on the screen
    ("global", "window_animation_scale", "0"),
    ("global", "transition_animation_scale", "0"),
    ("global", "animator_duration_scale", "0"),
    ("global", "stay_on_while_plugged_in", "7"),  # a spare that waits must not fall asleep
    ("global", "adb_allowed_connection_time", "0"),  # keys stay valid; 7 days without use is Android's default
)


def command(settings: Settings, options: Sequence[str]) -> list[str]:
    """`options` come last, so that they win over what stands here."""
    start = ["-snapshot", settings.snapshot] if settings.has_snapshot else ["-no-snapshot-load"]
    return [
        "emulator", "-avd", settings.avd_name, *start, "-no-snapshot-save", "-no-window", "-no-audio", "-no-boot-anim",
        "-accel", "on", "-gpu", settings.gpu, "-memory", str(settings.memory_mb), "-cores", str(settings.cores),
        "-ports", f"{settings.console_port},{settings.adb_port}",
        *(["-grpc", str(settings.grpc_port)] if settings.task_server else []), *options,
    ]  # fmt: skip


def prepare(settings: Settings) -> None:
    """Raises Failure when there is no such AVD; removes the locks of an emulator that was killed in this container."""
    if not settings.avd.is_dir():
        found = ", ".join(sorted(p.stem for p in settings.avd_home.glob("*.avd"))) or "none"
        raise Failure(f"AVD_NAME: there is no AVD {settings.avd_name!r} here, but: {found}", BAD_SETTINGS)
    for lock in settings.avd.glob("*.lock"):
        if lock.is_dir():
            shutil.rmtree(lock, ignore_errors=True)
        else:
            lock.unlink(missing_ok=True)


def wait_for_boot(settings: Settings, adb: Adb, watch: Callable[[], None]) -> None:
    """`watch` raises when the emulator has ended. Raises Failure at the deadline."""
    allowed = settings.boot_timeout or (FROM_SNAPSHOT_S if settings.has_snapshot else COLD_S)
    until = time.monotonic() + allowed
    while True:
        watch()
        booted = adb.says("shell", "getprop", "sys.boot_completed")
        animation = adb.says("shell", "getprop", "init.svc.bootanim") if booted == "1" else "not asked"
        if booted == "1" and animation == "stopped":
            return
        if time.monotonic() > until:
            seen = f"sys.boot_completed is {booted!r}, init.svc.bootanim {animation!r}"
            cure = "see its log above; give it more CORES or MEMORY_MB, or a longer BOOT_TIMEOUT"
            raise Failure(f"the phone did not boot within {allowed} s ({seen}): {cure}", BOOT_FAILED)
        time.sleep(POLL_S)


def quiet(adb: Adb) -> None:
    """No animations, no sleep, nothing drawn over the screen."""
    for namespace, name, value in QUIET:
        adb.ask("shell", "settings", "put", namespace, name, value)
