"""`mobilerl phone serve`: embedded phones that the real `adb` connects to."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("phone", parents=[common], allow_abbrev=False, help="serve embedded phones over adb")
    parser.add_argument("what", choices=("serve",), help="serve: until Ctrl-C")
    parser.add_argument("--count", type=int, default=1, help="phones, one port each (default 1)")
    parser.add_argument("--port", type=int, default=5601, help="the first phone's port (default 5601)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine)")
    parser.add_argument("--width", type=int, default=1080, help="pixels (default 1080)")
    parser.add_argument("--height", type=int, default=2400, help="pixels (default 2400)")
    parser.add_argument("--authorized-keys", type=Path, metavar="FILE",
                        help="let in only hosts whose adbkey.pub stands in FILE, one per line")  # fmt: skip
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    if args.count < 1 or not 1 <= args.port <= 65536 - args.count:
        raise ValueError(f"--count {args.count} from --port {args.port}: give ports between 1 and 65535")
    if not (180 <= args.width <= 2160 and 360 <= args.height <= 4320):
        raise ValueError(f"--width {args.width} --height {args.height}: give 180 to 2160 by 360 to 4320 pixels")
    asyncio.run(_serve(args))
    return 0


async def _serve(args: argparse.Namespace) -> None:
    from envs.phone.adbd import PhoneServer, ServedPhone
    from envs.phone.adbd.auth import Authorization
    from envs.phone.apps.catalogue import APPS
    from envs.phone.phone import Phone

    keys = None
    if args.authorized_keys is not None:
        try:
            keys = Authorization.from_lines(args.authorized_keys.read_text().splitlines())
        except ValueError as error:
            raise ValueError(f"{args.authorized_keys}: {error}; copy the line of ~/.android/adbkey.pub") from None
    phones = [
        ServedPhone(Phone(APPS, args.width, args.height), args.port + i, args.host, keys) for i in range(args.count)
    ]
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with PhoneServer(phones):
        last = f" to {phones[-1].serial}" if args.count > 1 else ""
        print(f"{args.count} phone{'s' if args.count > 1 else ''} on {phones[0].serial}{last}", flush=True)
        print(f"adb connect {phones[0].serial}", flush=True)
        await stop.wait()
