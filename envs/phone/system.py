"""What the phone knows of itself: settings, files, clock and display, and what is read from them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mobilerl.envs.phone.default_settings import DEFAULT_SETTINGS
from mobilerl.envs.phone.display import Display, tablet_density
from mobilerl.envs.phone.languages import ENGLISH, locales_for, parse_locales
from mobilerl.envs.phone.languages.language import Language

EPOCH = datetime(2023, 10, 15, 15, 34)
"""Device time at reset: the moment AndroidWorld sets, a Sunday."""

UNIX_EPOCH = datetime(1970, 1, 1)

MAX_FONT_SCALE = 2.0

LIGHT_HOURS = range(6, 22)
"""Hours in which the dark theme is off on a schedule, Android's own default; `auto`, by the sun there, keeps to it."""
NIGHT_MODES = {"auto": "0", "no": "1", "yes": "2", "custom_schedule": "3"}
"""Values of `ui_night_mode` by the names of `cmd uimode night`."""

LOCATION = (-122.084, 37.422)
"""Longitude and latitude in degrees at which an emulator starts."""


@dataclass(slots=True)
class Call:
    """A phone call. `state` is one of Android's call states (`telephony.IDLE` and so on)."""

    number: str
    state: int
    outgoing: bool


class System:
    """State of the phone without its apps. `width` and `height` are pixels.

    Without a `density` (dpi), 360 dp span the width of a phone and about 800 that of a tablet.
    """

    def __init__(self, width: int, height: int, density: int | None = None) -> None:
        self.boot_id = str(uuid.uuid4())
        self.language = ENGLISH
        """The language that the screen is laid out in."""
        self.display = Display(width, height, density or tablet_density(width, height))
        self._set_up(("en",), 0)

    def _set_up(self, languages: Sequence[str], seed: int) -> None:
        """A used phone's settings and nothing else; the seed chooses the one of the `languages` that is shown."""
        self.display = Display(self.display.width, self.display.height, self.display.panel_density)
        self.settings = {space: dict(values) for space, values in DEFAULT_SETTINGS.items()}
        self.settings["system"]["system_locales"] = locales_for(languages, seed)
        self.files: dict[str, bytes] = {}
        self.mtimes: dict[str, int] = {}
        """Unix times at which files and folders were changed, for those that were."""
        self.inputs = 0
        self._clock = EPOCH
        self.location = LOCATION
        self.clipboard = ""
        self.held = 0
        """Quarter turns, counterclockwise, in which the phone is held."""
        self.awake = True
        self.call: Call | None = None
        self.calls: list[dict[str, Any]] = []
        """The call log."""
        self.notifications: dict[str, tuple[str, str]] = {}
        """Title and text of what was posted, by its tag; unread messages are notifications of their own."""

    @property
    def rotation(self) -> int:
        """Quarter turns of the screen: how the phone is held, or `user_rotation` while auto-rotate is off."""
        table = self.settings["system"]
        if table.get("accelerometer_rotation") == "1":
            return self.held
        turns = table.get("user_rotation", "0")
        return int(turns) if turns in ("1", "2", "3") else 0

    @property
    def font_scale(self) -> float:
        """What text sizes are multiplied by; 1 for a setting that is no number."""
        try:
            return min(max(0.5, float(self.settings["system"].get("font_scale", ""))), MAX_FONT_SCALE)
        except ValueError:
            return 1.0

    @property
    def dark(self) -> bool:
        """Whether the dark theme is shown, by its setting and the clock."""
        mode = self.settings["secure"].get("ui_night_mode")
        scheduled = mode in (NIGHT_MODES["auto"], NIGHT_MODES["custom_schedule"])
        return mode == NIGHT_MODES["yes"] or scheduled and self.now.hour not in LIGHT_HOURS

    def is_on(self, space: str, key: str, off: str = "0") -> bool:
        """Whether the switch of a setting is on: its value is neither `off` nor missing."""
        if key == "ui_night_mode":
            return self.dark
        return self.settings[space].get(key, "") not in (off, "")

    @property
    def locales(self) -> str:
        """Android's list of the user's languages, the one that is shown first."""
        return self.settings["system"].get("system_locales", "")

    @property
    def languages(self) -> tuple[Language, ...]:
        """The languages that can be chosen in Settings, the one that is shown first."""
        known = parse_locales(self.locales)
        return known if ENGLISH in known else (*known, ENGLISH)

    def t(self, english: str, /, **values: object) -> str:
        """A text of the system in the phone's language, with `values` for its {names}."""
        return self.language.text(english, values)

    @property
    def clock(self) -> str:
        """The time as the status bar shows it."""
        if self.settings["system"].get("time_12_24") == "12":
            return f"{self.now.hour % 12 or 12}:{self.now:%M}"
        return f"{self.now:%H:%M}"

    @property
    def width(self) -> int:
        """Width of the screen as it is turned, in pixels."""
        return self.display.size(self.rotation)[0]

    @property
    def height(self) -> int:
        return self.display.size(self.rotation)[1]

    @property
    def scale(self) -> float:
        """Pixels of a dp."""
        return self.display.scale

    @property
    def size_dp(self) -> tuple[int, int]:
        (width, height), scale = self.display.size(self.rotation), self.scale
        return round(width / scale), round(height / scale)

    @property
    def now(self) -> datetime:
        """A second passes with every input."""
        return self._clock + timedelta(seconds=self.inputs)

    @property
    def unix_ms(self) -> int:
        return round((self.now - UNIX_EPOCH).total_seconds() * 1000)
