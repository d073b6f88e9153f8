"""The registry of algorithms: one section class each, discriminated by `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from mobilerl.config.algorithms.adagrpo import AdaGRPOSection
from mobilerl.config.algorithms.base import AlgorithmSection, ClippedLossSection, CurriculumSection
from mobilerl.config.algorithms.digirl import DigiRLSection
from mobilerl.config.algorithms.distrl import DistRLSection
from mobilerl.config.algorithms.filtered_bc import FilteredBCSection
from mobilerl.config.algorithms.gigpo import GiGPOSection


def _type(value: Any) -> str | None:
    """Without `type` it is AdaGRPO."""
    return value.get("type", "adagrpo") if isinstance(value, Mapping) else getattr(value, "type", None)


AnyAlgorithm = Annotated[
    Annotated[AdaGRPOSection, Tag("adagrpo")]
    | Annotated[GiGPOSection, Tag("gigpo")]
    | Annotated[DigiRLSection, Tag("digirl")]
    | Annotated[DistRLSection, Tag("distrl")]
    | Annotated[FilteredBCSection, Tag("filtered_bc")],
    Discriminator(_type),
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
