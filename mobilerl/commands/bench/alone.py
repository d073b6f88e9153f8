"""A part measured in a fresh process, as its own command would: what ran before it changes neither time nor memory."""

from __future__ import annotations

import multiprocessing
import os
import threading
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from mobilerl.engines.base import EngineError

_SPAWN = multiprocessing.get_context("spawn")
WAIT_S = 30
"""For a process that was told to end."""


def measure_alone(words: Sequence[str]) -> dict[str, Any]:
    """What `mobilerl WORDS --save FILE` writes. ValueError: why it cannot be measured here. EngineError: it broke."""
    ours, theirs = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=_serve, args=(theirs, list(words)))
    process.start()
    theirs.close()
    try:
        state, said = ours.recv()
    except EOFError:
        process.join(WAIT_S)
        raise EngineError(f"its process ended with code {process.exitcode}") from None
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join(WAIT_S)
        if process.is_alive():
            process.kill()
        ours.close()
    if state == "cannot":
        raise ValueError(said)
    if state == "broke":
        raise EngineError(said)
    return said


def _serve(pipe: Connection, words: Sequence[str]) -> None:
    from benchmarks.compare import taken
    from mobilerl.cli import make_parser
    from mobilerl.commands.bench.parts import command_of

    os.dup2(2, 1)  # whatever libraries print must not get into the report
    threading.Thread(target=_end_with_parent, daemon=True).start()
    args = make_parser().parse_args(words)
    try:
        pipe.send(("done", taken(args.part, command_of(words), lambda: args.measure(args))))
    except (ValueError, ImportError) as error:  # what is said of sizes and of packages that are not installed
        pipe.send(("cannot", _one_line(error)))
    except KeyboardInterrupt:
        return
    except Exception as error:
        traceback.print_exc()
        pipe.send(("broke", f"{type(error).__name__}: {_one_line(error)}"))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
