"""What devices need: KVM, Docker engines, adb and its server, the phones themselves. Every question has a deadline."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, urlsplit

from mobilerl.config import FleetSection
from mobilerl.doctor.check import Check, broken, missing, ok

TIMEOUT_S = 3.0
"""Of one answer of a server."""
KVM = Path("/dev/kvm")
DOCKER_SOCKET = "unix:///var/run/docker.sock"
DOCKER_PORT = 2375
ADB_PORT = 5037
LONGEST = 1 << 20
"""Bytes of an answer that are read at most."""


def kvm(needed: bool, device: Path = KVM, usable: Callable[[Path], bool] | None = None) -> Check:
    usable = usable or (lambda path: os.access(path, os.R_OK | os.W_OK))
    if not device.exists():
        cure = "modprobe kvm_intel || modprobe kvm_amd; in a virtual machine it must allow nested virtualisation"
        return missing("KVM", needed, f"no {device}, which Android emulators need", cure)
    if not usable(device):
        return broken("KVM", needed, f"no permission to use {device}", "usermod -aG kvm $USER; log in anew")
    return ok("KVM", str(device))


# --- Docker ------------------------------------------------------------------------------------------------------


def docker(fleet: FleetSection, needed: bool) -> Iterator[Check]:
    """The engines of the fleet, and whether they have the image of its devices."""
    for host in fleet.hosts:
        url = host or os.environ.get("DOCKER_HOST") or DOCKER_SOCKET
        name = "Docker" if url == DOCKER_SOCKET else f"Docker at {url}"
        if needed or host or os.environ.get("DOCKER_HOST") or Path(urlsplit(DOCKER_SOCKET).path).exists():
            yield from _engine(name, url, fleet.image, needed)
        else:
            yield missing(name, False, "no engine runs here", "apt-get install -y docker.io && systemctl start docker")


def _engine(name: str, url: str, image: str, needed: bool) -> Iterator[Check]:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:  # brackets of an IPv6 address that do not close, say
        scheme = ""
    if scheme == "ssh":
        if find_spec("paramiko") is None:
            yield broken(name, needed, "paramiko, for engines over ssh, is not installed", "pip install 'docker[ssh]'")
        else:
            yield ok(name, "over ssh: not asked")
        return
    if scheme not in ("unix", "tcp", "http"):
        yield broken(
            name, needed, f"{url} is no address of an engine", 'fleet.hosts = ["unix:///PATH"] or ["tcp://HOST:PORT"]'
        )
        return
    try:
        status, version = _get(url, "/version")
        if status != 200 or "Version" not in version:
            raise OSError(f"answered with status {status}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        cure = "systemctl start docker" if url == DOCKER_SOCKET else f"docker -H {url} version"
        if isinstance(error, PermissionError):
            cure = "usermod -aG docker $USER; log in anew"
        yield broken(name, needed, f"no engine answers: {_reason(error)}", cure)
        return
    yield ok(name, f"engine {version['Version']}, API {version.get('ApiVersion', '?')}")
    if needed:
        yield _image(name, url, image)


def _image(name: str, url: str, image: str) -> Check:
    try:
        status, _ = _get(url, f"/images/{quote(image, safe='/:@')}/json")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return broken(f"{name}, image", True, f"no answer: {_reason(error)}", "systemctl restart docker")
    if status != 200:
        cure = "bash docker/phone/build-local.sh" if image == "mobilerl-phone" else f"docker pull {image}"
        return missing(f"{name}, image", True, f"no image {image}", f"{cure}; docker/README.md has all of them")
    return ok(f"{name}, image", image)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)


def _get(url: str, path: str) -> tuple[int, dict]:
    """Status and JSON body of an engine's answer. OSError, HTTPException or ValueError when there is none."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        connection: http.client.HTTPConnection = _UnixConnection(parts.path)
    elif os.environ.get("DOCKER_TLS_VERIFY"):
        with socket.create_connection((parts.hostname or "", parts.port or DOCKER_PORT + 1), TIMEOUT_S):
            return 200, {"Version": "not asked for (TLS)"}
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or DOCKER_PORT, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = json.loads(answer.read(LONGEST) or b"{}")
        return answer.status, body if isinstance(body, dict) else {}
    finally:
        connection.close()


# --- adb ---------------------------------------------------------------------------------------------------------


