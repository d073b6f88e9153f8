"""The recipe: all sections, and the checks between them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from mobilerl.config.algorithms import OWN as ALGORITHMS
from mobilerl.config.algorithms import AdaGRPOSection, AnyAlgorithm, algorithm_sections
from mobilerl.config.devices import FleetSection, PhoneSection
from mobilerl.config.judge import JudgeSection
from mobilerl.config.marks import EVAL_PLUGIN, RESUMABLE, WEB, OnlyWith, Resumable, UsedBy
from mobilerl.config.model import AgentSection, ClusterSection, EngineSection, TinySection, VllmSection
from mobilerl.config.reachagent import DpoSection, PagesSection
from mobilerl.config.suite import OWN as SUITES
from mobilerl.config.suite import PhoneSuiteSection, SuiteSection, suite_sections
from mobilerl.config.training import (
    TRAIN,
    EvalSection,
    RolloutSection,
    SftSection,
    TasksSection,
    TrackingSection,
    TrainSection,
)
from mobilerl.config.types import Section, union_of

TRAINS_FROM_SCRATCH = UsedBy(("sft",))
PAGES, ENGINES = UsedBy(("pages",)), UsedBy(("train", "pages"))
TRAININGS = UsedBy(("train", "sft", "pages"))
SFT = UsedBy(("sft", "pages", "eval sim", "eval generated"))
FLEET = UsedBy(("train", "fleet", "eval instructions", "eval androidworld", *WEB, EVAL_PLUGIN))
JUDGE = UsedBy(("train", "eval sim", "eval generated", "eval instructions", *WEB, EVAL_PLUGIN))
ROLLOUT = UsedBy(("train", "eval instructions", *WEB, EVAL_PLUGIN))
VLLM, VERL = OnlyWith({"engine.type": ("vllm", "verl")}), OnlyWith({"engine.type": ("verl",)})


class Recipe(Section):
    """All settings of a run, by section."""

    model: Annotated[str, Resumable(from_checkpoint=True)] = ""
    """Checkpoint folder or ORG/NAME on the Hugging Face Hub to start from; empty to make a tiny model. In a recipe,
    a folder next to its file takes precedence."""
    suite: SuiteSection = PhoneSuiteSection()
    phone: PhoneSection = PhoneSection()
    fleet: Annotated[FleetSection, FLEET, RESUMABLE] = FleetSection()
    agent: AgentSection = AgentSection()
    tiny: Annotated[TinySection, TRAINS_FROM_SCRATCH] = TinySection()
    engine: EngineSection = EngineSection()
    vllm: Annotated[VllmSection, TRAININGS, VLLM] = VllmSection()
    cluster: Annotated[ClusterSection, ENGINES, VERL, RESUMABLE] = ClusterSection()
    sft: Annotated[SftSection, SFT] = SftSection()
    pages: Annotated[PagesSection, PAGES] = PagesSection()
    dpo: Annotated[DpoSection, PAGES] = DpoSection()
    tasks: TasksSection = TasksSection()
    rollout: Annotated[RolloutSection, ROLLOUT] = RolloutSection()
    algorithm: Annotated[AnyAlgorithm, TRAIN] = AdaGRPOSection()
    """Algorithm, chosen by its `type`; the settings of all algorithms are listed."""
    train: TrainSection = TrainSection()
    eval: Annotated[EvalSection, TRAIN, RESUMABLE] = EvalSection()
    judge: Annotated[JudgeSection, JUDGE] = JudgeSection()
    tracking: Annotated[TrackingSection, TRAININGS, RESUMABLE] = TrackingSection()

    @property
    def has_rollout_workers(self) -> bool:
        """Whether worker processes with copies of the model collect; vLLM serves many episodes without workers."""
        return self.rollout.workers > 0 and self.engine.type == "local"

    @model_validator(mode="before")
    @classmethod
    def _serials_limit_the_count(cls, given: Any) -> Any:
        """Limits `fleet.count` to the number of `fleet.serials`: a recipe may ask for more devices than there are."""
        if not isinstance(given, Mapping):
            return given
        fleet = given.get("fleet")
        if isinstance(fleet, Mapping) and fleet.get("type") == "adb":
            serials, count = fleet.get("serials"), fleet.get("count")
            if serials and (count is None or str(count).isdecimal() and int(count) > len(serials)):
                return {**given, "fleet": {**fleet, "count": len(serials)}}
        return given

    @model_validator(mode="after")
    def _judge_is_shared(self) -> Recipe:
        asking = min(self.rollout.workers, self.fleet.count)
        if self.judge.reward and self.has_rollout_workers and asking > self.judge.concurrency:
            raise ValueError(f"each of rollout.workers asks the judge: set judge.concurrency to at least {asking}")
        return self

    @model_validator(mode="after")
    def _one_reward(self) -> Recipe:
        if self.judge.reward and self.rollout.scorer:
            raise ValueError("judge.reward and rollout.scorer both give the reward: leave one of them out")
        return self

    @model_validator(mode="after")
    def _suite_fits(self) -> Recipe:
        if self.fleet.type not in self.suite.fleets:
            fits = " or ".join(f'"{fleet}"' for fleet in self.suite.fleets)
            kinds = f'fleet.type = "{self.fleet.type}" does not fit suite.type = "{self.suite.type}"'
            raise ValueError(f"{kinds}: set fleet.type to {fits}")
        self.suite.check(self.fleet, self.rollout.workers, self.agent.deadline_s)
        return self


@cache
def recipe_with_plugins() -> type[Recipe]:
    """Returns Recipe after adding the suites and algorithms of installed packages.

    Raises PluginError if one cannot be used.
    """
    suites, algorithms = suite_sections(), algorithm_sections()
    fields = Recipe.model_fields
    if len(suites) > len(SUITES):
        fields["suite"] = FieldInfo.from_annotated_attribute(union_of(suites, "phone"), PhoneSuiteSection())
    if len(algorithms) > len(ALGORITHMS):
        about = Field(description=fields["algorithm"].description)
        kind: Any = Annotated[union_of(algorithms, "adagrpo"), TRAIN, about]
        fields["algorithm"] = FieldInfo.from_annotated_attribute(kind, AdaGRPOSection())
    if len(suites) > len(SUITES) or len(algorithms) > len(ALGORITHMS):
        Recipe.model_rebuild(force=True)
    return Recipe
