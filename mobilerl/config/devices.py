"""What plays: phones, AndroidWorld servers, the fleet they come from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from mobilerl.config.types import Count, Positive, Rate, Section, Share

EMULATOR_MB = 3072
"""Least memory of a container with an emulator: the phone's own 2 GB and what runs beside it."""


class PhoneSection(Section):
    """The phones episodes are played on."""

    suite: Literal["sim", "androidworld"] = "sim"
    """`sim`: the embedded phone and its tasks. `androidworld`: AndroidWorld's, on the servers of [androidworld], or
    on containers when fleet.type = "docker"."""
    count: Positive = 64
    """Phones used at once, and so the largest batch of one generation call. Unit: devices."""
    width: Annotated[int, Field(ge=180, le=2160)] = 360
    """Width of the screen of an embedded phone. Unit: pixels."""
    height: Annotated[int, Field(ge=360, le=4320)] = 720
    """Height of the screen of an embedded phone. Unit: pixels."""
    popup_rate: Share = 0.5
    """Chance that an episode is disturbed by a pop-up."""


class AndroidWorldSection(Section):
    """AndroidWorld as a training suite: docs/androidworld.md."""

    servers: tuple[str, ...] = ()
    """http://HOST:PORT[,ADB_SERIAL], one device each."""
    seed: Count = 1000
    """Of the suite: 30 and 42 are kept for tests."""
    step_cap: Positive | None = None
    """No more steps than this, whatever a task's budget says (AndroidWorld: ten times the task's complexity). Unit:
    steps."""
    free_reward: bool = False
    """Train also on instances that give their reward before the agent has done anything."""

    @field_validator("seed")
    @classmethod
    def _seed_is_for_training(cls, seed: int) -> int:
        from envs.androidworld.tasks import check_training_seed

        check_training_seed(seed)
        return seed


class FleetSection(Section):
    """Where the devices come from, and what is done when they fail. Times in seconds."""

    type: Literal["embedded", "docker", "adb"] = "embedded"
    """`embedded`: phones of this process. `docker`: containers, started and removed by the run. `adb`: `serials`."""
    name: str = "mobilerl"
    """Of the fleet; containers are named after it."""
    image: str = "mobilerl-phone"
    """Docker image of a device."""
    adb_port: Positive = 5555
    """Of the container. The image of docker/androidworld has it at 5556."""
    http_port: Positive = 5000
    """Of the container: AndroidWorld's server, with phone.suite = "androidworld"."""
    hosts: tuple[str, ...] = ("",)
    """Docker engines, as `docker -H` takes them; "" is DOCKER_HOST's, or this machine's."""
    publish: str = "127.0.0.1"
    """Address of a Docker host at which its devices' ports are reached."""
    kvm: bool = False
    """Hand /dev/kvm to the containers, as Android emulators need it."""
    privileged: bool = False
    """Start the containers with all rights of the Docker host; emulators do not need it."""
    memory_mb: Count = 512
    """Largest memory of a container; 0: no limit. An emulator needs 3072, and 4096 is better."""
    cpus: Annotated[float, Field(ge=0.0)] = 1.0
    """CPU cores a container may use; 0: no limit. Unit: cores."""
    console: bool = False
    """Whether a device has an emulator console (port 5554 of the container)."""
    environment: tuple[str, ...] = ()
    """Of a container: `NAME=VALUE`, or `NAME` for this process's own value, which is then in no file of the run."""
    serials: tuple[str, ...] = ()
    """For `adb`: as `adb devices` prints them, or HOST:PORT."""
    adb_server: str = ""
    """HOST:PORT of the adb server; empty for this machine's own."""
    reset: Literal["keep", "app_data", "snapshot", "fresh"] = "keep"
    """Between episodes: nothing but the suite's own set-up; clear every app; load `snapshot`; take a new container."""
    snapshot: str = "default_boot"
    """Emulator snapshot that reset = "snapshot" loads."""
    spares: Count = 2
    """Devices beyond `phone.count`, so that one is ready while another is made clean. Unit: devices."""
    boot_s: Rate = 120.0
    """Longest time from starting a device to its first use."""
    refresh_s: Rate = 60.0
    """Longest time of making a device clean, and of a health check."""
    command_s: Rate = 10.0
    """Longest time of one command on a device."""
    check_every_s: Rate = 60.0
    """How often a device that waits is looked at."""
    max_failures: Positive = 3
    """In a row, after which a device is replaced and its place quarantined. Unit: failures."""
    quarantine_s: Rate = 10.0
    """How long a place whose devices keep failing is left empty; it doubles with every further failure."""
    give_up_s: Rate = 900.0
    """Without a single working device for so long the run ends."""

    def check_androidworld(self) -> None:
        """Raises ValueError unless containers of this section can be AndroidWorld's servers."""
        if self.image == FleetSection.model_fields["image"].default:
            raise ValueError(f"the image {self.image} has no AndroidWorld: set fleet.image and fleet.adb_port, as in "
                             "docs/androidworld.md")  # fmt: skip
        if 0 < self.memory_mb < EMULATOR_MB:
            raise ValueError(
                f"fleet.memory_mb is {self.memory_mb}; an emulator needs {EMULATOR_MB}, and 4096 is better"
            )
        if self.reset not in ("keep", "fresh"):
            raise ValueError(f'AndroidWorld sets up its apps itself, and fleet.reset = "{self.reset}" undoes it: '
                             'choose "keep", or "fresh" for a new container each time')  # fmt: skip

    @model_validator(mode="after")
    def _complete(self) -> FleetSection:
        if self.type == "adb" and not self.serials:
            raise ValueError('fleet.type = "adb" needs fleet.serials, as `adb devices` prints them')
        if self.reset == "fresh" and self.type == "adb":
            raise ValueError('fleet.reset = "fresh" needs containers: set fleet.type = "docker"')
        if self.reset == "snapshot" and not self.console:
            raise ValueError('fleet.reset = "snapshot" needs fleet.console = true')
        if self.adb_server and not self.adb_server.rpartition(":")[2].isdecimal():
            raise ValueError(f"fleet.adb_server is {self.adb_server!r}; give HOST:PORT")
        return self