def adb(fleet: FleetSection, needed: bool) -> Iterator[Check]:
    """The program, the server and their versions; and the phones that the recipe names."""
    program = adb_program()
    cure = f"pip install 'mobilerl[{fleet.type if needed else 'adb'}]', which brings one, or apt-get install -y adb"
    version = None
    if program is None:
        yield missing("adb", needed, "no adb here", cure)
    else:
        version = program_version(program)
        if version is None:
            yield broken("adb", needed, f"{program} does not run", cure)
        else:
            yield ok("adb", f"1.0.{version} ({program})")
    yield from _server(fleet, needed, version)


def adb_program() -> str | None:
    """As adbutils finds it: of the path, or the one it brings along."""
    if find_spec("adbutils") is None:
        import shutil

        return shutil.which("adb")
    import adbutils

    try:
        return adbutils.adb_path()
    except adbutils.AdbError:
        return None


def program_version(program: str) -> int | None:
    """41 for "Android Debug Bridge version 1.0.41". Starts no server."""
    try:
        done = subprocess.run([program, "version"], capture_output=True, text=True, timeout=TIMEOUT_S,
                              stdin=subprocess.DEVNULL)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"version 1\.0\.(\d+)", done.stdout)
    return int(found[1]) if found else None


def _server(fleet: FleetSection, needed: bool, program: int | None) -> Iterator[Check]:
    host, port = server_address(fleet)
    name, where, local = "adb server", f"{host}:{port}", host in ("127.0.0.1", "localhost", "::1")
    try:
        version = int(adb_ask(host, port, "host:version"), 16)
    except ConnectionRefusedError:
        if local:
            yield ok(name, f"none at {where}; one is started when it is needed") if program else missing(
                name, needed, f"none at {where}, and no adb to start one", "apt-get install -y adb")  # fmt: skip
        else:
            yield missing(name, needed, f"none at {where}", f"adb -a -P {port} nodaemon server, on {host}")
        return
    except (OSError, ValueError) as error:
        cure = f"ss -ltnp | grep {port} tells who has the port; export ANDROID_ADB_SERVER_PORT=5038 takes another"
        yield broken(name, needed, f"{where}: {_reason(error)}", cure)
        return
    if program is not None and version != program:
        detail = f"1.0.{version} at {where}, the program is 1.0.{program}: whichever `adb` runs next ends the server"
        yield broken(
            name, needed, detail, "adb kill-server, and one adb for all: PATH, or ADBUTILS_ADB_PATH=/PATH/TO/adb"
        )
    else:
        yield ok(name, f"1.0.{version} at {where}")
    if fleet.type == "adb":
        yield _phones(fleet, host, port)


def _phones(fleet: FleetSection, host: str, port: int) -> Check:
    try:
        listed = adb_ask(host, port, "host:devices")
    except (OSError, ValueError) as error:
        return broken("phones", True, f"the adb server does not list them: {_reason(error)}", "adb devices")
    states = dict(line.split("\t", 1) for line in listed.splitlines() if "\t" in line)
    bad = {s: states.get(s, "not attached") for s in fleet.serials if states.get(s) != "device"}
    bad = {
        s: state for s, state in bad.items() if ":" not in s or state != "not attached"
    }  # those are connected on demand
    if bad:
        said = ", ".join(f"{serial}: {state}" for serial, state in bad.items())
        return broken(
            "phones", True, said, "adb devices; unlock the phone and allow USB debugging, or adb connect HOST:PORT"
        )
    return ok("phones", f"{len(fleet.serials)} named, {len(states)} attached")


def server_address(fleet: FleetSection) -> tuple[str, int]:
    """The recipe's, or adbutils' own."""
    host, _, port = fleet.adb_server.rpartition(":")
    own = os.environ.get("ANDROID_ADB_SERVER_PORT", "")
    default = int(own) if own.isdecimal() else ADB_PORT
    return host or os.environ.get("ANDROID_ADB_SERVER_HOST", "127.0.0.1"), int(port) if port else default


def adb_ask(host: str, port: int, question: str) -> str:
    """An adb server's answer. OSError when there is none, ValueError when it is no adb server's."""
    with socket.create_connection((host, port), TIMEOUT_S) as server:
        server.settimeout(TIMEOUT_S)
        server.sendall(f"{len(question):04x}{question}".encode())
        said = _exactly(server, 4)
        if said not in (b"OKAY", b"FAIL"):
            raise ValueError("no adb server answers there")
        text = _exactly(server, int(_exactly(server, 4), 16)).decode(errors="replace")
    if said == b"FAIL":
        raise ValueError(text)
    return text


def _exactly(server: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = server.recv(size - len(data))
        if not part:
            raise ValueError("it closes the connection without an answer")
        data += part
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {TIMEOUT_S:g} s"
    return getattr(error, "strerror", None) or " ".join(str(error).split())[:150] or type(error).__name__
