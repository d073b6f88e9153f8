"""Settings of Filtered BC."""

from __future__ import annotations

from typing import ClassVar, Literal

from mobilerl.config.algorithms.base import BufferedSection


class FilteredBCSection(BufferedSection):
    """Filtered behavior cloning: imitation of the successes among the most recent trajectories."""

    implementation: ClassVar[str] = "mobilerl.algorithms.filtered_bc:FilteredBC"
    type: Literal["filtered_bc"] = "filtered_bc"
    """Algorithm; each has settings of its own."""
