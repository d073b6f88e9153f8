"""Tasks of Settings: switches, choices, volumes, and the names of networks and of the device."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from mobilerl.envs.base import Action, Back
from mobilerl.envs.phone.apps.settings_tables import SECTIONS, Choice, Level, Section, Stored, Switch, rows_of
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, Row, RowTemplate, Step, Template, Type
from mobilerl.envs.phone.tasks.helpers import repeat, unchanged
from mobilerl.envs.phone.tasks.ui import UI
from mobilerl.envs.phone.words import DEVICE_NAMES, FIRST_NAMES, NETWORK_NAMES, PASSWORDS

SWITCHES: dict[str, Switch] = {row.title: row for _, row in rows_of(Switch)}
CHOICES: dict[str, Choice] = {row.title: row for _, row in rows_of(Choice)}
LEVELS: dict[str, Level] = {row.title: row for _, row in rows_of(Level)}
STORED: dict[str, Stored] = {**SWITCHES, **CHOICES, **LEVELS}


def section_of(title: str) -> Section:
    """The section a row is in."""
    return next(s for s in SECTIONS for row in s.rows if row.title == title)


def open_section(name: str) -> Step:
    """Taps the section that the setting of the parameter `name` is in."""
    return lambda ui, p: ui.press(section_of(p[name]).title)


class _Settings(Template):
    """Keeps what the pages of the task's rows held, so that a run that changed anything else there has failed."""

    app = "Settings"

    def first(self) -> dict[str, str]:
        """Title -> the value that the settings of the task have at first."""
        raise NotImplementedError

    def target_values(self) -> dict[str, str]:
        """Title -> the value that they must have at the end, when it is another."""
        return {}

    def setup(self, phone: Admin) -> None:
        for title, value in self.first().items():
            phone.put_setting(STORED[title].space, STORED[title].key, value)
        sections = {section_of(title).title: section_of(title) for title in self.first()}.values()
        self.watched = [r for s in sections for r in s.rows if isinstance(r, Stored)]
        self.before = self._values(phone)

    def _values(self, phone: Admin) -> dict[str, str]:
        return {row.title: phone.setting(row.space, row.key) for row in self.watched}

    def done(self, phone: Admin) -> bool:
        return self._values(phone) == self.before | self.target_values()

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        if not (wanted := self.target_values()):
            return super().conditions(phone, answer)
        values = self._values(phone)
        kept = all(value in (self.before[title], wanted.get(title)) for title, value in values.items())
        return [kept and values[title] == value for title, value in wanted.items()]


class _Switches(_Settings):
    """Switches on different pages, param name -> whether it is to be on."""

    turned: dict[str, bool]

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        sections = sorted({section_of(title).title for title in SWITCHES})
        chosen = rng.sample(sections, len(cls.turned))
        titles = (rng.choice([t for t in SWITCHES if section_of(t).title == s]) for s in chosen)
        return dict(zip(cls.turned, titles, strict=True))

    def _positions(self, reverse: bool) -> dict[str, str]:
        rows = {SWITCHES[self.p[name]]: on != reverse for name, on in self.turned.items()}
        return {row.title: row.on if on else row.off for row, on in rows.items()}

    def first(self) -> dict[str, str]:
        return self._positions(reverse=True)

    def target_values(self) -> dict[str, str]:
        return self._positions(reverse=False)


