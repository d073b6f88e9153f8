"""Where an AndroidWorld server and its phone are, as the command line says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


class StartupError(ValueError):
    """A server that cannot be used; the message is one line with the cure."""


@dataclass(frozen=True, slots=True)
class Address:
    """`http://HOST:PORT[,SERIAL[@ADB_HOST:ADB_PORT]]`: a server, and its phone on an adb server (this machine's)."""

    url: str
    serial: str = ""
    adb_host: str | None = None
    adb_port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        url, _, phone = text.partition(",")
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
        except ValueError:
            usable = False
        if not usable or parts.path.strip("/") or parts.query:
            raise StartupError(f"--server {text!r} is not http://HOST:PORT[,ADB_SERIAL], as in "
                               "http://127.0.0.1:5000,emulator-5554")  # fmt: skip
        serial, _, adb = phone.partition("@")
        if not adb:
            return cls(url.rstrip("/"), serial)
        host, _, port = adb.rpartition(":")
        if not host or not port.isdecimal():
            raise StartupError(f"--server {text!r}: {adb!r} is not the HOST:PORT of an adb server")
        return cls(url.rstrip("/"), serial, host, int(port))

    @property
    def device_id(self) -> str:
        return urlsplit(self.url).netloc


def parse_addresses(texts: Sequence[str]) -> list[Address]:
    """Raises StartupError for none, for one that is there twice, and for phones of which only some are on adb."""
    addresses = [Address.parse(text) for text in texts]
    if not addresses:
        raise StartupError("--server http://HOST:PORT[,ADB_SERIAL] is missing: it says where AndroidWorld runs "
                           "(or --fleet N: it starts N containers)")  # fmt: skip
    _refuse_twins("server", [a.url for a in addresses])
    _refuse_twins("phone", [f"{a.serial}@{a.adb_host}:{a.adb_port}" for a in addresses if a.serial])
    if len({bool(a.serial) for a in addresses}) > 1:
        raise StartupError("--server: give an ADB serial with every server or with none: episodes seen over adb and "
                           "over HTTP do not belong into one number")  # fmt: skip
    return addresses


def _refuse_twins(what: str, names: Sequence[str]) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        name = twice.removesuffix("@None:None")
        raise StartupError(f"--server: the {what} {name} is there twice; one phone plays one episode at a time")
