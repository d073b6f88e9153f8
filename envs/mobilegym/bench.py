"""`Bench`: a process with a MobileGym checkout's own Python, which sets tasks up and judges them on a page of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

CHILD = Path(__file__).with_name("bench_child.py")
LINE_BYTES = 1 << 26
"""Maximum size of a message; states of the phone are 0.5 MB."""
REQUIREMENTS = "bench_env/requirements.txt"
Call = Callable[[str, list[Any]], Awaitable[Any]]
"""(name, arguments) -> result of what the process does to the page. Raises CallFault for what did not work there."""


class CallFault(Exception):
    """What the process asked for did not work. It hears of it, and may have another way."""


class BenchFault(Exception):
    """The checkout's own code has failed."""


class BenchLost(BenchFault):
    """The process has ended, or does not answer in time. The next request starts another one."""


class Bench:
    """`python` is an interpreter with the checkout's requirements. One request runs at a time."""

    def __init__(self, checkout: Path, python: str = "", child: Path = CHILD) -> None:
        self._checkout, self._python, self._program = checkout, python or sys.executable, child
        self._child: asyncio.subprocess.Process | None = None
        self._stderr: IO[bytes] | None = None

    async def ask(self, request: dict[str, Any], call: Call, timeout_s: float) -> Any:
        """The result of a request, see `bench_child`. Raises BenchFault, and ends the process if it is interrupted."""
        if self._child is None:
            await self._start()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(request, call)
        except TimeoutError:
            await self.close()
            raise BenchLost(f"MobileGym's Python does not answer within {timeout_s:g} s") from None
        except BenchFault as fault:
            if isinstance(fault, BenchLost):
                await self.close()
            raise
        except BaseException:
            await self.close()
            raise

    async def _ask(self, request: dict[str, Any], call: Call) -> Any:
        message = await self._exchange(request)
        while "call" in message:
            try:
                reply = {"value": await call(message["call"], message["args"])}
            except CallFault as fault:
                reply = {"fault": str(fault)}
            message = await self._exchange(reply)
        if "error" in message:
            raise BenchFault(message["error"])
        return message["result"]

    async def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._child and self._child.stdin and self._child.stdout
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
            await self._child.stdin.drain()
            line = await self._child.stdout.readline()
            return json.loads(line)
        except (ConnectionError, ValueError):  # the latter for no line, and for one that is too long or not JSON
            raise BenchLost(f"MobileGym's Python has ended: {self._last_line()}") from None

    async def _start(self) -> None:
        self._stderr = tempfile.TemporaryFile()
        try:
            self._child = await asyncio.create_subprocess_exec(
                self._python,
                str(self._program),
                cwd=self._checkout,
                env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"},
                start_new_session=True,
                limit=LINE_BYTES,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._stderr,
            )
        except OSError as error:
            await self.close()
            raise BenchLost(f"{self._python} does not start: {error.strerror}") from None

    async def close(self) -> None:
        """Ends the process. Does nothing if there is none."""
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # together with everything it started
            await child.wait()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _last_line(self) -> str:
        assert self._stderr is not None
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - 4096))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else "no message"
