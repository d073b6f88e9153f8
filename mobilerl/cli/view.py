"""`mobilerl view`: writes or serves the viewer page of a run."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("view", parents=[common], allow_abbrev=False, help="show a run as a static page")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    parser.add_argument(
        "--against", type=Path, nargs="+", default=[], metavar="RUN_DIR", help="up to three runs to compare"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--serve", action="store_true", help="serve the page over HTTP until Ctrl-C")
    parser.add_argument("--host", default="127.0.0.1", help="address for --serve (default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8642, help="port for --serve (default 8642; 0 for any free port)")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from mobilerl.viewer import build

    cache: dict[Path, dict[str, Any]] = {}
    page = build(args.run_dir, args.against, cache).resolve()
    if args.serve:
        return _serve(args, cache)
    print(page)
    if args.open and not webbrowser.open(page.as_uri()):
        raise ValueError(f"could not start a browser; open {page.as_uri()}")
    return 0


def _serve(args: argparse.Namespace, cache: dict[Path, dict[str, Any]]) -> int:
    from mobilerl.viewer.serve import make_server

    try:
        server = make_server(args.run_dir, args.against, args.host, args.port, cache)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"cannot listen on {args.host}:{args.port} ({reason}): choose another --host or --port"
        ) from error
    with server:
        address = f"http://{args.host}:{server.server_address[1]}/"
        print(f"{address} (Ctrl-C to stop; the page shows new iterations by itself)", flush=True)
        if args.open and not webbrowser.open(address):
            print(f"could not start a browser; open {address}", file=sys.stderr, flush=True)
        server.serve_forever()
    return 0
