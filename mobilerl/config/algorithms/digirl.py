"""Settings of DigiRL."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mobilerl.config.algorithms.base import BufferedSection, ValueSection
from mobilerl.config.types import Share


class DigiRLSection(BufferedSection):
    """DigiRL (arXiv 2406.11896): steps that two value functions find better than expected are imitated."""

    implementation: ClassVar[str] = "mobilerl.algorithms.digirl:DigiRL"
    type: Literal["digirl"] = "digirl"
    """Algorithm; each has settings of its own."""
    lam: Share = 0.5
    """lambda of the step advantage (eq. 4.3): on successes 1 gives the Monte-Carlo part alone, 0 the one-step part."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """Share of the trajectories that pass the instruction filter, successes only; 1 for every success."""
    critic: ValueSection = ValueSection()
