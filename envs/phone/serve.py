"""Serves embedded phones over adb until it is told to stop: `mobilerl phone serve`, and a phone's container."""

from __future__ import annotations

import argparse
import asyncio
import errno
import signal
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mobilerl.envs.phone.display import MAX_DENSITY, MIN_DENSITY

if TYPE_CHECKING:
    from mobilerl.envs.phone.adbd import ServedPhone
    from mobilerl.envs.phone.adbd.auth import PublicKey
    from mobilerl.envs.phone.faults import FaultSettings

CRASHED = 70
"""Exit code when every phone has crashed (faults on demand)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--count", type=int, default=1, help="number of phones, one port each (default 1)")
    add("--port", type=int, default=5601, help="port of the first phone (default 5601)")
    add("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine)")
    add("--width", type=int, default=1080, help="pixels (default 1080)")
    add("--height", type=int, default=2400, help="pixels (default 2400)")
    add("--density", type=int, help="dpi (default: 360 dp across a phone, about 800 across a tablet)")
    consoles = "port of the first phone's emulator console; the others follow (default: none)"
    add("--console-port", type=int, default=0, metavar="PORT", help=consoles)
    add("--console-token", default="", metavar="TOKEN", help="token that the console expects after `auth`")
    keys = "accept only hosts whose adbkey.pub is in FILE, one per line"
    add("--authorized-keys", type=Path, metavar="FILE", help=keys)
    rate = "share of the commands that fail on purpose (default 0)"
    add("--faults", type=float, default=0.0, metavar="RATE", help=rate)
    add("--fault-kinds", metavar="KIND,...", help="kinds of faults (default: all)")
    add("--fault-seed", type=int, default=0, metavar="N", help="seed of the faults (default 0)")


def check(args: argparse.Namespace) -> None:
    """Raises ValueError for what cannot be served."""
    for name, port in (("--port", args.port), ("--console-port", args.console_port or 1)):
        if args.count < 1 or not 1 <= port <= 65536 - args.count:
            raise ValueError(f"--count {args.count} from {name} {port}: give ports between 1 and 65535")
    if not (180 <= args.width <= 2160 and 360 <= args.height <= 4320):
        raise ValueError(f"--width {args.width} --height {args.height}: give 180 to 2160 by 360 to 4320 pixels")
    if args.density is not None and not MIN_DENSITY <= args.density <= MAX_DENSITY:
        raise ValueError(f"--density {args.density}: give {MIN_DENSITY} to {MAX_DENSITY} dpi")


async def serve(args: argparse.Namespace) -> int:
    """Returns the exit code: 0 when stopped by a signal, `CRASHED` when no phone is left. ValueError when the ports
    cannot be had."""
    from mobilerl.envs.phone.adbd import ServedPhone
    from mobilerl.envs.phone.apps.catalogue import APPS
    from mobilerl.envs.phone.console import Console
    from mobilerl.envs.phone.faults import FaultPlan
    from mobilerl.envs.phone.phone import Phone

    keys, faults = _keys(args.authorized_keys), _faults(args)
    phones = []
    for port in range(args.port, args.port + args.count):
        plan = FaultPlan(faults, f"{socket.gethostname()}:{port}") if faults.rate else None
        phones.append(ServedPhone(Phone(APPS, args.width, args.height, args.density), port, args.host, keys, plan))
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with AsyncExitStack() as stack:
        try:
            for phone in phones:
                await phone.start()
                stack.push_async_callback(phone.stop)
            for i, phone in enumerate(phones if args.console_port else ()):
                console = Console(phone.phone, phone.exclusive, args.console_token, args.host, phone.die)
                await console.start(args.console_port + i)
                stack.callback(console.stop)
        except OSError as error:
            raise ValueError(_cannot_listen(args, error)) from None
        last = f" to {phones[-1].serial}" if args.count > 1 else ""
        print(f"{args.count} phone{'s' if args.count > 1 else ''} on {phones[0].serial}{last}", flush=True)
        print(f"adb connect {phones[0].serial}", flush=True)
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(_all_crashed(phones))]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        return 0 if stop.is_set() else CRASHED


def _cannot_listen(args: argparse.Namespace, error: OSError) -> str:
    reason = f"the phones cannot be served: {error.strerror or error}"  # it names address and port
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{reason}; give an address of this machine as --host"
    ports = f" ({args.count} phones take {args.port} to {args.port + args.count - 1})" if args.count > 1 else ""
    return f"{reason}; choose another --port{ports}{' or --console-port' if args.console_port else ''}"


async def _all_crashed(phones: Sequence[ServedPhone]) -> None:
    for phone in phones:
        await phone.crashed.wait()


def _keys(file: Path | None) -> tuple[PublicKey, ...] | None:
    from mobilerl.envs.phone.adbd.auth import read_keys

    if file is None:
        return None
    try:
        return read_keys(file.read_text().splitlines())
    except ValueError as error:
        raise ValueError(f"{file}: {error}; copy the line of ~/.android/adbkey.pub") from None


def _faults(args: argparse.Namespace) -> FaultSettings:
    from mobilerl.envs.phone.faults import Fault, FaultSettings

    kinds = tuple(Fault)
    if args.fault_kinds is not None:
        known = {str(k) for k in kinds}
        if wrong := [k for k in args.fault_kinds.split(",") if k not in known]:
            raise ValueError(f"--fault-kinds: there is no fault {wrong[0]!r}; choose from {', '.join(sorted(known))}")
        kinds = tuple(Fault(k) for k in args.fault_kinds.split(","))
    return FaultSettings(args.faults, kinds, args.fault_seed)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m mobilerl.envs.phone", description="Embedded phones that adb connects to."
    )
    add_arguments(parser)
    args = parser.parse_args()
    try:
        check(args)
        return asyncio.run(serve(args))
    except (ValueError, OSError) as error:
        parser.error(str(error))
