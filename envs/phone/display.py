"""The screen's size in pixels and its density: the panel's own, what `wm` overrides, and which way up it is."""

from __future__ import annotations

from dataclasses import dataclass

from mobilerl.envs.phone.ui import SCREEN_DP

BASE_DPI = 160
"""Density at which a dp is a pixel."""
SMALLEST_DP = 320
"""The layout needs this width, so a size or a density that leaves fewer dp is drawn at this one."""
MIN_DENSITY, MAX_DENSITY = 72, 1000
TABLET_DP, TABLET_RATIO, LOWEST_DPI, DPI_STEP = 800, 1.65, 120, 20
"""A panel squarer than 1.65 to 1, as of 16:10 or 4:3, is a tablet's: about 800 dp across its shorter side."""


def tablet_density(width: int, height: int) -> int:
    """Density in dpi of tablets with this panel, such as 320 for 1600 x 2560; 0 for the proportions of a phone."""
    short, long = sorted((width, height))
    if long >= TABLET_RATIO * short:
        return 0
    return max(LOWEST_DPI, DPI_STEP * round(BASE_DPI * short / TABLET_DP / DPI_STEP))


@dataclass(slots=True)
class Display:
    """`width` and `height` are the panel's pixels, held upright; `wm size` and `wm density` set the overrides.

    `panel_density` is in dpi, 0 for the one at which 360 dp span the width.
    """

    width: int
    height: int
    panel_density: int = 0
    size_override: tuple[int, int] | None = None
    density_override: int | None = None

    @property
    def physical_density(self) -> int:
        return self.panel_density or round(BASE_DPI * self.width / SCREEN_DP)

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
        if not (self.panel_density or self.size_override or self.density_override):
            return self.width / SCREEN_DP
        return min(self.density / BASE_DPI, min(self.size(0)) / SMALLEST_DP)
