"""Every setting of every recipe. A recipe is a TOML file; `--section.field value` on the command line wins over it.

A name that does not exist here is an error, wherever it comes from. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, CliSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from mobilerl.judge.settings import JudgeSection
from mobilerl.trajectory_files import write_atomic

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Rate = Annotated[float, Field(gt=0.0)]


ANDROIDWORLD_DEADLINE_S = 1800.0
"""Below it, whole episodes of healthy servers would count as failures of the server."""


class ConfigError(ValueError):
    """A recipe or a command line that cannot be used; the message is one line with the cure."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# --- what plays --------------------------------------------------------------------------------------------------


class PhoneSection(Section):
    """The phones episodes are played on."""

    suite: Literal["sim", "androidworld"] = "sim"
    """`sim`: the embedded phone and its tasks. `androidworld`: the tasks of [androidworld], on its servers."""
    count: Positive = 64
    """Phones used at once, and so the largest batch of one generation call."""
    width: Annotated[int, Field(ge=180, le=2160)] = 360
    height: Annotated[int, Field(ge=360, le=4320)] = 720
    """Screen size in pixels."""
    popup_rate: Share = 0.5
    """Chance that an episode is disturbed by a pop-up."""


class AndroidWorldSection(Section):
    """AndroidWorld as a training suite: docs/androidworld.md."""

    servers: tuple[str, ...] = ()
    """http://HOST:PORT[,ADB_SERIAL], one device each."""
    seed: Count = 1000
    """Of the suite: 30 and 42 are kept for tests."""
    step_cap: Positive | None = None
    """No more steps than this, whatever a task's budget says."""


class FleetSection(Section):
    """Where the devices come from, and what is done when they fail. Times in seconds."""

    type: Literal["embedded", "docker", "adb"] = "embedded"
    """`embedded`: phones of this process. `docker`: containers, started and removed by the run. `adb`: `serials`."""
    name: str = "mobilerl"
    """Of the fleet; containers are named after it."""
    image: str = "mobilerl-phone"
    """Docker image of a device."""
    hosts: tuple[str, ...] = ("",)
    """Docker engines, as `docker -H` takes them; "" is DOCKER_HOST's, or this machine's."""
    publish: str = "127.0.0.1"
    """Address of a Docker host at which its devices' ports are reached."""
    kvm: bool = False
    privileged: bool = False
    memory_mb: Count = 512
    cpus: Annotated[float, Field(ge=0.0)] = 1.0
    """Limits of a container; 0: none."""
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
    spares: Count = 2
    """Devices beyond `phone.count`, so that one is ready while another is made clean."""
    boot_s: Rate = 120.0
    refresh_s: Rate = 60.0
    command_s: Rate = 10.0
    """Longest time of one command on a device."""
    check_every_s: Rate = 60.0
    max_failures: Positive = 3
    """In a row, after which a device is replaced and its place quarantined."""
    quarantine_s: Rate = 10.0
    give_up_s: Rate = 900.0
    """Without a single working device for so long the run ends."""

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


class AgentSection(Section):
    """What the model reads and writes. Saved with every checkpoint, so that evaluation uses what training used."""

    grounding: Literal["box", "point", "mark"] = "mark"
    layout: Literal["chat", "compact"] = "compact"
    screen_style: Literal["mobilerl", "marks", "none"] = "marks"
    screenshots: Count = 1
    history_thoughts: bool = False
    history_steps: Count | None = None
    system_prompt: str | None = None
    max_new_tokens: Positive = 32
    max_invalid: Positive = 3
    """Unreadable actions in a row that end an episode."""
    deadline_s: Rate = 300.0
    """Seconds an episode may take before its device counts as failed."""

    @model_validator(mode="after")
    def _marks_need_marks(self) -> AgentSection:
        if self.grounding == "mark" and self.screen_style != "marks":
            raise ValueError('agent.grounding = "mark" needs agent.screen_style = "marks"')
        return self


class TinySection(Section):
    """Shape of the tiny model that is made when there is no checkpoint to start from."""

    hidden: Positive = 128
    layers: Positive = 4
    heads: Positive = 4
    vision_hidden: Positive = 32
    vision_layers: Positive = 1
    max_pixels: Positive = 6272


class EngineSection(Section):
    """What holds the weights."""

    type: Literal["local", "verl"] = "local"
    learning_rate: Rate = 3e-4
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    warmup_steps: Count = 10
    grad_clip: Rate = 1.0
    micro_tokens: Positive = 16384
    """Padded tokens of a micro-batch."""
    max_pixels: Positive | None = None
    """Cap on the pixels of a screenshot; None for the checkpoint's own."""
    lora_rank: Count = 0
    threads: Count = 0
    """CPU threads; 0 for all."""
    generate_threads: Count = 0
    """CPU threads while sampling; 0 for `threads`."""


