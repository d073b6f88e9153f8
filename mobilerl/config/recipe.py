"""A recipe: all sections together, and what must fit between them."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from mobilerl.config.algorithm import AlgorithmSection
from mobilerl.config.devices import AndroidWorldSection, FleetSection, PhoneSection
from mobilerl.config.judge import JudgeSection
from mobilerl.config.model import AgentSection, ClusterSection, EngineSection, TinySection, VllmSection
from mobilerl.config.pages import DpoSection, PagesSection
from mobilerl.config.training import (
    CollectSection,
    EvalSection,
    OfflineSection,
    SftSection,
    TasksSection,
    TrackingSection,
    TrainSection,
)

ANDROIDWORLD_DEADLINE_S = 1800.0
"""Below it, whole episodes of healthy servers would count as failures of the server."""


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
    vllm: VllmSection = VllmSection()
    cluster: ClusterSection = ClusterSection()
    sft: SftSection = SftSection()
    pages: PagesSection = PagesSection()
    dpo: DpoSection = DpoSection()
    tasks: TasksSection = TasksSection()
    collect: CollectSection = CollectSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    offline: OfflineSection = OfflineSection()
    train: TrainSection = TrainSection()
    eval: EvalSection = EvalSection()
    judge: JudgeSection = JudgeSection()
    tracking: TrackingSection = TrackingSection()

    @property
    def plays_in_workers(self) -> bool:
        """Whether processes with a copy of the policy collect; a sampler that serves many at once needs none."""
        return self.collect.workers > 0 and self.engine.type == "local" and self.engine.sampler == "own"

    @property
    def plays_free_rewards(self) -> bool:
        """Whether AndroidWorld's instances that give their own reward for nothing are played: a judge gives another."""
        return self.androidworld.free_reward or self.judge.reward

    @model_validator(mode="after")
    def _replay_alone(self) -> Recipe:
        replay = self.algorithm.replay
        if self.train.updates and (replay.type == "none" or replay.gamma < 1.0):
            raise ValueError("train.updates draws from the replay alone: set algorithm.replay.type and its gamma = 1")
        if not self.train.updates and replay.type != "none" and replay.gamma == 1.0:
            raise ValueError("algorithm.replay.gamma = 1 leaves no room for fresh rows: set train.updates as well")
        if self.train.updates and self.train.passes > 1:
            raise ValueError("train.passes go over fresh rows, train.updates draws from the replay: set passes to 1")
        if self.train.updates and self.algorithm.loss.recompute_old:
            raise ValueError("algorithm.loss.recompute_old scores fresh rows, and train.updates draws from the replay: "
                             "set it to false")  # fmt: skip
        if self.algorithm.critic.type != "none" and not self.train.updates:
            raise ValueError("algorithm.critic judges what the replay holds, and train.updates draws from it: set it")
        if self.offline.trajectories and not self.train.updates:
            raise ValueError("offline.trajectories are learned from by way of the replay: set train.updates")
        if self.offline.trajectories and self.algorithm.credit.type == "group_relative":
            raise ValueError("offline.trajectories come one by one, and alone a trajectory has no group-relative "
                             'advantage: set algorithm.credit.type to "success" or "values"')  # fmt: skip
        return self

    @model_validator(mode="after")
    def _groups_can_be_compared(self) -> Recipe:
        credit = self.algorithm.credit
        if credit.type == "group_relative" and self.collect.group_size < 2:
            raise ValueError("a group-relative advantage needs at least two episodes: set collect.group_size")
        if self.plays_in_workers and self.collect.max_staleness and credit.drop_constant_groups and credit.max_refills:
            raise ValueError("collect.workers that play ahead (collect.max_staleness above 0) cannot replace groups of "
                             "the current iteration: set algorithm.credit.max_refills = 0")  # fmt: skip
        return self

    @model_validator(mode="after")
    def _judge_is_shared(self) -> Recipe:
        asking = min(self.collect.workers, self.phone.count)
        if self.judge.reward and self.plays_in_workers and asking > self.judge.concurrency:
            raise ValueError(f"each of collect.workers asks the judge: set judge.concurrency to at least {asking}")
        return self

    @model_validator(mode="after")
    def _androidworld_can_be_played(self) -> Recipe:
        if self.phone.suite == "androidworld":
            if self.fleet.type == "docker":
                self.fleet.check_androidworld()
            elif not self.androidworld.servers:
                cure = 'or fleet.type = "docker", which starts them'
                raise ValueError(f'phone.suite = "androidworld" needs androidworld.servers, {cure}')
            if self.fleet.type == "docker" and self.androidworld.servers:
                raise ValueError('androidworld.servers are servers that run, and fleet.type = "docker" starts its own: '
                                 "leave one of them out")  # fmt: skip
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
