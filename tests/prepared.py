"""Runs commands of `mobilerl` in forks of a process that has imported all it needs: a recipe starts it a dozen times,
and importing takes longer than most of what a test does with it.

    python prepared.py SOCKET

listens at SOCKET until its standard input is closed. `program` is a file that passes its arguments, environment, folder
and streams to such a process and ends as the fork does; if it is killed, so is the fork. What Python or a library reads
from the environment when it is loaded (PYTHONHASHSEED) is the server's.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

MODULES = ("mobilerl.cli", "mobilerl.engines.local", "mobilerl.suites.evaluation", "mobilerl.train.online", "sft.run")
PROGRAM = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
words = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(words).to_bytes(4, "big")], [0, 1, 2])
server.sendall(words)
sys.exit(int(server.recv(4)))
"""
_servers: list[subprocess.Popen] = []
"""A server ends when its standard input is closed, as when this process ends."""


@cache
def program() -> Path:
    """In the place of `mobilerl`, by a server that ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="prepared-"))
    path = folder / "socket"
    server = subprocess.Popen([sys.executable, __file__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    _servers.append(server)
    assert server.stdout and server.stdout.readline(), "the process that runs commands does not start"
    (folder / "mobilerl").write_text(PROGRAM.format(python=sys.executable, path=str(path)))
    (folder / "mobilerl").chmod(0o755)
    return folder / "mobilerl"


def serve(path: str) -> list[str]:
    """Returns only in forks: the arguments of the command that each is to run."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    print("ready", flush=True)
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
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    with connection.makefile("rb") as request:
        arguments, folder, environment = json.loads(request.read(int.from_bytes(head, "big")))
    if (pid := os.fork()) == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[1:1] = environment.get("PYTHONPATH", "").split(os.pathsep)
        return arguments
    for stream in (*streams, 0, 1, 2):
        os.close(stream)
    ended = os.pidfd_open(pid)
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        connection.sendall(str(code % 256).encode())
    os._exit(0)


if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()  # a collection would copy every page in each fork
    sys.argv[1:] = serve(sys.argv[1])
    try:
        status = sys.modules["mobilerl.cli"].main()
    except SystemExit as usage:
        status = usage.code
    # As at any exit, but for the destruction of modules, which takes a second.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
