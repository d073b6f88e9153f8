"""Checks of the container engines of a fleet: that they answer, have the image, and have room for the devices."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mobilerl.config import FleetSection
from mobilerl.doctor.check import Check, broken, missing
from mobilerl.doctor.machine import CPU_INFO, cpu_flags
from mobilerl.envs.base import InfraError
from mobilerl.models.checkpoint_folder import one_line
from mobilerl.suites.fleet import fleet_type
from mobilerl.training.disk import existing, size

if TYPE_CHECKING:
    from docker import DockerClient

TIMEOUT_S = 3
"""Timeout of each request to an engine, in seconds."""
DOCKER_SOCKET = Path("/var/run/docker.sock")
OLDEST = (20, 10)
"""Oldest version of Docker that has been used."""
SNAPSHOT, CPU_MODEL, CPU_FLAGS = "mobilerl.snapshot", "mobilerl.cpu.model", "mobilerl.cpu.flags"
"""Labels of an image of docker/avd that was baked: the snapshot, and the CPU of the host that baked it."""
EMULATOR_DISK, PHONE_DISK = 2 << 30, 50 << 20
"""Estimates of what one container writes, in bytes."""
SKEW_S = 5.0
_AVD = "docker build -t mobilerl-avd-base -f docker/avd/Dockerfile . && bash docker/avd/bake.sh mobilerl-avd-base"
BUILDS = {
    "mobilerl-phone": "bash docker/phone/build-local.sh",
    "mobilerl-avd": f"{_AVD} mobilerl-avd",
    "mobilerl-androidworld": "docker build -t mobilerl-androidworld docker/androidworld",
}
"""Commands that build the images of docker/README.md."""


def docker(fleet: FleetSection) -> Iterator[Check]:
    """Checks the container engines of the fleet, and what its devices need of each."""
    needed = fleet_type(fleet).starts_containers
    for host in fleet.hosts:
        if needed or host or os.environ.get("DOCKER_HOST") or DOCKER_SOCKET.exists():
            yield from _engine(host, fleet, needed)
        else:
            yield missing("Docker", False, "no engine is running", "apt-get install -y docker.io")


def _engine(host: str, fleet: FleetSection, needed: bool) -> Iterator[Check]:
    name = f"Docker at {host}" if host else "Docker"
    try:
        from mobilerl.envs.docker_avd.engine import connect
    except ImportError:
        yield missing(name, needed, "adbutils is not installed", "pip install 'mobilerl[docker]'")
        return
    try:
        client = connect(host, fleet.tls, TIMEOUT_S)
    except InfraError as error:
        reason, _, fix = str(error).partition("; ")
        yield broken(name, needed, reason, fix or "pip install 'mobilerl[docker]'")
        return
    from docker.errors import DockerException, ImageNotFound
    from requests.exceptions import RequestException

    with closing(client):
        try:
            version = str(client.version().get("Version", "?"))
            numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
            if numbers and numbers < OLDEST:
                yield broken(name, needed, f"engine {version}; 20.10 is the oldest tested", "upgrade Docker")
            else:
                yield Check(name, "ok", f"engine {version}")
            if needed:
                yield from _for_devices(name, fleet, client)
        except ImageNotFound:
            build = BUILDS.get(fleet.image, f"docker pull {fleet.image}")
            yield missing(f"{name}, image", True, f"no image {fleet.image}", f"{build}; see docker/README.md")
        except (DockerException, RequestException) as error:
            yield broken(name, needed, f"the engine fails: {one_line(error)}", "systemctl restart docker")


def _for_devices(name: str, fleet: FleetSection, client: DockerClient) -> Iterator[Check]:
    info = client.info()
    here = info.get("Name") == socket.gethostname()
    count = -(-(fleet.count + fleet.spares) // len(fleet.hosts))
    yield from memory(name, fleet, count, info)
    if here:
        yield disk(name, fleet, count, Path(info.get("DockerRootDir") or "/var/lib/docker"))
        yield ports(name, fleet.publish)
    elif "SystemTime" in info:
        yield clock(name, str(info["SystemTime"]))
    labels = (client.images.get(fleet.image).attrs.get("Config") or {}).get("Labels") or {}
    yield Check(f"{name}, image", "ok", fleet.image)
    if fleet.kvm:
        yield snapshot(name, labels, CPU_INFO.read_text() if here else _cpu_of(client, fleet.image))


def memory(name: str, fleet: FleetSection, count: int, info: Mapping[str, Any]) -> Iterator[Check]:
    """Checks memory and cores of an engine's host for its `count` devices."""
    total, cores = int(info.get("MemTotal", 0)), int(info.get("NCPU", 0))
    needed = count * fleet.memory_mb << 20
    detail = f"{count} devices may use {size(needed)} of {size(total)}"
    if total and needed > total:
        yield broken(f"{name}, memory", fleet.kvm, detail, "a lower --fleet.count or --fleet.memory_mb, or more hosts")
    elif total:
        yield Check(f"{name}, memory", "ok", detail)
    if cores and count * fleet.cpus > 2 * cores:
        detail = f"{count} devices may use {count * fleet.cpus:g} cores, there are {cores}"
        yield broken(f"{name}, CPUs", False, detail, "a lower --fleet.count, or more hosts")


