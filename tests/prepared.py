"""Runs Python programs in forks of a process that has imported what they need. Importing takes longer than most of what
a test does afterwards: a recipe starts `mobilerl` a dozen times, a session of verl fifteen processes.

    python prepared.py SOCKET MODULE ...

imports the modules and listens at SOCKET until its standard input is closed. `interpreter` and `program` make files
that stand in for `python` and `mobilerl`: each passes its arguments, environment, folder and open files to a fork and
exits with its status. Whatever ends one of them kills the fork's process group. What Python or a library reads from the
environment when it is loaded (PYTHONHASHSEED) is the server's.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

MODULES = (
    "mobilerl.cli",
    "mobilerl.engines.local",
    "mobilerl.suites.evaluation",
    "mobilerl.training.online",
    "mobilerl.sft.run",
)
PROGRAM = """#!{python} -IS
import json, os, socket, sys
files = [n for n in map(int, os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd/%d" % n)]
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
words = json.dumps([{first!r} + sys.argv[1:], os.getcwd(), dict(os.environ), files]).encode()
socket.send_fds(server, [len(words).to_bytes(4, "big")], files)
server.sendall(words)
os.closerange(0, server.fileno())
os.closerange(server.fileno() + 1, 4096)
sys.exit(int(server.recv(4) or 255))
"""
_servers: dict[Path, subprocess.Popen] = {}
"""By the stand-in for `python`. A server ends when its standard input is closed, as when this process ends."""


@cache
def program() -> Path:
    """A stand-in for `mobilerl`, whose server ends with this process."""
    made = interpreter(MODULES, os.environ)
    return made.with_name("mobilerl")


def interpreter(modules: Sequence[str], environment: Mapping[str, str]) -> Path:
    """A stand-in for `python`, by a server that imports these modules in this environment, until it is released."""
    path = Path(tempfile.mkdtemp(prefix="prepared-")) / "socket"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    words = [sys.executable, __file__, str(path), *modules]
    server = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout and server.stdout.readline(), "the process that runs programs does not start"
    for name, first in (("python", []), ("mobilerl", ["-m", "mobilerl"])):
        made = path.with_name(name)
        made.write_text(PROGRAM.format(python=sys.executable, path=str(path), first=first))
        made.chmod(0o755)
    _servers[path.with_name("python")] = server
    return path.with_name("python")


def release(python: Path) -> None:
    """Ends the server of an `interpreter`."""
    with _servers.pop(python) as server:
        assert server.stdin
        server.stdin.close()
    shutil.rmtree(python.parent)


def listen(path: str, ready: int) -> list[str]:
    """Returns only in forks: the arguments of the program that each is to run. Writes a line to `ready` at first."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    os.write(ready, b"ready\n")
    os.close(ready)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # guards are not waited for
    while True:
        if sys.stdin in select.select([sys.stdin, listening], [], [])[0]:
            sys.exit()
        connection, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return guard(connection)
        connection.close()


def guard(connection: socket.socket) -> list[str]:
    """Returns in a fork; itself waits for that fork or for the end of the client."""
    head, files, _, _ = socket.recv_fds(connection, 4, 250)
    with connection.makefile("rb") as request:
        arguments, folder, environment, numbers = json.loads(request.read(int.from_bytes(head, "big")))
    os.setsid()  # what ends the client's group leaves the guard, which then ends the fork
    if (pid := os.fork()) == 0:
        connection.close()
        os.setsid()  # so that killing its process group, as Ray does, does not kill the tests
        _place(files, numbers)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[1:1] = environment.get("PYTHONPATH", "").split(os.pathsep)
        multiprocessing.set_executable(str(Path(sys.argv[1]).with_name("python")))
        return arguments
    for file in (*files, 0, 1, 2):
        os.close(file)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        connection.sendall(str(code % 256).encode())
    os._exit(0)


def _place(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Gives the open files the numbers that they had in the client."""
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in files]
    for file in files:
        os.close(file)
    for file, number in zip(high, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


def run(words: list[str]) -> None:
    """As Python runs its arguments. Options of Python are the server's."""
    while words[0] not in ("-m", "-c") and words[0].startswith("-"):
        words = words[2 if words[0] in ("-X", "-W") else 1 :]
    sys.path[0] = os.getcwd() if words[0] in ("-m", "-c") else str(Path(words[0]).resolve().parent)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":  # multiprocessing's own line, which a file could not hold: its children would run it again
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    ready = os.dup(1)
    os.dup2(2, 1)  # keeps what modules print out of the pipe
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()  # a collection would copy every page in each fork
    words = listen(sys.argv[1], ready)
    status: object = 0
    try:
        run(words)
    except SystemExit as end:
        status = end.code
    # As at any exit, but for the destruction of modules, which takes a second.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if isinstance(status, str):
        print(status, file=sys.stderr, flush=True)
    os._exit(status if isinstance(status, int) else int(status is not None))
