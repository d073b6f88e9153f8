"""Serves embedded phones over adb until it is told to stop: `mobilerl phone serve`, and a phone's container."""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envs.phone.adbd import ServedPhone
    from envs.phone.adbd.auth import Authorization
    from envs.phone.faults import FaultSettings

CRASHED = 70
"""Exit code when every phone has crashed (faults on demand)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=1, help="phones, one port each (default 1)")
    parser.add_argument("--port", type=int, default=5601, help="the first phone's port (default 5601)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine)")
    parser.add_argument("--width", type=int, default=1080, help="pixels (default 1080)")
    parser.add_argument("--height", type=int, default=2400, help="pixels (default 2400)")
    parser.add_argument("--console-port", type=int, default=0, metavar="PORT",
                        help="of the first phone's emulator console; the others follow (default: none)")  # fmt: skip
    parser.add_argument("--console-token", default="", metavar="TOKEN", help="what the console wants after `auth`")
    parser.add_argument("--authorized-keys", type=Path, metavar="FILE",
                        help="let in only hosts whose adbkey.pub stands in FILE, one per line")  # fmt: skip
    parser.add_argument("--faults", type=float, default=0.0, metavar="RATE",
                        help="share of the commands that fail on purpose (default 0)")  # fmt: skip
    parser.add_argument("--fault-kinds", metavar="KIND,...", help="only these (default: all)")
    parser.add_argument("--fault-seed", type=int, default=0, metavar="N")


def check(args: argparse.Namespace) -> None:
    """Raises ValueError for what cannot be served."""
    for name, port in (("--port", args.port), ("--console-port", args.console_port or 1)):
        if args.count < 1 or not 1 <= port <= 65536 - args.count:
            raise ValueError(f"--count {args.count} from {name} {port}: give ports between 1 and 65535")
    if not (180 <= args.width <= 2160 and 360 <= args.height <= 4320):
        raise ValueError(f"--width {args.width} --height {args.height}: give 180 to 2160 by 360 to 4320 pixels")


async def serve(args: argparse.Namespace) -> int:
    """Returns the exit code: 0 when stopped by a signal, `CRASHED` when no phone is left."""
    from envs.phone.adbd import PhoneServer, ServedPhone
    from envs.phone.apps.catalogue import APPS
    from envs.phone.faults import FaultPlan
    from envs.phone.phone import Phone

    keys, faults = _keys(args.authorized_keys), _faults(args)
    phones = [
        ServedPhone(Phone(APPS, args.width, args.height), args.port + i, args.host, keys,
                    FaultPlan(faults, f"{socket.gethostname()}:{args.port + i}") if faults.rate else None)
        for i in range(args.count)
    ]  # fmt: skip
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with PhoneServer(phones), _consoles(phones, args):
        last = f" to {phones[-1].serial}" if args.count > 1 else ""
        print(f"{args.count} phone{'s' if args.count > 1 else ''} on {phones[0].serial}{last}", flush=True)
        print(f"adb connect {phones[0].serial}", flush=True)
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(_all_crashed(phones))]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        return 0 if stop.is_set() else CRASHED


async def _all_crashed(phones: Sequence[ServedPhone]) -> None:
    for phone in phones:
        await phone.crashed.wait()


@asynccontextmanager
async def _consoles(phones: Sequence[ServedPhone], args: argparse.Namespace) -> AsyncIterator[None]:
    from envs.phone.console import Console

    served = phones if args.console_port else ()
    consoles = [Console(phone.phone, phone.exclusive, args.console_token, args.host, phone.die) for phone in served]
    try:
        for i, console in enumerate(consoles):
            await console.start(args.console_port + i)
        yield
    finally:
        for console in consoles:
            console.stop()


def _keys(file: Path | None) -> Authorization | None:
    from envs.phone.adbd.auth import Authorization

    if file is None:
        return None
    try:
        return Authorization.from_lines(file.read_text().splitlines())
    except ValueError as error:
        raise ValueError(f"{file}: {error}; copy the line of ~/.android/adbkey.pub") from None


def _faults(args: argparse.Namespace) -> FaultSettings:
    from envs.phone.faults import Fault, FaultSettings

    kinds = tuple(Fault)
    if args.fault_kinds is not None:
        known = {str(k) for k in kinds}
        if wrong := [k for k in args.fault_kinds.split(",") if k not in known]:
            raise ValueError(f"--fault-kinds: there is no fault {wrong[0]!r}; choose from {', '.join(sorted(known))}")
        kinds = tuple(Fault(k) for k in args.fault_kinds.split(","))
    return FaultSettings(args.faults, kinds, args.fault_seed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m envs.phone", description="Embedded phones that adb connects to.")
    add_arguments(parser)
    args = parser.parse_args()
    try:
        check(args)
        return asyncio.run(serve(args))
    except (ValueError, OSError) as error:
        parser.error(str(error))
