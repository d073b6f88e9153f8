"""All settings as pydantic models, one module per topic. A recipe is a TOML file; `--section.field value` on the
command line overrides it. Unknown names are errors. Nothing here imports torch.
"""

from mobilerl.config.algorithms import AlgorithmSection, ClippedLossSection, CurriculumSection
from mobilerl.config.devices import FleetSection, PhoneSection
from mobilerl.config.flags import ConfigError
from mobilerl.config.judge import JudgeSection
from mobilerl.config.model import AgentSection, ClusterSection, EngineSection, FormatName, VllmSection
from mobilerl.config.optimizer import OptimizerSection
from mobilerl.config.reachagent import DpoSection, PagesSection
from mobilerl.config.reading import load_recipe, read_saved, save_recipe, validate
from mobilerl.config.recipe import Recipe
from mobilerl.config.suite import (
    AndroidLabSuiteSection,
    AndroidWorldSuiteSection,
    FileSuite,
    GeneratedSuiteSection,
    InstructionsSuiteSection,
    MiniWoBSuiteSection,
    MobileGymSuiteSection,
    PhoneSuiteSection,
    SuiteBase,
    SuiteSection,
)
from mobilerl.config.training import RolloutSection, SftSection, TasksSection, TrackingSection, TrainSection

__all__ = [
    "AgentSection",
    "AndroidLabSuiteSection",
    "AndroidWorldSuiteSection",
    "AlgorithmSection",
    "ClippedLossSection",
    "ClusterSection",
    "RolloutSection",
    "ConfigError",
    "CurriculumSection",
    "DpoSection",
    "EngineSection",
    "FileSuite",
    "FleetSection",
    "FormatName",
    "GeneratedSuiteSection",
    "InstructionsSuiteSection",
    "JudgeSection",
    "MiniWoBSuiteSection",
    "MobileGymSuiteSection",
    "OptimizerSection",
    "PagesSection",
    "PhoneSection",
    "PhoneSuiteSection",
    "Recipe",
    "SftSection",
    "SuiteBase",
    "SuiteSection",
    "TasksSection",
    "TrackingSection",
    "TrainSection",
    "VllmSection",
    "load_recipe",
    "read_saved",
    "save_recipe",
    "validate",
]
