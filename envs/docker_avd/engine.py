"""One Docker engine, through its SDK. All calls block."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mobilerl.envs.base import InfraError
from mobilerl.envs.claims import Claim
from mobilerl.envs.docker_avd.endpoint import endpoint
from mobilerl.envs.docker_avd.owner import DETACHED, format_owner, is_dead

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

log = logging.getLogger(__name__)
T = TypeVar("T")
LABEL = "mobilerl.fleet"
"""Label of every container that we start. Its value is the name of the fleet."""
OWNER, PLACE = "mobilerl.owner", "mobilerl.place"
STARTING_AT_ONCE = 4
"""Containers that start at the same time on one engine: more would slow each other down."""
LOG_LINES = 200
PHONE_PIDS, EMULATOR_PIDS = 512, 4096
"""Limit of processes and threads in a container."""
NETWORK = "mobilerl-devices"
"""Network of all containers. They cannot reach each other on it, and are reached only through published ports."""
ADB_PORTS = (5556, 5555)
"""Ports of adb in a container, of which the first that an image declares is used: AndroidWorld's, whose image is built
on one that declares the other, then that of an emulator and the embedded phone."""
SEPARATE = "com.docker.network.bridge.enable_icc"


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """What each container runs. Ports are the container's; the engine chooses those of the host, without clashes."""

    image: str
    fleet: str = "mobilerl"
    hosts: tuple[str, ...] = ("",)
    """Engines: addresses as `docker -H` takes them, and names of Docker contexts. "" means what `docker` uses."""
    tls: str = ""
    """Folder of certificates for engines on TCP, or of such folders by host name."""
    console_port: int = 0
    """0 if there is no console."""
    env_has_console: bool = False
    """Whether environments get the console too."""
    http_port: int = 0
    """Port of the task server in the container; 0 if there is none."""
    publish: str = "127.0.0.1"
    """Address of the host on which ports are published; for remote engines, one that this machine can reach."""
    kvm: bool = False
    memory_mb: int = 0
    cpus: float = 0.0
    """Limits of memory and CPUs; 0 means no limit."""
    environment: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()
    log_dir: Path | None = None
    """Folder for the last log lines of containers that failed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A container in the output of `mobilerl fleet status`. `serial` is its address for adb, or "" if it has none;
    `owner` is shortened."""

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
    """One Docker engine. Methods block, and raise InfraError when the engine or the network fails."""

    host: str
    settings: ContainerSettings
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTING_AT_ONCE))

    @property
    def address(self) -> str:
        """Host name under which its published ports are reached."""
        return endpoint(self.host, self.settings.tls).hostname

    def connect(self) -> None:
        """Raises InfraError with the fix when no engine answers."""
        self.client = connect(self.host, self.settings.tls)

    def close(self) -> None:
        self.client.close()

    def claim(self, claim: Claim) -> None:
        """Claims the fleet's name. Engines are told apart by their own ids, as one has many addresses."""
        if not claim.user:
            return
        fleet, engine = self.settings.fleet, self._ask_docker(self.client.info).get("ID") or self.host
        claim.take(
            f"the fleet {fleet} of the Docker engine {engine}", "wait until it ends, or set another --fleet.name"
        )

    def open(self) -> None:
        """Connects, checks what every container will need, and removes what dead owners left behind. Closes the
        connection again when it raises."""
        self.connect()
        try:
            self._check_needs()
            self.network = self._network()
            self.remove_orphans()
        except BaseException:
            self.close()
            raise

    def _check_needs(self) -> None:
        image, where = self.settings.image, self.host or "this machine's engine"
        found = self._ask_docker(lambda: self.client.images.list(name=image))
        if not found:
            raise InfraError(f"{where} has no image {image!r}; docker/README.md says how to build it")
        self._check_ports(found[0].attrs)
        if self.settings.kvm and self.address == "127.0.0.1" and not os.path.exists("/dev/kvm"):
            fix = "`modprobe kvm_intel` or `kvm_amd` makes it"
            raise InfraError(f"fleet.kvm is on, but this machine has no /dev/kvm; {fix}")

    def _check_ports(self, image: Mapping[str, Any]) -> None:
        """Reads the ports that the image declares, if any: with a wrong port the boot would never end."""
        declared = {int(name.partition("/")[0]) for name in image["Config"].get("ExposedPorts") or {}}
        self.adb_port = next((port for port in ADB_PORTS if port in declared), ADB_PORTS[-1])
        for what, port in (("adb", self.adb_port), ("AndroidWorld's server", self.settings.http_port)):
            if port and declared and port not in declared:
                said = f"the image {self.settings.image!r} has ports {', '.join(map(str, sorted(declared)))}"
                raise InfraError(f"{said}, but {what} needs {port}: EXPOSE it")

    def _network(self) -> str:
        """The id of `NETWORK`, which is created if it does not exist."""

        def make() -> str:
            known = [n for n in self.client.networks.list(names=[NETWORK]) if n.name == NETWORK]
            options = {"driver": "bridge", "options": {SEPARATE: "false"}, "labels": {LABEL: ""}}
            network = known[0] if known else self.client.networks.create(NETWORK, check_duplicate=True, **options)
            return network.id

        return self._ask_docker(make)

    def run(self, owner: str, place: int) -> Container:
        """Starts a container with the privileges a device needs; an emulator with KVM keeps the default
        capabilities."""
        s = self.settings
        exposed = [p for p in (self.adb_port, s.console_port, s.http_port) if p]
        labels = {LABEL: s.fleet, OWNER: owner, PLACE: str(place)}
        return self._ask_docker(
            lambda: self.client.containers.run(
                s.image,
                list(s.command) or None,
                detach=True,
                labels=labels,
                init=True,
                network=self.network,
                cap_drop=None if s.kvm else ["ALL"],
                security_opt=["no-new-privileges:true"],
                pids_limit=EMULATOR_PIDS if s.kvm else PHONE_PIDS,
                ports={f"{p}/tcp": (s.publish, None) for p in exposed},
                devices=["/dev/kvm:/dev/kvm:rwm"] if s.kvm else None,
                mem_limit=f"{s.memory_mb}m" if s.memory_mb else None,
                nano_cpus=int(s.cpus * 1e9) or None,
                environment=dict(s.environment),
            )
        )

    def ports(self, container: Container) -> dict[int, int]:
        """Maps the published ports of a container to those of the host."""
        self._ask_docker(container.reload)
        found = (container.attrs["NetworkSettings"]["Ports"] or {}).items()
        bound = {int(name.partition("/")[0]): int(hosts[0]["HostPort"]) for name, hosts in found if hosts}
        if adb_port_of(bound) is None:
            raise self._stop_error(container)
        return bound

    def check_running(self, container: Container) -> None:
        """Raises InfraError, with the end of its log, if the container has stopped."""
        self._ask_docker(container.reload)
        if container.status != "running":
            raise self._stop_error(container)

    def _stop_error(self, container: Container) -> InfraError:
        said = " ".join(self._log(container)[-200:].split())
        return InfraError(f"container {container.name} stopped as soon as it started: {said}")

    def end(self, container: Container, name: str, failed: bool) -> None:
        """Removes a container. Saves its log first if it failed."""
        try:
            with suppress(InfraError):  # it may be gone already
                self._keep_log(container, name, failed)
        finally:
            self._remove_all([container])

    def _keep_log(self, container: Container, name: str, failed: bool) -> None:
        self._ask_docker(container.reload)
        folder = self.settings.log_dir
        if folder is None or (not failed and container.status == "running"):
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.log").write_text(self._log(container), encoding="utf-8", errors="replace")
        except OSError as error:  # a full disk must neither keep the container nor end the run
            log.warning("the log of a container that failed is lost: %s", error)

    def remove(self, labels: dict[str, str]) -> int:
        """Removes every container of this fleet with these labels, running or not. Returns their number."""
        fleet = self.settings.fleet
        found = [c for c in self.containers({LABEL: fleet} | labels) if c.labels[LABEL] == fleet]
        self._remove_all(found)
        return len(found)

    def remove_orphans(self) -> None:
        """Removes containers whose owner was a process that this one can see and that has ended."""
        self._remove_all([c for c in self.containers({LABEL: ""}) if is_dead(c.labels.get(OWNER, DETACHED))])

    def containers(self, labels: dict[str, str]) -> list[Container]:
        """Containers that have all `labels`; an empty value matches any value."""
        wanted = [f"{k}={v}" if v else k for k, v in labels.items()]
        listed = self.client.containers.list
        return self._ask_docker(lambda: listed(all=True, filters={"label": wanted}, ignore_removed=True))

    def list_containers(self, everything: bool = False) -> list[Listed]:
        """The containers of this fleet, or of every fleet, sorted by fleet and place."""
        found = self.containers({LABEL: "" if everything else self.settings.fleet})
        return sorted(map(self._describe, found), key=lambda c: (c.fleet, c.place))

    def _describe(self, container: Container) -> Listed:
        state, labels = container.attrs["State"], container.labels
        health = state.get("Health", {}).get("Status", "")
        found = container.attrs["NetworkSettings"]["Ports"] or {}
        bound = next((found[f"{port}/tcp"] for port in ADB_PORTS if found.get(f"{port}/tcp")), None)
        place = labels.get(PLACE, "")
        broken = "" if place.isdecimal() else f" (broken label {PLACE}={place!r:.40})"
        return Listed(
            fleet=labels[LABEL],
            place=-1 if broken else int(place),
            owner=format_owner(labels.get(OWNER, "")),
            state=state["Status"] + (f" ({health})" if health else "") + broken,
            engine=self.host,
            serial=f"{self.address}:{bound[0]['HostPort']}" if bound else "",
            image=container.attrs["Config"]["Image"],
        )

    def _remove_all(self, containers: Sequence[Container]) -> None:
        """Removes the containers. If some cannot be removed, the first error is raised after trying all."""
        failures = []
        for container in containers:
            if LABEL not in container.labels:
                raise ValueError(f"container {container.name} is not ours")
            try:
                self._ask_docker(partial(_remove, container))
            except InfraError as error:
                failures.append(InfraError(f"cannot remove container {container.name}: {error}"))
        if failures:
            raise failures[0]

    def _log(self, container: Container) -> str:
        return self._ask_docker(lambda: container.logs(tail=LOG_LINES)).decode(errors="replace")

    def _ask_docker(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except _faults() as error:
            where = self.host or "this machine's Docker engine"
            raise InfraError(f"{where}: {_reason(error)[:300]}") from None


def adb_port_of(ports: Mapping[int, int]) -> int | None:
    """The host's port of a container's adb, of its published ports; None if adb's is not among them."""
    return next((ports[port] for port in ADB_PORTS if port in ports), None)


def _remove(container: Container) -> None:
    from docker.errors import APIError, NotFound

    try:
        container.remove(force=True, v=True)
    except APIError as error:
        if not isinstance(error, NotFound) and error.status_code != 409:  # 409: it is being removed already
            raise


def _faults(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """`others`, and exceptions of the SDK when the engine or its connection fails; over ssh also paramiko's, which the
    SDK imports if it is installed."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    ssh = sys.modules.get("paramiko")
    return (DockerException, RequestException, OSError, EOFError, *([ssh.SSHException] if ssh else []), *others)


def _reason(error: Exception) -> str:
    """The error in one line."""
    said = getattr(error, "explanation", None) or str(error) or type(error).__name__
    return " ".join(str(said).split())


def connect(host: str, tls: str = "", timeout_s: float = 60.0) -> DockerClient:
    """A client whose requests take at most `timeout_s`; for `host` and `tls` see `endpoint`. Raises InfraError, with
    the fix, when no engine answers."""
    try:
        # Not `import docker`: in a clone, that is the folder docker/.
        import docker.errors  # noqa: F401
    except ImportError:
        raise InfraError("the Docker SDK is not installed: pip install 'mobilerl[docker]'") from None
    try:
        found = endpoint(host, tls)
    except ValueError as error:  # for example an address with an unclosed bracket
        raise InfraError(f"no Docker engine at {host or 'this machine'}: {error}") from None
    client = None
    try:
        client = found.client(timeout_s)
        client.ping()
    except _faults(ValueError) as error:
        if client is not None:
            client.close()
        where, reason = host or found.url or "this machine", _reason(error)
        fix = found.fix(reason) or "start it (`systemctl start docker`), or set fleet.hosts"
        if found.url.startswith("ssh://") and not sys.modules.get("paramiko"):
            fix = "install what it is reached with (`pip install 'docker[ssh]'`), or set fleet.hosts"
        cause = reason.rpartition("(Caused by ")[2]  # requests tells of its retries first
        raise InfraError(f"no Docker engine answers at {where} ({cause[:160]}); {fix}") from None
    return client
