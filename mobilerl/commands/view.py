"""`mobilerl view`: a run as a page."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from mobilerl.config import ConfigError, read_saved

RECORDS = ("metrics.jsonl", "trajectories/iter-*.jsonl", "eval/**/results.json")
"""What a page shows. A run that has just begun has none of them yet, but its recipe."""


def add(commands: argparse._SubParsersAction, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("view", parents=[common], allow_abbrev=False, help="write a run as one static page")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    parser.add_argument("--against", type=Path, metavar="RUN_DIR", help="show how the run differs from this one")
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    parser.add_argument("--serve", action="store_true", help="hand the page out over HTTP until Ctrl-C")
    parser.add_argument("--host", default="127.0.0.1", help="where --serve listens (default 127.0.0.1: here only)")
    parser.add_argument("--port", type=int, default=8642, help="default 8642; 0 for any that is free")
    parser.set_defaults(run=run, takes_settings=False)


def run(args: argparse.Namespace, settings: Sequence[str]) -> int:
    from mobilerl.viewer import build

    for folder in (args.run_dir, args.against):
        if folder is not None:
            _check_run(folder)
    page = build(args.run_dir, args.against).resolve()
    if args.serve:
        return _serve(args)
    print(page)
    if args.open and not webbrowser.open(page.as_uri()):
        raise ValueError(f"no browser could be started here; open {page.as_uri()} in one")
    return 0


def _check_run(folder: Path) -> None:
    """Raises ConfigError where nothing of a run is. What is no folder at all is found by `build`."""
    if not folder.is_dir() or any(next(folder.glob(pattern), None) for pattern in RECORDS):
        return
    try:
        read_saved(folder / "config.json")
    except ConfigError:
        raise ConfigError(f"{folder} holds no run: it has no {RECORDS[0]}, {RECORDS[1]} or {RECORDS[2]}; name the "
                          "--run-dir of a training, or a folder whose eval/ holds evaluations") from None  # fmt: skip


def _serve(args: argparse.Namespace) -> int:
    from mobilerl.viewer.serve import make_server

    try:
        server = make_server(args.run_dir, args.against, args.host, args.port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        cure = "choose another --host or --port"
        raise ValueError(f"cannot listen on {args.host}:{args.port} ({reason}): {cure}") from error
    with server:
        address = f"http://{args.host}:{server.server_address[1]}/"
        print(f"{address} (Ctrl-C ends it; load the page again to see newer iterations)", flush=True)
        if args.open and not webbrowser.open(address):
            print(f"no browser could be started here; open {address} in one", file=sys.stderr, flush=True)
        server.serve_forever()
    return 0
