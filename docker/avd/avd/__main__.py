"""`python3 -m avd [EMULATOR-OPTION...]`: the entry point of a container."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence

from avd import Failure, adb, emulator, settings, tasks
from avd.processes import EMULATOR, Processes, say

WATCH_S = 0.25


class Stopped(Exception):
    """Raised on SIGTERM or SIGINT."""


def main(options: Sequence[str]) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    processes, phone = Processes(), None
    try:
        wanted = settings.read(os.environ)
        wanted.ready_file.unlink(missing_ok=True)
        phone = adb.Adb(wanted.serial)
        run(wanted, options, processes, phone)
    except Stopped as stopped:
        say(f"{stopped}: stopping")
        return 0
    except Failure as failure:
        failure = processes.cause(failure)
        say(str(failure))
        return failure.code
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if phone is not None:
            processes.stop(phone)


def run(wanted: settings.Settings, options: Sequence[str], processes: Processes, phone: adb.Adb) -> None:
    """Ends only by raising Stopped or Failure. The ports open last: whoever reaches the phone finds it ready."""
    began = time.monotonic()
    settings.check_kvm(wanted.kvm)
    settings.check_memory(wanted)
    emulator.prepare(wanted)
    own = emulator.forward_address(wanted)
    key = adb.place_keys(wanted)
    with_tasks = bool(wanted.task_server) and wanted.has_snapshot
    if not wanted.has_snapshot:
        say(f"no snapshot {wanted.snapshot} here: a cold boot, without apps and tasks; docker/avd/bake.sh makes one")
    phone.start_server()
    processes.start(EMULATOR, emulator.command(wanted, options))
    emulator.wait_for_boot(wanted, phone, processes.watch)
    if key is not None:
        adb.authorize(phone, key)
    if with_tasks:
        processes.start("AndroidWorld's server", tasks.command(wanted))
        tasks.wait_until_ready(wanted, processes.watch)
    emulator.quiet(phone)
    ports = [wanted.console_port, wanted.adb_port, *([wanted.task_port] if with_tasks else [])]
    for port in ports if own else []:
        processes.start(f"socat for port {port}", emulator.forward_command(own, port))
    wanted.ready_file.write_text(f"{wanted.serial}\n")
    say(f"ready after {time.monotonic() - began:.1f} s: {wanted.serial}, forwarded at {own or 'no other address'}")
    while True:
        processes.watch()
        time.sleep(WATCH_S)


def _stop(number: int, frame: object) -> None:
    raise Stopped(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
