"""Settings of suites, the sources of training tasks. `suite.type` selects the suite; each has its own settings."""

from __future__ import annotations

from functools import cache
from typing import Annotated, ClassVar, Literal

from pydantic import field_validator

from mobilerl.config.devices import FleetSection
from mobilerl.config.marks import RESUMABLE
from mobilerl.config.types import Count, Positive, Section, type_of, union_of
from mobilerl.envs.plugins import with_plugins

EMULATOR_MB = 3072
"""Minimum memory of a container with an emulator, in MB: the phone's 2 GB and everything else in the container."""
ANDROIDWORLD_DEADLINE_S = 1800.0
"""Minimum episode deadline; with a shorter one, long episodes would count as failures of healthy servers."""


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
    type: Literal["phone"] = "phone"
    """Suite of tasks: `phone` for the embedded phone's own apps, `generated` for apps made from a seed, `androidworld`
    for AndroidWorld's, `miniwob` for MiniWoB++, `instructions` for those of a file."""


class GeneratedSuiteSection(SuiteBase):
    """Apps and tasks generated from a seed, on embedded phones (docs/generated.md)."""

    module = "mobilerl.suites.generated.training"
    evaluation = "mobilerl.suites.generated.command:GeneratedCommand"
    type: Literal["generated"] = "generated"
    """Suite of tasks: `phone` for the embedded phone's own apps, `generated` for apps made from a seed, `androidworld`
    for AndroidWorld's, `miniwob` for MiniWoB++, `instructions` for those of a file."""
    apps: Positive = 512
    """Number of apps to train on."""


class AndroidWorldSuiteSection(SuiteBase):
    """AndroidWorld's tasks (docs/benchmarks.md)."""

    module = "mobilerl.suites.androidworld.training"
    evaluation = "mobilerl.suites.androidworld.command:AndroidWorldCommand"
    type: Literal["androidworld"] = "androidworld"
    """Suite of tasks: `phone` for the embedded phone's own apps, `generated` for apps made from a seed, `androidworld`
    for AndroidWorld's, `miniwob` for MiniWoB++, `instructions` for those of a file."""
    servers: Annotated[tuple[str, ...], RESUMABLE] = ()
    """AndroidWorld servers as http://HOST:PORT[,ADB_SERIAL], one device each; empty to start containers with
    fleet.type = "docker"."""
    seed: Count = 1000
    """Seed of the task instances. 30 and 42 are reserved for testing."""
    step_cap: Positive | None = None
    """Upper limit of each task's step budget, which is ten times its complexity in AndroidWorld; null for none."""
    free_reward: bool = False
    """Also train on instances that give their reward before the agent has done anything."""

    @field_validator("seed")
    @classmethod
    def _seed_is_for_training(cls, seed: int) -> int:
        from mobilerl.envs.androidworld.tasks import check_training_seed

        check_training_seed(seed)
        return seed

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


class InstructionsSuiteSection(SuiteBase):
    """Your own instructions, on your own app (docs/instructions.md)."""

    module = "mobilerl.suites.instructions.training"
    evaluation = "mobilerl.suites.instructions.command:InstructionsCommand"
    type: Literal["instructions"] = "instructions"
    """Suite of tasks: `phone` for the embedded phone's own apps, `generated` for apps made from a seed, `androidworld`
    for AndroidWorld's, `miniwob` for MiniWoB++, `instructions` for those of a file."""
    file: Annotated[str, RESUMABLE] = ""
    """File with the instructions, *.toml or *.jsonl."""
    free_reward: bool = False
    """Also train on tasks whose check succeeds before the agent has done anything."""

    def check(self, fleet: FleetSection, workers: int, deadline_s: float) -> None:
        """Raises ValueError unless a file is given and collection runs in one process."""
        if not self.file:
            raise ValueError('suite.type = "instructions" needs suite.file, a *.toml or *.jsonl of instructions')
        if workers:
            raise ValueError('suite.type = "instructions" runs in one process: set rollout.workers = 0')


class MiniWoBSuiteSection(SuiteBase):
    """MiniWoB++ on pages of Chromium (docs/benchmarks.md)."""

    module = "mobilerl.suites.miniwob.training"
    evaluation = "mobilerl.suites.miniwob.command:MiniWoBCommand"
    fleets = ("browser",)
    type: Literal["miniwob"] = "miniwob"
    """Suite of tasks: `phone` for the embedded phone's own apps, `generated` for apps made from a seed, `androidworld`
    for AndroidWorld's, `miniwob` for MiniWoB++, `instructions` for those of a file."""
    subset: Literal["all", "mobile", "scripted"] = "mobile"
    """Tasks to use without `tasks.templates`: `all` of the package, those of MobileMiniWoB++ (`mobile`), or those that
    the oracle solves (`scripted`)."""
    reward: Literal["raw", "discounted"] = "raw"
    """Reward of the page, or this times the share of the step budget that was left."""
    max_steps: Positive = 30
    """Step budget of an episode."""


OWN: dict[str, type[SuiteBase]] = {
    "phone": PhoneSuiteSection,
    "generated": GeneratedSuiteSection,
    "androidworld": AndroidWorldSuiteSection,
    "miniwob": MiniWoBSuiteSection,
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
        raise ValueError(
            f"the image {fleet.image} has no AndroidWorld: set fleet.image and fleet.adb_port, as in docs/benchmarks.md"
        )
    if 0 < fleet.memory_mb < EMULATOR_MB:
        raise ValueError(f"fleet.memory_mb is {fleet.memory_mb}; an emulator needs {EMULATOR_MB}, and 4096 is better")
    if fleet.reset not in ("keep", "fresh"):
        raise ValueError(
            f'AndroidWorld sets up its apps itself, and fleet.reset = "{fleet.reset}" would undo it: '
            'choose "keep", or "fresh" for a new container each time'
        )
