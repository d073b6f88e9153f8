"""The screen's size in pixels and its density: the panel's own, what `wm` overrides, and which way up it is."""

from __future__ import annotations

from dataclasses import dataclass

from envs.phone.ui import SCREEN_DP

BASE_DPI = 160
"""Density at which a dp is a pixel."""
SMALLEST_DP = 320
"""The layout needs this width, so a size or a density that leaves fewer dp is drawn at this one."""


@dataclass(slots=True)
class Display:
    """`width` and `height` are the panel's pixels, held upright; `wm size` and `wm density` set the overrides."""

    width: int
    height: int
    size_override: tuple[int, int] | None = None
    density_override: int | None = None

    @property
    def physical_density(self) -> int:
        return round(BASE_DPI * self.width / SCREEN_DP)

    @property
    def density(self) -> int:
        return self.density_override or self.physical_density

    def size(self, rotation: int) -> tuple[int, int]:
        """Width and height as the apps see them. `rotation` counts quarter turns."""
        width, height = self.size_override or (self.width, self.height)
        return (height, width) if rotation % 2 else (width, height)

    @property
    def scale(self) -> float:
        """Pixels of a dp."""
        if self.size_override is None and self.density_override is None:
            return self.width / SCREEN_DP
        return min(self.density / BASE_DPI, min(self.size(0)) / SMALLEST_DP)
