"""The run's side of the vLLM process: starts it, asks it, and notices when it dies or hangs."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mobilerl.engines.base import EngineError
from mobilerl.engines.vllm.channel import Channel

MODULE = "mobilerl.engines.vllm.host"
END_S = 15.0
"""For the process to end by itself, its workers with it."""
TRACKER_S = 2.0
"""For what Python has beside it to give back what is left of its shared memory."""
LOOK_S = 0.5
CLOSED = "the vLLM process was closed"
CURE = 'go on with --resume, on less of the GPU (vllm.gpu_memory) or with engine.sampler = "own" if it repeats'
TRIES = 3
"""vLLM chooses a port that is free and takes it later: by then another program may have it."""
_TAKEN = re.compile("EADDRINUSE|address already in use", re.IGNORECASE)
_ERROR = re.compile(r"\b\w+(Error|Exception): .*")
_POINTERS = re.compile("EngineDeadError|root cause")
"""Of errors that only say that there was another one."""


@dataclass(frozen=True, slots=True)
class _Asked:
    what: str
    deadline: float
    answer: Future[dict[str, Any]]


class VllmProcess:
    """Answers come as futures, in any order. Once it failed, every question is answered with the same EngineError."""

    def __init__(
        self, start: Mapping[str, Any], environment: Mapping[str, str], folder: Path, timeout_s: float
    ) -> None:
        """Blocks until vLLM is ready. `folder` is the process's to remove when the run is gone; its log is there."""
        self.log, self._timeout_s = folder / "vllm.log", timeout_s
        self._failure: EngineError | None = None
        self._asked: dict[str, _Asked] = {}
        self._changing = threading.Lock()
        self._count = 0
        for left in reversed(range(TRIES)):
            try:
                self._start({"folder": str(folder), **start}, environment)
                break
            except EngineError as error:
                if not left or not _TAKEN.search(str(error)):
                    raise
        self._watcher = threading.Thread(target=self._watch, name="vllm", daemon=True)
        self._watcher.start()

    def _start(self, message: dict[str, Any], environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs, open(self.log, "wb") as log:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(fd)], pass_fds=[fd], env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._channel = Channel(ours.detach())
        try:
            self._await_start(message)
        except BaseException:
            self._kill()  # before the channel ends, upon which the process would remove its log
            self._channel.close()
            raise

    def _await_start(self, message: dict[str, Any]) -> None:
        cure = 'set vllm.* to what this machine has, or engine.sampler = "own"'
        try:
            self._channel.send(message)
            if not self._channel.poll(self._timeout_s):
                raise EngineError(f"vLLM is not ready after {self._timeout_s:g} s (log: {self.log}); {cure}")
            self._channel.receive()
        except (EOFError, OSError):
            raise EngineError(f"vLLM does not start ({self._last_error()}; log: {self.log}); {cure}") from None

    @property
    def pid(self) -> int:
        """Of the process, and the id of its group."""
        return self._process.pid

    def ask(self, op: str, message: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> Future[dict[str, Any]]:
        """The answer without its `id`; ValueError where vLLM refused what was asked."""
        asked = _Asked(op, time.monotonic() + self._timeout_s, Future())
        with self._changing:
            if self._failure is not None:
                raise self._failure
            self._count += 1
            name = str(self._count)
            self._asked[name] = asked
        try:
            self._channel.send({"op": op, "id": name, **message}, blobs)
        except OSError:
            self.fail(f"vLLM died ({self._last_error()}; log: {self.log}); {CURE}")
        return asked.answer

    def _watch(self) -> None:
        try:
            while self._failure is None:
                if self._channel.poll(LOOK_S):
                    self._take(self._channel.receive()[0])
                with self._changing:
                    oldest = next(iter(self._asked.values()), None)
                if oldest is not None and time.monotonic() > oldest.deadline:
                    self.fail(f"vLLM hangs: no answer to {oldest.what} in {self._timeout_s:g} s (vllm.timeout_s; "
                              f"log: {self.log}); {CURE}")  # fmt: skip
        except (EOFError, OSError):
            self.fail(f"vLLM died ({self._last_error()}; log: {self.log}); {CURE}")

    def _take(self, message: dict[str, Any]) -> None:
        with self._changing:
            asked = self._asked.pop(message.pop("id"), None)
        if asked is None or not asked.answer.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        if "error" in message:
            asked.answer.set_exception(ValueError(f"vLLM refused: {message['error']}"))
        else:
            asked.answer.set_result(message)

    def fail(self, reason: str) -> None:
        """Ends the process; who waits is told why. Only the first reason counts."""
        with self._changing:
            if self._failure is not None:
                return
            self._failure = EngineError(reason)
            waiting, self._asked = list(self._asked.values()), {}
        self._kill()
        for asked in waiting:
            if asked.answer.set_running_or_notify_cancel():
                asked.answer.set_exception(self._failure)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _last_error(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        named = [line for line in map(_ERROR.search, lines) if line and not _POINTERS.search(line[0])]
        return " ".join((named[-1][0] if named else lines[-1] if lines else "it wrote no log").split())[:300]

    def close(self) -> bool:
        """Lets vLLM end by itself, which gives shared memory back; kills it when it does not. False: it had failed."""
        with self._changing:
            failed, self._failure = self._failure, self._failure or EngineError(CLOSED)
            waiting, self._asked = list(self._asked.values()), {}
        for asked in waiting:
            if asked.answer.set_running_or_notify_cancel():
                asked.answer.set_exception(self._failure)
        if failed is None:
            self._watcher.join(END_S)
            self._channel.close()  # the process takes it as the end of the run
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            until = time.monotonic() + TRACKER_S
            while self._lives() and time.monotonic() < until:
                time.sleep(0.05)
            self._kill()
        return str(failed or CLOSED) == CLOSED

    def _lives(self) -> bool:
        """Does any process of the group? Those that ended count until somebody has asked how."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 0)
            return True
        return False
