"""Settings of DigiRL."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mobilerl.config.algorithms.base import BufferedSection, ValueSection
from mobilerl.config.types import Share


class DigiRLSection(BufferedSection):
    """DigiRL (arXiv 2406.11896): imitation of steps that two value functions rate better than expected."""

    implementation: ClassVar[str] = "mobilerl.algorithms.digirl:DigiRL"
    type: Literal["digirl"] = "digirl"
    """Algorithm; each has settings of its own."""
    lam: Share = 0.5
    """lambda of the step advantage (eq. 4.3): on successes, 1 gives only the Monte-Carlo part, 0 the one-step part."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """Fraction of trajectories that pass the instruction filter, successes only; 1 keeps every success."""
    critic: ValueSection = ValueSection()