# --- the algorithm -----------------------------------------------------------------------------------------------


class CreditSection(Section):
    """From rewards to advantages."""

    type: Literal["group_relative"] = "group_relative"
    spa: bool = True
    """Shortest-path adjustment of the reward."""
    spa_alpha: Share = 1.0
    normalize_std: bool = True
    drop_constant_groups: bool = True
    """Leave out groups whose rewards are all equal, and collect others in their place."""
    max_refills: Count = 1
    """Extra rounds of collection per iteration to replace dropped groups."""


class LossSection(Section):
    clip_low: Share = 0.2
    clip_high: Annotated[float, Field(ge=0.0)] = 0.28
    kl_coef: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the k3 divergence from the policy training began with."""
    is_cap: Rate | None = 2.0
    """Largest importance weight between rollout and trainer; None switches the correction off."""
    recompute_old: bool = False
    """Clip against log-probabilities recomputed by the trainer instead of those of the rollout."""
    agg: Literal["token-mean", "row-mean", "trajectory-mean"] = "trajectory-mean"


class ReplaySection(Section):
    type: Literal["adapr", "none"] = "adapr"
    capacity: Positive = 512
    kappa: Positive = 32
    """Best successes of an iteration that enter."""
    gamma: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.25
    """Largest replayed share of a mini-batch."""
    max_age: Positive | None = 20
    order: Literal["top", "uniform"] = "top"


class CurriculumSection(Section):
    type: Literal["fcf", "uniform"] = "fcf"
    by: Literal["task", "template"] = "template"
    """What is judged, cooled down and removed: single tasks, or templates with all their instances."""
    epoch_groups: Positive | None = None
    """Groups that make an epoch; None for as many as there are training tasks."""
    patience: Positive = 2
    cooldown: Count = 3
    revisit_every: Positive | None = None


class AlgorithmSection(Section):
    credit: CreditSection = CreditSection()
    loss: LossSection = LossSection()
    replay: ReplaySection = ReplaySection()
    curriculum: CurriculumSection = CurriculumSection()


# --- the run -----------------------------------------------------------------------------------------------------


class TasksSection(Section):
    """Training tasks: `per_template` instances of every training template."""

    per_template: Positive = 20
    templates: tuple[str, ...] = ()
    """Only these templates; empty for all of the training split."""


class CollectSection(Section):
    tasks_per_iteration: Positive = 32
    group_size: Annotated[int, Field(ge=2)] = 8
    temperature: Rate = 1.0
    max_staleness: Count = 0
    """Versions a trajectory may be behind; 0 collects and learns in turns."""
    workers: Count = 0
    """Processes that collect, each on one CPU core with its share of the phones; 0: this process does it."""
    max_retries: Count = 3
    min_group: Share = 0.75

    @model_validator(mode="after")
    def _workers_collect_in_turns(self) -> CollectSection:
        if self.workers and self.max_staleness:
            raise ValueError("collect.workers collect in turns with learning: set collect.max_staleness = 0")
        return self


class TrainSection(Section):
    iterations: Positive = 100
    max_minutes: Rate | None = None
    """Stop after this much time, whatever `iterations` says."""
    mini_batch: Positive = 256
    """Rows of one optimiser step."""
    passes: Positive = 1
    """Times the rows of an iteration are gone through."""
    seed: int = 0
    checkpoint_every: Positive = 10
    keep_checkpoints: Positive = 2
    trajectories_every: Count = 10
    """Write the trajectories of every n-th iteration; 0 for none."""
    trajectories_kept: Positive = 64


class EvalSection(Section):
    instances: Positive = 6
    """Held-out instances per template."""
    trials: Positive = 1
    pass_k_instances: Count = 2
    """Held-out instances per template that are also sampled `pass_k` times at temperature 1; 0 for none."""
    pass_k: Positive = 8
    seed: int = 0


class TrackingSection(Section):
    wandb: Literal["off", "offline", "online"] = "off"
    tensorboard: bool = False
    project: str = "mobilerl"
    name: str = ""


class SftSection(Section):
    """Two-stage warm-up. Stage 1 is reasoning-free; stage 2 learns to think before it acts."""

    demos_per_template: Positive = 40
    recitals: Positive = 6000
    """Screens to be recited in another order, the first lessons."""
    lessons: Count = 12000
    """Reading lessons for a model that starts from nothing (0: none); a pretrained checkpoint is not given any."""
    lesson_share: Share = 0.15
    """New lessons among the samples of the stages, as a share of them, so that reading is not forgotten."""
    lesson_batch: Positive = 16
    lesson_rate: Rate = 2e-3
    single_steps: Count = 1
    """Single-step instructions per demonstrated step (stage 1)."""
    stage1_epochs: Rate = 1.0
    stage2_rounds: Positive = 2
    """Rounds of proposing, keeping what the expert would do, and training."""
    stage2_epochs: Rate = 2.0
    candidates: Positive = 1
    """Candidates per expert step that a proposer is asked for."""
    proposer_url: str = ""
    """OpenAI-compatible endpoint of the first proposer; empty for the built-in thought writer."""
    proposer_model: str = ""
    batch_size: Positive = 32
    learning_rate: Rate = 1e-3
    warmup: Share = 0.05
    seed: int = 0


class Recipe(BaseSettings):
    """What every command that loads a recipe knows."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, nested_model_default_partial_update=True)

    model: str = ""
    """Checkpoint folder to start from; empty to make a tiny model."""
    tiny: TinySection = TinySection()
    phone: PhoneSection = PhoneSection()
    fleet: FleetSection = FleetSection()
    androidworld: AndroidWorldSection = AndroidWorldSection()
    agent: AgentSection = AgentSection()
    engine: EngineSection = EngineSection()
    sft: SftSection = SftSection()
    tasks: TasksSection = TasksSection()
    collect: CollectSection = CollectSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    judge: JudgeSection = JudgeSection()
    tracking: TrackingSection = TrackingSection()

    @model_validator(mode="after")
    def _androidworld_can_be_played(self) -> Recipe:
        if self.phone.suite == "androidworld":
            if not self.androidworld.servers:
                raise ValueError('phone.suite = "androidworld" needs androidworld.servers')
            if self.collect.workers:
                raise ValueError('phone.suite = "androidworld" is played by one process: set collect.workers = 0')
            if self.agent.deadline_s < ANDROIDWORLD_DEADLINE_S:
                wanted = f"set agent.deadline_s to at least {ANDROIDWORLD_DEADLINE_S:g}"
                raise ValueError(f"episodes of AndroidWorld take long: {wanted}")
        return self

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, **_: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # No environment variables: a recipe and a command line say everything there is.
        return (init_settings,)


