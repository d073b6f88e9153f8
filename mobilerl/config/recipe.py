"""A recipe: all sections together, and what must fit between them."""

from __future__ import annotations

from pydantic import model_validator

from mobilerl.config.algorithms import AdaGRPOSection, AnyAlgorithm
from mobilerl.config.devices import FleetSection, PhoneSection
from mobilerl.config.judge import JudgeSection
from mobilerl.config.model import AgentSection, ClusterSection, EngineSection, TinySection, VllmSection
from mobilerl.config.reachagent import DpoSection, PagesSection
from mobilerl.config.suite import PhoneSuiteSection, SuiteSection
from mobilerl.config.training import (
    CollectSection,
    EvalSection,
    SftSection,
    TasksSection,
    TrackingSection,
    TrainSection,
)
from mobilerl.config.types import Section


class Recipe(Section):
    """What every command that loads a recipe knows."""

    model: str = ""
    """Checkpoint folder to start from; empty to make a tiny model."""
    tiny: TinySection = TinySection()
    suite: SuiteSection = PhoneSuiteSection()
    phone: PhoneSection = PhoneSection()
    fleet: FleetSection = FleetSection()
    agent: AgentSection = AgentSection()
    engine: EngineSection = EngineSection()
    vllm: VllmSection = VllmSection()
    cluster: ClusterSection = ClusterSection()
    sft: SftSection = SftSection()
    pages: PagesSection = PagesSection()
    dpo: DpoSection = DpoSection()
    tasks: TasksSection = TasksSection()
    collect: CollectSection = CollectSection()
    algorithm: AnyAlgorithm = AdaGRPOSection()
    """Algorithm, chosen by its `type`; the settings of all algorithms are listed."""
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    judge: JudgeSection = JudgeSection()
    tracking: TrackingSection = TrackingSection()

    @property
    def plays_in_workers(self) -> bool:
        """Whether worker processes with copies of the model collect; vLLM serves many episodes without them."""
        return self.collect.workers > 0 and self.engine.name == "local"

    @model_validator(mode="after")
    def _judge_is_shared(self) -> Recipe:
        asking = min(self.collect.workers, self.phone.count)
        if self.judge.reward and self.plays_in_workers and asking > self.judge.concurrency:
            raise ValueError(f"each of collect.workers asks the judge: set judge.concurrency to at least {asking}")
        return self

    @model_validator(mode="after")
    def _suite_fits(self) -> Recipe:
        self.suite.check(self.fleet, self.collect.workers, self.agent.deadline_s)
        return self
