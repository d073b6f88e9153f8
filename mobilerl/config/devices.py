"""Settings of phones and of the fleet that provides them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from mobilerl.config.marks import ANY, EVALUATIONS, NotWith, OnlyWith, UsedBy
from mobilerl.config.types import Count, Positive, Rate, Section, Share, Url, Variable

DRAWN = OnlyWith({"fleet.type": ("embedded", "docker"), "suite.url": ANY})
POPULATED = NotWith("suite.type", ("androidworld", "androidlab", "miniwob", "mobilegym", "instructions"))
UNJUDGED = NotWith("judge.reward", (True,))
DOCKER, ADB = OnlyWith({"fleet.type": ("docker",)}), OnlyWith({"fleet.type": ("adb",)})
FLEET = OnlyWith({"fleet.type": ("docker", "adb")})
COUNTED = UsedBy(("train", "sft", "pages", "fleet", *EVALUATIONS))


class PhoneSection(Section):
    """The phones that episodes run on."""

    width: Annotated[int, Field(ge=180, le=2160), DRAWN] = 360
    """Screen width of an embedded phone, or of the pages of a web app (`suite.url`), in pixels."""
    height: Annotated[int, Field(ge=360, le=4320), DRAWN] = 720
    """Screen height of such a phone, in pixels. Its density makes 360 dp of the width, and about 800 of that of a
    tablet, which is a screen squarer than 1.65 to 1."""
    popup_rate: Annotated[Share, POPULATED] = 0.5
    """Probability that a pop-up interrupts an episode."""
    languages: Annotated[tuple[Literal["en", "de", "ar"], ...], POPULATED] = ("en",)
    """Languages of the interface: English, German and Arabic, whose screens are mirrored. The task's seed chooses the
    one that an episode's phone shows; goals are in English."""
    partial_credit: Annotated[bool, POPULATED, UNJUDGED, UsedBy(("train",))] = False
    """Reward a failed episode with half the fraction of the task's conditions that hold at its end. It counts as failed
    all the same."""

    @property
    def screen(self) -> str:
        """Size of an embedded phone's screen, as in `1600x2560`."""
        return f"{self.width}x{self.height}"

    @field_validator("languages")
    @classmethod
    def _some(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        if not languages:
            raise ValueError('it is empty; name at least one language, as in ["en"]')
        return languages


class FleetSection(Section):
    """Where devices come from, and what happens when they fail. Times are in seconds."""

    type: Literal["embedded", "docker", "adb", "browser"] = "embedded"
    """Type of devices: `embedded` phones in this process, `docker` containers that the run starts and removes, the
    `adb` devices named in `serials`, or pages of a `browser`, Chromium, that the run starts."""
    count: Annotated[Positive, COUNTED] = 16
    """Number of devices used at once, which is also the largest batch of one generation call."""
    name: Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"), DOCKER] = "mobilerl"
    """Name of the fleet, stored as a label of its containers."""
    image: Annotated[str, DOCKER] = "mobilerl-phone"
    """Docker image of a device, whose adb has port 5555 or, as the image then declares, 5556."""
    hosts: Annotated[tuple[Url, ...], DOCKER] = ("",)
    """Docker engines, in the form of `docker -H` or as names of Docker contexts; "" for the one that `docker` uses."""
    tls: Annotated[str, DOCKER] = ""
    """Folder with `ca.pem`, `cert.pem` and `key.pem` for engines at tcp://, or with such a folder for each host name;
    DOCKER_TLS_VERIFY and DOCKER_CERT_PATH by default."""
    publish: Annotated[str, DOCKER] = "127.0.0.1"
    """Address of a Docker host on which device ports are published."""
    kvm: Annotated[bool, DOCKER] = False
    """Pass /dev/kvm to the containers, which Android emulators need."""
    memory_mb: Annotated[Count, DOCKER] = 512
    """Memory limit of a container in MB; 0 for none. An emulator needs 3072, and 4096 is better."""
    cpus: Annotated[float, Field(ge=0.0), DOCKER] = 1.0
    """CPU limit of a container, in cores; 0 for none."""
    environment: Annotated[tuple[Variable, ...], DOCKER] = ()
    """Environment variables of a container: `NAME=VALUE`, or `NAME` to take this process's value. Values are not
    written to any file of the run."""
    serials: Annotated[tuple[str, ...], ADB] = ()
    """Serials of `adb` devices as printed by `adb devices`, or HOST:PORT."""
    program: Annotated[str, OnlyWith({"fleet.type": ("browser",)})] = ""
    """Chromium to run; empty for the one that is installed, or Playwright's own."""
    reset: Annotated[Literal["keep", "app_data", "snapshot", "fresh"], FLEET] = "keep"
    """Reset between episodes: `keep` only runs the suite's own set-up, `app_data` clears all apps, `snapshot` loads the
    snapshot `default_boot` through the emulator console (port 5554 of the container), `fresh` starts a new container.
    The last two need type = "docker"."""
    spares: Annotated[Count, FLEET] = 2
    """Number of devices beyond `fleet.count` that are used while others are reset."""
    boot_s: Annotated[Rate, FLEET] = 120.0
    """Maximum time from starting a device to its first use."""
    refresh_s: ClassVar[float] = 60.0
    """Maximum time of a device reset and of a health check; not a setting."""
    give_up_s: ClassVar[float] = 900.0
    """Time without any working device after which the run ends; not a setting."""

    @model_validator(mode="after")
    def _complete(self) -> FleetSection:
        if self.type == "adb" and not self.serials:
            raise ValueError('fleet.type = "adb" needs fleet.serials, as `adb devices` prints them')
        if self.reset in ("snapshot", "fresh") and self.type == "adb":
            raise ValueError(f'fleet.reset = "{self.reset}" needs containers: set fleet.type = "docker"')
        return self
