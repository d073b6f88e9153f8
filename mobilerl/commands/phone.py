"""`mobilerl phone serve`: embedded phones that the real `adb` connects to."""

from __future__ import annotations

import argparse
import asyncio
import errno
from collections.abc import Sequence

from envs.phone import serve

CANNOT_LISTEN = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
"""Of a port: taken, of an address that this machine does not have, and kept for root."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("phone", parents=[common], allow_abbrev=False, help="serve embedded phones over adb")
    parser.add_argument("what", choices=("serve",), help="serve: until Ctrl-C")
    serve.add_arguments(parser)
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    serve.check(args)
    try:
        return asyncio.run(serve.serve(args))
    except OSError as error:
        if error.errno not in CANNOT_LISTEN or error.filename:  # with a file name it is --authorized-keys
            raise
        raise ValueError(_cannot_listen(args, error)) from None


def _cannot_listen(args: argparse.Namespace, error: OSError) -> str:
    """The library's words name the address and the port."""
    said = f"the phones cannot be served: {error.strerror or error}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{said}; give an address of this machine as --host"
    ports = f" ({args.count} phones take {args.port} to {args.port + args.count - 1})" if args.count > 1 else ""
    return f"{said}; choose another --port{ports}{' or --console-port' if args.console_port else ''}"
