"""What devices need: a container engine and its image, the adb server and its phones. Every question has a deadline."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from envs.base import InfraError
from envs.docker_avd.engine import connect
from mobilerl.config import FleetSection
from mobilerl.doctor.check import Check, broken, missing, ok

TIMEOUT_S = 3
"""Longest wait for one answer of a server."""
DOCKER_SOCKET = Path("/var/run/docker.sock")


def docker(fleet: FleetSection, needed: bool) -> Iterator[Check]:
    """The engines of the fleet, and whether they have the image of its devices."""
    for host in fleet.hosts:
        if needed or host or os.environ.get("DOCKER_HOST") or DOCKER_SOCKET.exists():
            yield from _engine(host, fleet.image, needed)
        else:
            yield missing("Docker", False, "no engine runs here", "apt-get install -y docker.io")


def _engine(host: str, image: str, needed: bool) -> Iterator[Check]:
    name = f"Docker at {host}" if host else "Docker"
    try:
        client = connect(host, TIMEOUT_S)
    except InfraError as error:
        reason, _, fix = str(error).partition("; ")
        yield broken(name, needed, reason, fix or "pip install 'mobilerl[docker]'")
        return
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    with closing(client):
        try:
            yield ok(name, f"engine {client.version().get('Version', '?')}")
            if needed:
                client.images.get(image)
                yield ok(f"{name}, image", image)
        except ImageNotFound:
            build = "bash docker/phone/build-local.sh" if image == "mobilerl-phone" else f"docker pull {image}"
            yield missing(f"{name}, image", True, f"no image {image}", f"{build}; docker/README.md has all of them")
        except (DockerException, RequestException) as error:
            yield broken(name, needed, f"the engine fails: {_one_line(error)}", "systemctl restart docker")


def adb(fleet: FleetSection, needed: bool) -> Check:
    """The adb server, and whether it reaches the phones that the recipe names."""
    fix = f"pip install 'mobilerl[{fleet.type if needed else 'adb'}]'"
    try:
        from adbutils import AdbClient
        from adbutils.errors import AdbError
    except ImportError:
        return missing("adb", needed, "adbutils is not installed", fix)
    if not needed:
        return Check("adb", "not needed", "adbutils is installed")
    from mobilerl.fleet import adb_server

    server = adb_server(fleet)
    client = AdbClient(server.host, server.port, socket_timeout=TIMEOUT_S)
    try:
        version = client.server_version()  # starts this machine's server if there is none
        states = {device.serial: device.state for device in client.list()}
    except (AdbError, OSError, ValueError, subprocess.SubprocessError) as error:
        detail = f"no adb server answers at {client.host}:{client.port}: {_one_line(error)}"
        return broken("adb", True, detail, f"adb -P {client.port} devices")
    # HOST:PORT serials are connected when they are needed.
    found = {serial: states.get(serial, "device" if ":" in serial else "not attached") for serial in fleet.serials}
    bad = ", ".join(f"{serial}: {state}" for serial, state in found.items() if state != "device")
    if bad:
        return broken(
            "adb", True, bad, "adb devices; unlock the phone and allow USB debugging, or adb connect HOST:PORT"
        )
    return ok("adb", f"server 1.0.{version}, {len(states)} devices attached")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:150] or type(error).__name__
