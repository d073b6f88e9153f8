"""The pages of Settings: each row names its Android setting and the values it can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Stored:
    """A row that shows a stored value. `space` is the settings namespace: global, system or secure."""

    title: str
    space: str
    key: str


@dataclass(frozen=True, slots=True)
class Switch(Stored):
    """A row with a switch."""

    off: str = "0"
    on: str = "1"


@dataclass(frozen=True, slots=True)
class Choice(Stored):
    """A row that opens a list of options. `options` maps what is read to the stored value."""

    options: dict[str, str]

    def label(self, value: str) -> str:
        """How a stored value reads; one that no option has (set over adb) is shown as it is."""
        return next((name for name, v in self.options.items() if v == value), value)


@dataclass(frozen=True, slots=True)
class Level(Stored):
    """A row with buttons that lower and raise a whole number between 0 and `top`."""

    top: int


@dataclass(frozen=True, slots=True)
class Link:
    """A row that opens another page of the app; its second line is the app's `summary_<page>`."""

    title: str
    page: str


@dataclass(frozen=True, slots=True)
class Info:
    """A row that only shows something: fixed text, or the app's `info_<name>`."""

    title: str
    text: str = ""
    name: str = ""


SettingsRow = Switch | Choice | Level | Link | Info
RowT = TypeVar("RowT", Switch, Choice, Level, Link, Info)


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    icon: str
    rows: tuple[SettingsRow, ...]


MINUTES = {f"{m} minute{'s' if m > 1 else ''}": str(60_000 * m) for m in (1, 2, 5, 10)}
TIMEOUTS = {"15 seconds": "15000", "30 seconds": "30000", **MINUTES}
BRIGHTNESS = {"Minimum": "1", "Low": "64", "Medium": "128", "High": "191", "Maximum": "255"}
FONT_SIZES = {"Small": "0.85", "Default": "1.0", "Large": "1.15", "Largest": "1.3"}

SYSTEM = Section("System", "globe", (Link("Languages", "languages"),))
"""Shown by phones that have more languages than English."""

SECTIONS = (
    Section(
        "Network & internet",
        "wifi",
        (
            Switch("Wi-Fi", "global", "wifi_on"),
            Link("Wi-Fi networks", "networks"),
            Switch("Mobile data", "global", "mobile_data"),
            Switch("Airplane mode", "global", "airplane_mode_on"),
        ),
    ),
    Section(
        "Connected devices",
        "bluetooth",
        (Switch("Bluetooth", "global", "bluetooth_on"), Switch("NFC", "secure", "nfc_on")),
    ),
    Section(
        "Display",
        "sun",
        (
            Choice("Brightness level", "system", "screen_brightness", BRIGHTNESS),
            Switch("Dark theme", "secure", "ui_night_mode", off="1", on="2"),
            Switch("Night light", "secure", "night_display_activated"),
            Choice("Font size", "system", "font_scale", FONT_SIZES),
            Choice("Screen timeout", "system", "screen_off_timeout", TIMEOUTS),
            Switch("Auto-rotate", "system", "accelerometer_rotation"),
        ),
    ),
    Section(
        "Sound",
        "volume",
        (
            Level("Media volume", "system", "volume_music", 15),
            Level("Ring volume", "system", "volume_ring", 7),
            Level("Alarm volume", "system", "volume_alarm", 7),
            Switch("Vibrate for calls", "system", "vibrate_when_ringing"),
            Switch("Do not disturb", "global", "zen_mode"),
        ),
    ),
    Section("Battery", "battery", (Info("Battery level", "85 %"), Switch("Battery saver", "global", "low_power"))),
    Section("Location", "place", (Switch("Use location", "secure", "location_mode", on="3"),)),
    Section(
        "Date & time",
        "clock",
        (
            Switch("Automatic time", "global", "auto_time"),
            Info("Date", name="date"),
            Info("Time", name="time"),
            Switch("24-hour format", "system", "time_12_24", off="12", on="24"),
        ),
    ),
    SYSTEM,
    Section(
        "About phone", "info", (Link("Device name", "name"), Info("Model", "Pixel 7"), Info("Android version", "13"))
    ),
)


def rows_of(kind: type[RowT]) -> Iterator[tuple[Section, RowT]]:
    """All rows of a kind with the section they are in, in screen order."""
    return ((section, row) for section in SECTIONS for row in section.rows if isinstance(row, kind))
