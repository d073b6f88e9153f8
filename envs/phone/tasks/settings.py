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
    instructions = (
        "[Turn|Switch] on {switch} in the settings",
        "Go to Settings and [turn|switch] {switch} on",
        "{switch} [is off, turn it on|should be on, change that] in [the settings|Settings]",
        "I [want|need] {switch} on, [use the settings|open Settings for that]",
    )
    turned = {"switch": True}
    script = (open_section("switch"), "{switch}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"switch": rng.choice(list(SWITCHES))}


class SettingsTurnOff(SettingsTurnOn):
    demo = False
    instructions = (
        "[Turn|Switch] off {switch} in the settings",
        "Go to Settings and [turn|switch] {switch} off",
        "{switch} [is on, turn it off|should be off, change that] in [the settings|Settings]",
        "I [want|need] {switch} off, [use the settings|open Settings for that]",
    )
    turned = {"switch": False}


class SettingsTwoSwitches(_Switches):
    instructions = (
        "[Turn|Switch] on {first} and [turn|switch] off {second} in the settings",
        "In Settings [turn|switch] {first} on and {second} off",
        "In [the settings|Settings] {first} should be on and {second} off",
        "Turn off {second} and [also turn|turn] on {first} in the settings",
        "I want {first} on and {second} off, change that in Settings",
    )
    turned = {"first": True, "second": False}
    script = (open_section("first"), "{first}", Back(), open_section("second"), "{second}")


class SettingsThreeSwitches(_Switches):
    demo = False
    instructions = (
        "[Turn|Switch] on {first} and {second} and [turn|switch] off {third}",
        "In [Settings|the settings] [turn|switch] {first} and {second} on and {third} off",
        "{first} and {second} should be on and {third} off, [use Settings|change that in the settings]",
        "Turn off {third} and [turn|switch] on {first} and {second} in the settings",
    )
    turned = {"first": True, "second": True, "third": False}
    script = (*SettingsTwoSwitches.script, Back(), open_section("third"), "{third}")


class _OneChoice(_Settings):
    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = CHOICES[rng.choice(list(CHOICES))]
        return {"setting": row.title, "value": rng.choice(list(row.options))}


class _Choose(_OneChoice):
    """The setting has another value at first."""

    def first(self) -> dict[str, str]:
        values = CHOICES[self.p["setting"]].options
        options = list(values)
        return {self.p["setting"]: values[options[(options.index(self.p["value"]) + 2) % len(options)]]}

    def target_values(self) -> dict[str, str]:
        return {self.p["setting"]: CHOICES[self.p["setting"]].options[self.p["value"]]}


class SettingsChoose(_Choose):
    instructions = (
        "Set the {setting} to {value} in [the settings|Settings]",
        "Change the {setting} [of this phone |]to {value}",
        "[Open|Go to] Settings and [set|change] the {setting} to {value}",
        "The {setting} [of this phone |]should be {value}[, change it in Settings|]",
        "[Select|I want] {value} as the {setting} in Settings",
    )
    script = (open_section("setting"), "{setting}", "{value}")


class SettingsReadChoice(_OneChoice):
    instructions = (
        "What is the {setting} [of|on] [this|my] phone?",
        "What {setting} is set [on this phone|in the settings|in Settings]?",
        "[Tell me|Look up|Find] the {setting} [of this phone|of my phone|in the settings|in Settings]",
        "[Open|Go to] Settings and tell me [the {setting}|what the {setting} is]",
        "To what is the {setting} [of this phone |]set?",
    )
    script = (open_section("setting"),)
    answer = "{value}"

    def first(self) -> dict[str, str]:
        return {self.p["setting"]: CHOICES[self.p["setting"]].options[self.p["value"]]}


def _step_volume(ui: UI, p: Row) -> Iterable[Action]:
    verb = "Raise" if p["level"] > p["start"] else "Lower"
    return repeat(f"{verb} {p['setting'].lower()}", lambda p: abs(p["level"] - p["start"]))(ui, p)


class SettingsVolume(_Settings):
    """One to three steps up or down from `start`."""

    instructions = (
        "Set the {setting} to [|level ]{level} in [the settings|Settings]",
        "[Open|Go to] Settings and [set|change] the {setting} to {level}",
        "The {setting} should be [|at ]{level}[, change it in Settings|]",
        "Change the {setting} [of this phone |]to level {level}",
    )
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
    instructions = SettingsReadChoice.instructions
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
    instructions = (
        "Connect to the [Wi-Fi network|Wi-Fi|network] {network} with the password {password}",
        "[Connect|Switch] this phone to the Wi-Fi network {network}, [the password is|password] {password}",
        "Use the Wi-Fi [network |]{network}, [its password is|with the password] {password}",
        "The password of the Wi-Fi [network |]{network} is {password}, connect to it",
    )
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
    instructions = (
        "[Which|What] [Wi-Fi network|Wi-Fi|network] is [this|my|the] phone [connected to|using|on]?",
        "To which [Wi-Fi |]network is [this|my] phone connected?",
        "[Tell me|Look up] the name of the Wi-Fi network [this|my] phone is [connected to|on|using]",
    )
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
    instructions = (
        "[Change|Set] the device name [|of this phone ]to {name}",
        "Name this [device|phone] {name} in [the settings|Settings]",
        "Rename this [phone|device] to {name}[ in Settings|]",
        "This [phone|device] should be [called|named] {name}",
    )
    script = ("About phone", "Device name", Type("{name}"), "Save")


class SettingsReadName(_DeviceName):
    instructions = (
        "What is the device name of [this|my] [phone|device]?",
        "What is [this|my] [phone|device] [called|named][ in the settings|]?",
        "[Tell me|Look up|Find] the device name [of this phone|of my phone|in Settings|in the settings]",
        "[What|Which] [name|device name] does [this|my] [phone|device] have?",
        "Open Settings and [tell me|look up|find] the [device name|name of this phone]",
    )
    script = ("About phone",)
    answer = "{name}"

    def setup(self, phone: Admin) -> None:
        phone.put_setting("global", "device_name", self.p["name"])
