"""Settings of suites, the sources of training tasks. `suite.type` selects the suite; each has its own settings."""

from __future__ import annotations

from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mobilerl.config.devices import FleetSection
from mobilerl.config.marks import RESUMABLE
from mobilerl.config.types import Count, Positive, Section, Weight, type_of, union_of
from mobilerl.envs.instructions.web import address
from mobilerl.envs.plugins import with_plugins

EMULATOR_MB = 3072
"""Minimum memory of a container with an emulator, in MB: the phone's 2 GB and everything else in the container."""
ANDROIDWORLD_DEADLINE_S = 1800.0
"""Minimum episode deadline; with a shorter one, long episodes would count as failures of healthy servers."""


TYPE = Field(
    description="Suite of tasks: `phone` for the embedded phone's own apps, `generated` for apps made from a seed, "
    "`androidworld` for AndroidWorld's, `androidlab` and `instructions` for those of a file, in AndroidLab's apps or "
    "your own, `miniwob` for MiniWoB++, `mobilegym` for MobileGym's."
)


class SuiteBase(Section):
    """Base class of the sections of suites."""

    type: str
    module: ClassVar[str]
    """Module with `make(recipe) -> Suite` and `is_held_out(task) -> bool`."""
    evaluation: ClassVar[str] = "mobilerl.suites.command:PlanCommand"
    """Class of `mobilerl eval NAME`, an `EvalCommand` of `mobilerl.suites.command`, as module:class."""
    fleets: ClassVar[tuple[str, ...]] = ("embedded", "docker", "adb")
    """Values of `fleet.type` on whose devices the tasks run."""
    task_suite: ClassVar[str] = ""
    """`Task.suite`, which is also the NAME in `mobilerl eval` and the suite in results.json; "" if it is the type."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError unless the suite can be trained on with this fleet, `rollout.workers` and deadline."""


class PhoneSuiteSection(SuiteBase):
    """Tasks of the embedded phone."""

    module = "mobilerl.suites.phone.training"
    evaluation = "mobilerl.suites.phone.command:SimCommand"
    task_suite = "sim"
    type: Annotated[Literal["phone"], TYPE] = "phone"


class GeneratedSuiteSection(SuiteBase):
    """Apps and tasks generated from a seed, on embedded phones (docs/data.md)."""

    module = "mobilerl.suites.generated.training"
    evaluation = "mobilerl.suites.generated.command:GeneratedCommand"
    type: Annotated[Literal["generated"], TYPE] = "generated"
    apps: Positive = 512
    """Number of apps to train on."""


class AndroidWorldSuiteSection(SuiteBase):
    """AndroidWorld's tasks (docs/benchmarks.md)."""

    module = "mobilerl.suites.androidworld.training"
    evaluation = "mobilerl.suites.androidworld.command:AndroidWorldCommand"
    type: Annotated[Literal["androidworld"], TYPE] = "androidworld"
    servers: Annotated[tuple[str, ...], RESUMABLE] = ()
    """AndroidWorld servers as http://HOST:PORT[,ADB_SERIAL], one device each; empty to start containers with
    fleet.type = "docker"."""
    step_cap: Positive | None = None
    """Upper limit of each task's step budget, which is ten times its complexity in AndroidWorld; null for none."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError unless the suite can be trained on with this fleet, `rollout.workers` and deadline."""
        if fleet.type == "docker":
            check_androidworld_fleet(fleet)
            if self.servers:
                raise ValueError(
                    'suite.servers are already running, and fleet.type = "docker" starts its own: leave one of them out'
                )
        elif fleet.type == "adb":
            raise ValueError("suite.servers name AndroidWorld's phones, as URL,ADB_SERIAL: leave fleet.type = adb out")
        elif not self.servers:
            raise ValueError(
                'suite.type = "androidworld" needs suite.servers, or fleet.type = "docker", which starts them'
            )
        if workers:
            raise ValueError('suite.type = "androidworld" runs in one process: set rollout.workers = 0')
        if deadline_s < ANDROIDWORLD_DEADLINE_S:
            raise ValueError(
                f"episodes of AndroidWorld take long: set agent.deadline_s to at least {ANDROIDWORLD_DEADLINE_S:g}"
            )


class FileSuite(SuiteBase):
    """Base class of the sections of suites whose tasks are in a file."""

    file: Annotated[str, RESUMABLE] = ""
    """File with the instructions, *.toml or *.jsonl."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError unless a file is given and collection runs in one process."""
        if not self.file:
            raise ValueError(f'suite.type = "{self.type}" needs suite.file, a *.toml or *.jsonl of instructions')
        if workers:
            raise ValueError(f'suite.type = "{self.type}" runs in one process: set rollout.workers = 0')


class InstructionsSuiteSection(FileSuite):
    """Your own instructions, on your own app or web app (docs/instructions.md)."""

    module = "mobilerl.suites.instructions.training"
    evaluation = "mobilerl.suites.instructions.command:InstructionsCommand"
    fleets = ("embedded", "docker", "adb", "browser")
    type: Annotated[Literal["instructions"], TYPE] = "instructions"
    url: Annotated[str, RESUMABLE] = ""
    """Address of a web app, such as http://127.0.0.1:3000, for fleet.type = "browser"; pages reach no other."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError unless there is a file, and a web app for pages of Chromium and no others."""
        super().check(fleet, workers, deadline_s)
        if fleet.type == "browser":
            try:
                address(self.url)
            except ValueError as error:
                raise ValueError(f"suite.url: {error}") from None
        elif self.url:
            raise ValueError('suite.url is a web app, which runs on pages: set fleet.type = "browser"')


