"""The emulator console of a served phone: the commands that test harnesses of Android emulators send.

A line protocol on TCP: CRLF lines, each answer ends with OK or KO.
"""

from __future__ import annotations

import asyncio
import copy
import hmac
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from mobilerl.envs.phone import telephony
from mobilerl.envs.phone.apps.messages import RECEIVED
from mobilerl.envs.phone.phone import Phone

Exclusive = Callable[[Callable[[], str]], Awaitable[str]]
GREETING = "Android Console: type 'help' for a list of commands"
LOCKED = "Android Console: Authentication required\r\nAndroid Console: type 'auth <auth_token>' to authenticate"
UNKNOWN = "unknown command"
MAX_LINE = 4096
MAX_SNAPSHOTS = 16
"""A snapshot is a copy of the whole phone, in memory."""
STORED = "ID        TAG                 VM SIZE                DATE       VM CLOCK"
SAVED = "2023-10-15 15:34:00   00:00:01.000"

State = dict[str, Any]
_STORED = ("settings", "files", "mtimes", "calls", "clipboard", "display", "location", "_clock")
_SHOWN = ("inputs", "popup", "panel", "call", "awake", "held", "notifications", "current", "_popup_plan", "_recent")
_OF_PHONE = (*_STORED, *_SHOWN)
_OF_APP = ("stack", "snack", "db", "prefs")


class Ko(Exception):
    """A command that failed, in the console's words."""


def _encode(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode()


class Console:
    """Serves one phone's console. With a token nothing works before `auth`, as on an emulator."""

    def __init__(
        self,
        phone: Phone,
        exclusive: Exclusive,
        token: str = "",
        host: str = "127.0.0.1",
        kill: Callable[[], None] = lambda: None,
    ) -> None:
        self.phone, self.token, self.host = phone, token, host
        self._exclusive, self._kill = exclusive, kill
        self._snapshots: dict[str, State] = {}
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """Listens; returns the port. The phone as it is now becomes the snapshot `default_boot`."""
        self._save("default_boot")
        self._server = await asyncio.start_server(self._accept, self.host, port, limit=MAX_LINE)
        return self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known = not self.token
        writer.write(_encode(GREETING if known else LOCKED, "OK"))
        with suppress(OSError, ValueError):
            while line := (await reader.readline()).decode(errors="replace"):
                words = line.split()
                if words[:1] in (["quit"], ["exit"]):
                    break
                if words[:1] == ["auth"]:
                    known = hmac.compare_digest(" ".join(words[1:]).encode(), self.token.encode())
                    writer.write(_encode(GREETING, "OK") if known else _encode("KO: authentication token mismatch"))
                elif words:  # an empty line is no command
                    writer.write(await self._answer(line.strip()) if known else _encode(f"KO: {UNKNOWN}"))
                await writer.drain()
        writer.close()

    async def _answer(self, line: str) -> bytes:
        if line == "kill":
            self._kill()
            return _encode("OK: killing emulator, bye bye", "OK")
        try:
            said = await self._exclusive(lambda: self._run(line))
        except Ko as ko:
            return _encode(f"KO: {ko}")
        return _encode(*said.splitlines(), "OK")

    def _run(self, line: str) -> str:
        words = line.split()
        match words:
            case ["avd", "name"]:
                return "mobilerl_phone\n"
            case ["avd", "snapshot", *rest]:
                return self._snapshot(rest)
            case ["geo", "fix", longitude, latitude, *_]:
                return self._geo(longitude, latitude)
            case ["sms", "send", number, *text] if text:
                return self._sms(number, line.split(None, 3)[3])
            case ["rotate"]:
                self.phone.turn()
                return ""
            case ["gsm", "call", number]:
                telephony.ring(self.phone, number)
                return ""
        raise Ko(UNKNOWN)

    def _snapshot(self, words: list[str]) -> str:
        match words:
            case ["list"]:
                rows = "".join(f"--        {name:15}         75M {SAVED}\n" for name in self._snapshots)
                return f"List of snapshots present on all disks:\n{STORED}\n{rows}"
            case ["save", name]:
                if name not in self._snapshots and len(self._snapshots) >= MAX_SNAPSHOTS:
                    raise Ko(f"no room for snapshot '{name}': {MAX_SNAPSHOTS} are stored")
                self._save(name)
                return ""
            case ["load", name]:
                if name not in self._snapshots:
                    raise Ko(f"Snapshot '{name}' does not exist")
                restore_snapshot(self.phone, self._snapshots[name])
                return ""
        raise Ko("missing or bad snapshot sub-command")

    def _save(self, name: str) -> None:
        self._snapshots[name] = take_snapshot(self.phone)

    def _geo(self, longitude: str, latitude: str) -> str:
        try:
            place = float(longitude), float(latitude)
        except ValueError:
            raise Ko("argument is not a number") from None
        if not (-180 <= place[0] <= 180 and -90 <= place[1] <= 90):
            raise Ko("invalid longitude or latitude")
        self.phone.set_location(*place)
        return ""

    def _sms(self, number: str, text: str) -> str:
        messages = self.phone.app("Messages")
        assert messages is not None
        messages.insert("messages", address=number, body=text, type=RECEIVED, read=0)
        self.phone.invalidate()
        return ""


def take_snapshot(phone: Phone) -> State:
    """The phone's whole state. Nothing that happens to the phone later changes what was taken."""
    state = {name: getattr(phone, name) for name in _OF_PHONE}
    apps = {package: {name: getattr(app, name) for name in _OF_APP} for package, app in phone.apps.items()}
    return copy.deepcopy(state | {"apps": apps})


def restore_snapshot(phone: Phone, state: State) -> None:
    """May be done any number of times with one state. The phone counts as not rebooted."""
    state = copy.deepcopy(state)
    for name in _OF_PHONE:
        setattr(phone, name, state[name])
    for package, values in state["apps"].items():
        for name, value in values.items():
            setattr(phone.apps[package], name, value)
    phone.invalidate()
