"""The registry of algorithms: one section class per algorithm, which `algorithm.type` selects."""

from __future__ import annotations

from functools import cache

from mobilerl.config.algorithms.adagrpo import AdaGRPOSection
from mobilerl.config.algorithms.base import AlgorithmSection, ClippedLossSection, CurriculumSection
from mobilerl.config.algorithms.digirl import DigiRLSection
from mobilerl.config.algorithms.distrl import DistRLSection
from mobilerl.config.algorithms.filtered_bc import FilteredBCSection
from mobilerl.config.algorithms.gigpo import GiGPOSection
from mobilerl.config.types import type_of, union_of
from mobilerl.envs.plugins import with_plugins

OWN: dict[str, type[AlgorithmSection]] = {
    "adagrpo": AdaGRPOSection,
    "gigpo": GiGPOSection,
    "digirl": DigiRLSection,
    "distrl": DistRLSection,
    "filtered_bc": FilteredBCSection,
}
AnyAlgorithm = union_of(OWN, "adagrpo")


@cache
def algorithm_sections() -> dict[str, type[AlgorithmSection]]:
    """Sections by `algorithm.type`: our own and those of installed packages (entry points `mobilerl.algorithms`)."""
    return with_plugins(OWN, "mobilerl.algorithms", AlgorithmSection, type_of)


__all__ = [
    "AdaGRPOSection",
    "AlgorithmSection",
    "AnyAlgorithm",
    "ClippedLossSection",
    "CurriculumSection",
    "DigiRLSection",
    "DistRLSection",
    "FilteredBCSection",
    "GiGPOSection",
    "algorithm_sections",
]