class SettingsTurnOn(_Switches):
    instructions = ("Turn on {switch} in the settings", "Go to Settings and switch {switch} on")
    turned = {"switch": True}
    script = (open_section("switch"), "{switch}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"switch": rng.choice(list(SWITCHES))}


class SettingsTurnOff(SettingsTurnOn):
    demo = False
    instructions = ("Turn off {switch} in the settings", "Go to Settings and switch {switch} off")
    turned = {"switch": False}


class SettingsTwoSwitches(_Switches):
    instructions = ("Turn on {first} and turn off {second} in the settings",)
    turned = {"first": True, "second": False}
    script = (open_section("first"), "{first}", Back(), open_section("second"), "{second}")


class SettingsThreeSwitches(_Switches):
    demo = False
    instructions = ("Turn on {first} and {second} and turn off {third}",)
    turned = {"first": True, "second": True, "third": False}
    script = (*SettingsTwoSwitches.script, Back(), open_section("third"), "{third}")


class _OneChoice(_Settings):
    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = CHOICES[rng.choice(list(CHOICES))]
        return {"setting": row.title, "value": rng.choice(list(row.options))}


class SettingsChoose(_OneChoice):
    instructions = ("Set the {setting} to {value} in the settings", "Change the {setting} of this phone to {value}")
    script = (open_section("setting"), "{setting}", "{value}")

    def first(self) -> dict[str, str]:
        values = CHOICES[self.p["setting"]].options
        options = list(values)
        return {self.p["setting"]: values[options[(options.index(self.p["value"]) + 2) % len(options)]]}

    def target_values(self) -> dict[str, str]:
        return {self.p["setting"]: CHOICES[self.p["setting"]].options[self.p["value"]]}


class SettingsReadChoice(_OneChoice):
    instructions = ("What is the {setting} of this phone?",)
    script = (open_section("setting"),)
    answer = "{value}"

    def first(self) -> dict[str, str]:
        return {self.p["setting"]: CHOICES[self.p["setting"]].options[self.p["value"]]}


def _step_volume(ui: UI, p: Row) -> Iterable[Action]:
    verb = "Raise" if p["level"] > p["start"] else "Lower"
    return repeat(f"{verb} {p['setting'].lower()}", lambda p: abs(p["level"] - p["start"]))(ui, p)


class SettingsVolume(_Settings):
    """One to three steps up or down from `start`."""

    instructions = ("Set the {setting} to {level} in the settings",)
    script = ("Sound", _step_volume)
    steps = 6

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = LEVELS[rng.choice(list(LEVELS))]
        level, change = rng.randint(0, row.top), rng.choice((-3, -2, -1, 1, 2, 3))
        start = level - change
        if not 0 <= start <= row.top:
            start = level + change
        return {"setting": row.title, "level": level, "start": start}

    def first(self) -> dict[str, str]:
        return {self.p["setting"]: str(self.p["start"])}

    def target_values(self) -> dict[str, str]:
        return {self.p["setting"]: str(self.p["level"])}


class SettingsReadVolume(_Settings):
    instructions = ("What is the {setting} of this phone?",)
    script = ("Sound",)
    answer = "{level}"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = LEVELS[rng.choice(list(LEVELS))]
        return {"setting": row.title, "level": rng.randint(0, row.top)}

    def first(self) -> dict[str, str]:
        return {self.p["setting"]: str(self.p["level"])}


class _Network(RowTemplate):
    """Wi-Fi is on and connected to a network other than `network`, which is `in_range` or not."""

    app = "Settings"
    table = "wifi/networks"
    in_range = True
    params = {"network": NETWORK_NAMES, "password": PASSWORDS}

    def setup(self, phone: Admin) -> None:
        phone.put_setting("global", "wifi_on", "1")
        phone.delete(self.table)
        start = NETWORK_NAMES.index(self.p["network"])
        others = [NETWORK_NAMES[(start + i) % len(NETWORK_NAMES)] for i in (1, 4, 7)]
        for i, name in enumerate(others):
            phone.insert(self.table, name=name, password=PASSWORDS[i], connected=int(i == 0))
        if self.in_range:
            phone.insert(self.table, name=self.p["network"], password=self.p["password"], connected=0)
        self.before = phone.rows(self.table)

    def connected(self, phone: Admin) -> bool:
        """Whether the phone is connected to the task's network alone."""
        return [r["name"] for r in phone.rows(self.table) if r["connected"]] == [self.p["network"]]


class SettingsConnect(_Network):
    split = "test"
    instructions = ("Connect to the Wi-Fi network {network} with the password {password}",)
    script = ("Network & internet", "Wi-Fi networks", "{network}", Type("{password}"), "Connect")

    def done(self, phone: Admin) -> bool:
        return phone.setting("global", "wifi_on") == "1" and self.connected(phone)


class SettingsConnectMissing(_Network):
    """The network is not in range: the right answer is that it cannot be done."""

    instructions = SettingsConnect.instructions
    script = ("Network & internet", "Wi-Fi networks")
    answer = INFEASIBLE
    in_range = False
    done = unchanged


class SettingsWhichNetwork(_Network):
    instructions = ("Which Wi-Fi network is this phone connected to?",)
    script = ("Network & internet",)
    answer = "{network}"
    done = _Network.connected

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        for row in self.before:
            phone.update(self.table, row["_id"], connected=int(row["name"] == self.p["network"]))


class _DeviceName(Template):
    app = "Settings"
    params = {"name": lambda rng: f"{rng.choice(FIRST_NAMES)} {rng.choice(DEVICE_NAMES)}"}

    def done(self, phone: Admin) -> bool:
        return phone.setting("global", "device_name") == self.p["name"]


class SettingsRename(_DeviceName):
    instructions = ("Change the device name to {name}", "Name this device {name} in the settings")
    script = ("About phone", "Device name", Type("{name}"), "Save")


class SettingsReadName(_DeviceName):
    instructions = ("What is the device name of this phone?",)
    script = ("About phone",)
    answer = "{name}"

    def setup(self, phone: Admin) -> None:
        phone.put_setting("global", "device_name", self.p["name"])