# --- reading -----------------------------------------------------------------------------------------------------

M = TypeVar("M", bound=BaseModel)


def load_recipe(path: Path | None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe at `path` with the dotted command-line `overrides` on top. Raises ConfigError."""
    data = _read_toml(path) if path else {}
    try:
        given = CliSettingsSource(
            Recipe, cli_parse_args=list(overrides), cli_exit_on_error=False, cli_implicit_flags=False
        )()
    except SettingsError as error:
        raise ConfigError(_unknown_flag(str(error), overrides)) from None
    return validate(Recipe, _merge(data, given), str(path or "command line"))


def validate(kind: type[M], data: dict[str, Any], where: str) -> M:
    """`kind(**data)`, with the first mistake as a one-line ConfigError."""
    try:
        return kind(**data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error, kind)}") from None


def save_recipe(recipe: Recipe, path: Path) -> None:
    """The resolved recipe, every default spelled out."""
    write_atomic(path, (recipe.model_dump_json(indent=2) + "\n").encode())


def read_saved(path: Path) -> Recipe:
    """A resolved recipe as `save_recipe` wrote it."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a saved recipe: {error}") from None
    return validate(Recipe, data, str(path))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"there is no recipe {path}; see recipes/ for those that come with mobilerl") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _explain(error: ValidationError, kind: type[BaseModel]) -> str:
    first = error.errors()[0]
    names = [str(part) for part in first["loc"]]
    field = ".".join(names)
    if first["type"] != "extra_forbidden":
        said = first["msg"].removeprefix("Value error, ")
        return f"{field}: {said} (given: {first['input']!r})" if field else said
    return f"{field}: there is no such setting{_hint(names[-1], _fields_at(kind, names[:-1]))}"


def _fields_at(kind: type[BaseModel], names: Sequence[str]) -> list[str]:
    for name in names:
        inner = kind.model_fields[name].annotation if name in kind.model_fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        kind = inner
    return list(kind.model_fields)


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; choose one of {', '.join(known)}"


def _unknown_flag(message: str, overrides: Sequence[str]) -> str:
    flags = _all_flags(Recipe)
    for word in overrides:
        name = word.removeprefix("--").split("=")[0]
        if word.startswith("--") and name not in flags:
            near = difflib.get_close_matches(name, flags)
            return f"--{name}: there is no such setting{_hint(name, flags) if near else ''}"
    return message.splitlines()[0]


def _all_flags(kind: type[BaseModel], prefix: str = "") -> list[str]:
    flags = []
    for name, info in kind.model_fields.items():
        flags.append(prefix + name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            flags += _all_flags(info.annotation, f"{prefix}{name}.")
    return flags
