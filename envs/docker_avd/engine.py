"""One Docker engine, through its SDK. Everything here blocks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from envs.base import InfraError
from envs.docker_avd.owner import DETACHED, is_dead

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

T = TypeVar("T")
LABEL = "mobilerl.fleet"
"""On every container of ours; its value is the fleet's name."""
OWNER, PLACE = "mobilerl.owner", "mobilerl.place"
STARTING_AT_ONCE = 4
"""Containers that start at the same time on one engine: more make each other slower."""
LOG_LINES = 200


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


@dataclass(frozen=True, slots=True)
class Listed:
    """A container as `mobilerl fleet status` shows it. `serial` is where adb reaches it, "" while it is nowhere."""

    fleet: str
    place: int
    state: str
    owner: str
    serial: str
    engine: str
    image: str

    @property
    def running(self) -> bool:
        return self.state.startswith("running")


@dataclass
class Engine:
    """One Docker engine. Methods block, and raise InfraError for whatever the engine or the network does."""

    host: str
    settings: ContainerSettings
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTING_AT_ONCE))

    @property
    def address(self) -> str:
        """Where its published ports are reached."""
        url = urlsplit(self.host or os.environ.get("DOCKER_HOST", ""))
        return url.hostname if url.scheme in ("tcp", "ssh", "http", "https") and url.hostname else "127.0.0.1"

    def connect(self) -> None:
        """InfraError with the cure when no engine answers."""
        self.client = connect(self.host)

    def close(self) -> None:
        self.client.close()

    def open(self) -> None:
        """Connects, and checks what every container will need."""
        self.connect()
        image, where = self.settings.image, self.host or "this machine's engine"
        if not self._asked(lambda: self.client.images.list(name=image)):
            raise InfraError(f"{where} has no image {image!r}; docker/README.md says how to build it")
        if self.settings.kvm and self.address == "127.0.0.1" and not os.path.exists("/dev/kvm"):
            cure = "`modprobe kvm_intel` or `kvm_amd` makes it"
            raise InfraError(f"fleet.kvm is on, but this machine has no /dev/kvm; {cure}")
        self.remove_orphans()

    def run(self, owner: str, place: int) -> Container:
        s = self.settings
        exposed = [p for p in (s.adb_port, s.console_port, s.http_port) if p]
        labels = {LABEL: s.fleet, OWNER: owner, PLACE: str(place)}
        return self._asked(lambda: self.client.containers.run(
            s.image, list(s.command) or None, detach=True, labels=labels, init=True,
            ports={f"{p}/tcp": (s.publish, None) for p in exposed},
            devices=["/dev/kvm:/dev/kvm:rwm"] if s.kvm else None, privileged=s.privileged,
            mem_limit=f"{s.memory_mb}m" if s.memory_mb else None, nano_cpus=int(s.cpus * 1e9) or None,
            environment=dict(s.environment),
        ))  # fmt: skip

    def ports(self, container: Container) -> dict[int, int]:
        """Published port of the container -> the host's."""
        self._asked(container.reload)
        found = (container.attrs["NetworkSettings"]["Ports"] or {}).items()
        bound = {int(name.partition("/")[0]): int(hosts[0]["HostPort"]) for name, hosts in found if hosts}
        if self.settings.adb_port not in bound:
            said = self._log(container)[-200:]
            raise InfraError(f"container {container.name} stopped as soon as it started: {said}")
        return bound

    def end(self, container: Container, name: str, failed: bool) -> None:
        """Removes a container; keeps its last words when it failed."""
        from docker.errors import NotFound

        with suppress(NotFound):
            container.reload()
            folder = self.settings.log_dir
            if folder is not None and (failed or container.status != "running"):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{name}.log").write_text(self._log(container))
        self._removed(container)

    def remove(self, labels: dict[str, str]) -> int:
        """Removes every container of this fleet with these labels, running or not. Returns how many."""
        found = self.containers({LABEL: self.settings.fleet} | labels)
        for container in found:
            self._removed(container)
        return len(found)

    def remove_orphans(self) -> None:
        """Containers whose owner was a process of this machine that is no more."""
        for container in self.containers({LABEL: ""}):
            if is_dead(container.labels.get(OWNER, DETACHED)):
                self._removed(container)

    def containers(self, labels: dict[str, str]) -> list[Container]:
        """Those that have all `labels`; an empty value stands for any."""
        wanted = [f"{k}={v}" if v else k for k, v in labels.items()]
        listed = self.client.containers.list
        return self._asked(lambda: listed(all=True, filters={"label": wanted}, ignore_removed=True))

    def listed(self, everything: bool = False) -> list[Listed]:
        """The containers of this fleet, or of every fleet, by fleet and place."""
        found = self.containers({LABEL: "" if everything else self.settings.fleet})
        return sorted(map(self._listed, found), key=lambda c: (c.fleet, c.place))

    def _listed(self, container: Container) -> Listed:
        state, labels = container.attrs["State"], container.labels
        health = state.get("Health", {}).get("Status", "")
        bound = (container.attrs["NetworkSettings"]["Ports"] or {}).get(f"{self.settings.adb_port}/tcp")
        return Listed(
            fleet=labels[LABEL], place=int(labels.get(PLACE, -1)), owner=labels.get(OWNER, ""),
            state=state["Status"] + (f" ({health})" if health else ""), engine=self.host,
            serial=f"{self.address}:{bound[0]['HostPort']}" if bound else "", image=container.attrs["Config"]["Image"],
        )  # fmt: skip

    def _removed(self, container: Container) -> None:
        from docker.errors import APIError, NotFound

        if LABEL not in container.labels:
            raise ValueError(f"container {container.name} is not ours")
        try:
            container.remove(force=True, v=True)
        except APIError as error:
            if not isinstance(error, NotFound) and error.status_code != 409:  # 409: it is being removed already
                raise InfraError(f"cannot remove container {container.name}: {error.explanation}") from None

    def _log(self, container: Container) -> str:
        return self._asked(lambda: container.logs(tail=LOG_LINES)).decode(errors="replace")

    def _asked(self, work: Callable[[], T]) -> T:
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            return work()
        except (DockerException, RequestException, OSError) as error:
            said = getattr(error, "explanation", None) or str(error)
            where = self.host or "this machine's Docker engine"
            raise InfraError(f"{where}: {' '.join(str(said).split())[:300]}") from None


def connect(host: str) -> DockerClient:
    """Raises InfraError with the cure when the package or the engine is not there."""
    try:
        import docker
    except ImportError:
        raise InfraError("the Docker SDK is not installed: pip install 'mobilerl[docker]'") from None
    try:
        client = docker.DockerClient(base_url=host) if host else docker.from_env()
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        where = host or os.environ.get("DOCKER_HOST") or "this machine"
        reason = " ".join(str(error).split())[:160]
        raise InfraError(
            f"no Docker engine answers at {where} ({reason}); start it (`systemctl start docker`), or set fleet.hosts"
        ) from None
    return client
