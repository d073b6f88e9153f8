"""The emulator: its command line, waiting for its boot, and forwarding of its ports."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Sequence

from avd import BAD_SETTINGS, BOOT_FAILED, Failure
from avd.adb import Adb
from avd.settings import Settings

FROM_SNAPSHOT_S, COLD_S = 120, 600
"""Maximum boot times in seconds, unless BOOT_TIMEOUT is set."""
POLL_S = 0.5
ALWAYS = "-no-snapshot-save -no-window -no-audio -no-boot-anim -accel on"
QUIET = (
    ("system", "pointer_location", "0"),  # the pointer bar that AndroidWorld's set-up leaves on the screen
    ("global", "window_animation_scale", "0"),
    ("global", "transition_animation_scale", "0"),
    ("global", "animator_duration_scale", "0"),
    ("global", "stay_on_while_plugged_in", "7"),  # a spare that waits must not fall asleep
    ("global", "adb_allowed_connection_time", "0"),  # keys stay valid; 7 days without use is Android's default
)


def command(settings: Settings, options: Sequence[str]) -> list[str]:
    """`options` come last, so that they override the others."""
    start = f"-snapshot {settings.snapshot}" if settings.has_snapshot else "-no-snapshot-load"
    words = f"emulator -avd {settings.avd_name} {start} {ALWAYS} -gpu {settings.gpu} -memory {settings.memory_mb}"
    words += f" -cores {settings.cores} -ports {settings.console_port},{settings.adb_port}"
    if settings.task_server:
        words += f" -grpc {settings.grpc_port}"
    return [*words.split(), *options]  # names were checked: none has a blank


def prepare(settings: Settings) -> None:
    """Raises Failure if the AVD does not exist. Removes the locks of an emulator that was killed in this container."""
    if not settings.avd.is_dir():
        found = ", ".join(sorted(p.stem for p in settings.avd_home.glob("*.avd"))) or "none"
        raise Failure(f"AVD_NAME: there is no AVD {settings.avd_name!r} here, but: {found}", BAD_SETTINGS)
    for lock in settings.avd.glob("*.lock"):
        if lock.is_dir():
            shutil.rmtree(lock, ignore_errors=True)
        else:
            lock.unlink(missing_ok=True)


def wait_for_boot(settings: Settings, adb: Adb, watch: Callable[[], None]) -> None:
    """Raises Failure at the deadline. `watch` raises if the emulator has exited."""
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
            fix = "see its log above; give it more CORES or MEMORY_MB, or a longer BOOT_TIMEOUT"
            raise Failure(f"the phone did not boot within {allowed} s ({seen}): {fix}", BOOT_FAILED)
        time.sleep(POLL_S)


def quiet(adb: Adb) -> None:
    """Disables animations, sleep, and anything drawn over the screen."""
    for namespace, name, value in QUIET:
        adb.ask("shell", "settings", "put", namespace, name, value)


def forward_address(settings: Settings) -> str:
    """The container's address on which the emulator's ports are bound as well; "" for none. Raises Failure.

    The emulator binds its console and adb to 127.0.0.1 only; Docker sends traffic of a published port to the
    container's own address. Port numbers stay the same: adb's server looks for emulators on 127.0.0.1:5555 to 5585, and
    would find the phone twice if they differed.
    """
    if settings.forward != "auto":
        return "" if settings.forward == "none" else settings.forward
    try:
        found = socket.gethostbyname(socket.gethostname())
    except OSError:
        found = ""
    if not found or found.startswith("127."):
        fix = "give FORWARD_ADDRESS: an IPv4 address of the container, or none where it shares the host's network"
        raise Failure(f"the container's own address cannot be told ({found or 'it has none'}): {fix}", BAD_SETTINGS)
    return found


def forward_command(own: str, port: int) -> list[str]:
    return ["socat", f"TCP-LISTEN:{port},bind={own},fork,reuseaddr,nodelay", f"TCP:127.0.0.1:{port},nodelay"]