def disk(name: str, fleet: FleetSection, count: int, root: Path) -> Check:
    """Checks the disk on which an engine of this machine keeps what containers write."""
    place = existing(root)
    free, needed = shutil.disk_usage(place).free, count * (EMULATOR_DISK if fleet.kvm else PHONE_DISK)
    detail = f"{size(free)} free in {root}, {count} devices write about {size(needed)}"
    if free < needed:
        return broken(f"{name}, disk", True, detail, "docker system prune, or another `data-root` of the engine")
    return Check(f"{name}, disk", "ok", detail)


def ports(name: str, address: str) -> Check:
    """Checks that ports can be bound on `fleet.publish`; the engine chooses free ones."""
    try:
        with socket.socket() as probe:
            probe.bind((address, 0))
    except OSError as error:
        unknown = error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror)
        why = "is no address of this machine" if unknown else f"cannot be used: {error.strerror}"
        return broken(f"{name}, ports", True, f"fleet.publish {address} {why}", "--fleet.publish 127.0.0.1")
    return Check(f"{name}, ports", "ok", f"free ones on {address}, chosen by the engine")


def clock(name: str, theirs: str, now: datetime | None = None) -> Check:
    """Compares the clock of an engine on another host with this machine's."""
    given = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", theirs))
    seconds = (given - (now or datetime.now(UTC))).total_seconds()
    detail = f"{seconds:+.0f} s to this machine's"
    if abs(seconds) > SKEW_S:
        return broken(f"{name}, clock", True, detail, "timedatectl set-ntp true on both hosts")
    return Check(f"{name}, clock", "ok", detail)


def snapshot(name: str, labels: Mapping[str, str], cpu_info: str) -> Check:
    """Checks that a snapshot was baked on a CPU like this host's, where else it may hang."""
    name, again = f"{name}, snapshot", "bash docker/avd/bake.sh on a host like this one (docker/README.md)"
    if SNAPSHOT not in labels:
        return broken(name, False, "none is recorded in the image: devices boot cold, which takes minutes", again)
    if CPU_FLAGS not in labels:
        return broken(name, False, "the image does not say on which CPU it was baked", again)
    baked, ours = set(labels[CPU_FLAGS].split()), cpu_flags(cpu_info)
    where = f"baked on {labels.get(CPU_MODEL) or 'an unknown CPU'}"
    if absent := sorted(baked - ours):
        few = " ".join(absent[:8]) + (" ..." if len(absent) > 8 else "")
        return broken(name, True, f"{where}, and this host lacks {few}: it may hang or boot cold", again)
    if more := ours - baked:
        return broken(name, False, f"{where}; this host has {len(more)} CPU features more", again)
    return Check(name, "ok", f"{labels[SNAPSHOT]}, {where}")


def _cpu_of(client: DockerClient, image: str) -> str:
    """/proc/cpuinfo of an engine's host, which containers see."""
    said = client.containers.run(image, ["/proc/cpuinfo"], entrypoint="cat", network_mode="none", remove=True)
    return bytes(said).decode(errors="replace")