class AndroidLabSuiteSection(FileSuite):
    """Your own instructions in AndroidLab's apps, set up as its tasks are (docs/benchmarks.md)."""

    module = "mobilerl.suites.androidlab.training"
    evaluation = "mobilerl.suites.androidlab.command:AndroidLabCommand"
    type: Annotated[Literal["androidlab"], TYPE] = "androidlab"
    checkout: Annotated[str, RESUMABLE] = ""
    """Your checkout of AndroidLab, for its table of apps and for its tasks, which are not trained on."""
    snapshot: str = ""
    """Snapshot that emulators (`emulator-5554`) load before every episode, such as `default_boot`; empty for none."""
    from_home: bool = False
    """Start at the home screen instead of in the task's app."""
    interval_s: Weight = 3.0
    """Pause after every action, in seconds."""
    launch_wait_s: Weight = 15.0
    """Wait for the task's app at the start, in seconds."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError without a file, a checkout, or a fleet of emulators."""
        super().check(fleet, workers, deadline_s)
        if not self.checkout:
            raise ValueError(
                'suite.type = "androidlab" needs suite.checkout, your checkout of github.com/THUDM/Android-Lab: its '
                "tasks are held out from training"
            )
        if fleet.type == "embedded":
            raise ValueError('AndroidLab\'s apps are not on embedded phones: set fleet.type = "adb" or "docker"')


class MiniWoBSuiteSection(SuiteBase):
    """MiniWoB++ on pages of Chromium (docs/benchmarks.md)."""

    module = "mobilerl.suites.miniwob.training"
    evaluation = "mobilerl.suites.miniwob.command:MiniWoBCommand"
    fleets = ("browser",)
    type: Annotated[Literal["miniwob"], TYPE] = "miniwob"
    subset: Literal["all", "mobile", "scripted"] = "mobile"
    """Tasks to use without `tasks.templates`: `all` of the package, those of MobileMiniWoB++ (`mobile`), or those that
    the oracle solves (`scripted`)."""
    reward: Literal["raw", "discounted"] = "raw"
    """Reward of the page, or this times the share of the step budget that was left."""
    max_steps: Positive = 30
    """Step budget of an episode."""


class MobileGymSuiteSection(SuiteBase):
    """MobileGym's tasks, on pages of Chromium with its simulated phone (docs/benchmarks.md)."""

    module = "mobilerl.suites.mobilegym.training"
    evaluation = "mobilerl.suites.mobilegym.command:MobileGymCommand"
    fleets = ("browser",)
    type: Annotated[Literal["mobilegym"], TYPE] = "mobilegym"
    checkout: Annotated[str, RESUMABLE] = ""
    """Your checkout of MobileGym, in which `npm run build` has run."""
    python: Annotated[str, RESUMABLE] = ""
    """Interpreter with the requirements of its `bench_env`, which sets tasks up and judges them; empty for this one."""
    sample_seed: Count = 42
    """Seed of the parameters of all tasks, as `--sample-seed` of MobileGym's own runner."""
    reward: Literal["success", "progress"] = "success"
    """Reward of an episode: 1 for a success and otherwise 0, or (`progress`) half of the share of its goal's
    conditions that hold."""
    scale: Annotated[float, Field(ge=1.0, le=4.0)] = 3.0
    """Pixels of a screenshot per density-independent pixel of the screen, which is 360 x 800; the benchmark's is 3."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError without a checkout."""
        if not self.checkout:
            raise ValueError(
                'suite.type = "mobilegym" needs suite.checkout, your checkout of MobileGym, as docs/benchmarks.md '
                "gets it"
            )


OWN: dict[str, type[SuiteBase]] = {
    "phone": PhoneSuiteSection,
    "generated": GeneratedSuiteSection,
    "androidworld": AndroidWorldSuiteSection,
    "androidlab": AndroidLabSuiteSection,
    "miniwob": MiniWoBSuiteSection,
    "mobilegym": MobileGymSuiteSection,
    "instructions": InstructionsSuiteSection,
}


@cache
def suite_sections() -> dict[str, type[SuiteBase]]:
    """Sections by `suite.type`: our own and those of installed packages (entry points `mobilerl.suites`)."""
    return with_plugins(OWN, "mobilerl.suites", SuiteBase, type_of)


def suite_name(section: type[SuiteBase]) -> str:
    """`Task.suite` of a suite's tasks, and its name in `mobilerl eval` and in results.json."""
    return section.task_suite or type_of(section)


SuiteSection = union_of(OWN, "phone")


def check_androidworld_fleet(fleet: FleetSection) -> None:
    """Raises ValueError unless containers of this fleet can be AndroidWorld servers."""
    if fleet.image == FleetSection.model_fields["image"].default:
        raise ValueError(f"the image {fleet.image} has no AndroidWorld: set fleet.image, as in docs/benchmarks.md")
    if 0 < fleet.memory_mb < EMULATOR_MB:
        raise ValueError(f"fleet.memory_mb is {fleet.memory_mb}; an emulator needs {EMULATOR_MB}, and 4096 is better")
    if fleet.reset not in ("keep", "fresh"):
        raise ValueError(
            f'AndroidWorld sets up its apps itself, and fleet.reset = "{fleet.reset}" would undo it: '
            'choose "keep", or "fresh" for a new container each time'
        )
