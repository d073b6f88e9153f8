"""What a device's container is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """What each container is. Ports are the container's own; the engine chooses the host's, so they never collide."""

    image: str
    fleet: str = "mobilerl"
    hosts: tuple[str, ...] = ("",)
    """Engines, as `docker -H` takes them; "" is what DOCKER_HOST says, or this machine's."""
    adb_port: int = 5555
    console_port: int = 0
    """0: it has none."""
    http_port: int = 0
    """Of a server for tasks within the container; 0: it has none."""
    publish: str = "127.0.0.1"
    """Address of the host at which ports are published; on remote engines one that this machine reaches."""
    kvm: bool = False
    privileged: bool = False
    memory_mb: int = 0
    cpus: float = 0.0
    """Limits; 0: none."""
    environment: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()
    log_dir: Path | None = None
    """Where the last lines of a container that failed go."""
