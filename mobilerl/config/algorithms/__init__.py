"""The registry of algorithms: one section class per algorithm, discriminated by `type`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Tag

from mobilerl.config.algorithms.adagrpo import AdaGRPOSection
from mobilerl.config.algorithms.base import AlgorithmSection, ClippedLossSection, CurriculumSection
from mobilerl.config.algorithms.digirl import DigiRLSection
from mobilerl.config.algorithms.distrl import DistRLSection
from mobilerl.config.algorithms.filtered_bc import FilteredBCSection
from mobilerl.config.algorithms.gigpo import GiGPOSection
from mobilerl.config.types import chosen_by_type

AnyAlgorithm = Annotated[
    Annotated[AdaGRPOSection, Tag("adagrpo")]
    | Annotated[GiGPOSection, Tag("gigpo")]
    | Annotated[DigiRLSection, Tag("digirl")]
    | Annotated[DistRLSection, Tag("distrl")]
    | Annotated[FilteredBCSection, Tag("filtered_bc")],
    chosen_by_type("adagrpo"),
]

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
]
