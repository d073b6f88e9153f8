"""Every setting, as pydantic models, one module a theme. A recipe is a TOML file; `--section.field value` on the
command line wins over it. A name that does not exist here is an error. Nothing here imports torch.
"""

from mobilerl.config.algorithm import (
    AlgorithmSection,
    CreditSection,
    CriticSection,
    CurriculumSection,
    DigirlSection,
    DistrlSection,
    LossSection,
    ReplaySection,
)
from mobilerl.config.devices import FleetSection, PhoneSection
from mobilerl.config.judge import JudgeSection
from mobilerl.config.model import AgentSection, ClusterSection, EngineSection, VllmSection
from mobilerl.config.pages import DpoSection, PagesSection
from mobilerl.config.reading import ConfigError, load_recipe, read_saved, save_recipe, validate
from mobilerl.config.recipe import Recipe
from mobilerl.config.training import CollectSection, SftSection, TasksSection, TrainSection

__all__ = [
    "AgentSection", "AlgorithmSection", "ClusterSection", "CollectSection", "ConfigError", "CreditSection",
    "CriticSection", "CurriculumSection", "DigirlSection", "DistrlSection", "DpoSection", "EngineSection",
    "FleetSection", "JudgeSection", "LossSection", "PagesSection", "PhoneSection", "Recipe", "ReplaySection",
    "SftSection", "TasksSection", "TrainSection", "VllmSection", "load_recipe", "read_saved", "save_recipe",
    "validate",
]  # fmt: skip
