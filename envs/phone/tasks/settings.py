"""Tasks of Settings: switches, choices and volumes. Those about names are in `settings_names.py`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.apps.settings_tables import SECTIONS, Choice, Level, Section, Stored, Switch, rows_of
from envs.phone.tasks.base import Admin, Hand, Template, same_answer

SWITCHES: dict[str, Switch] = {row.title: row for _, row in rows_of(Switch)}
CHOICES: dict[str, Choice] = {row.title: row for _, row in rows_of(Choice)}
LEVELS: dict[str, Level] = {row.title: row for _, row in rows_of(Level)}


def section_of(title: str) -> Section:
    """The section a row is in."""
    return next(s for s in SECTIONS for row in s.rows if row.title == title)


class _Settings(Template):
    """Keeps what the pages of the task's rows held, so that a run that changed anything else there has failed."""

    app = "Settings"

    def watch(self, phone: Admin, *titles: str) -> None:
        """Called at the end of `setup`, with the titles of the rows that the task is about."""
        sections = {section_of(t).title: section_of(t) for t in titles}.values()
        self.watched = {r.title: r for s in sections for r in s.rows if isinstance(r, Stored)}
        self.before = self._values(phone)

    def _values(self, phone: Admin) -> dict[str, str]:
        return {title: phone.setting(row.space, row.key) for title, row in self.watched.items()}

    def is_exactly(self, phone: Admin, **wanted: str) -> bool:
        return self._values(phone) == self.before | wanted


def _put(phone: Admin, row: Stored, value: str) -> None:
    phone.put_setting(row.space, row.key, value)


class SettingsTurnOn(_Settings):
    instructions = ("Turn on {switch} in the settings", "Go to Settings and switch {switch} on")
    steps = 4
    turned_on = True

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"switch": rng.choice(list(SWITCHES))}

    def setup(self, phone: Admin) -> None:
        row = SWITCHES[self.p["switch"]]
        _put(phone, row, row.off if self.turned_on else row.on)
        self.watch(phone, row.title)

    def check(self, phone: Admin, answer: str) -> bool:
        row = SWITCHES[self.p["switch"]]
        return self.is_exactly(phone, **{row.title: row.on if self.turned_on else row.off})

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap(section_of(self.p["switch"]).title)
        yield ui.tap(self.p["switch"])
        yield ui.finish()


class SettingsTurnOff(SettingsTurnOn):
    demo = False
    instructions = ("Turn off {switch} in the settings", "Go to Settings and switch {switch} off")
    turned_on = False


class _SeveralSwitches(_Settings):
    """Switches on different pages, param name -> whether it is to be on."""

    wanted: dict[str, bool]

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        sections = sorted({section_of(title).title for title in SWITCHES})
        chosen = rng.sample(sections, len(cls.wanted))
        titles = (rng.choice([t for t in SWITCHES if section_of(t).title == s]) for s in chosen)
        return dict(zip(cls.wanted, titles, strict=True))

    def setup(self, phone: Admin) -> None:
        for name, on in self.wanted.items():
            row = SWITCHES[self.p[name]]
            _put(phone, row, row.off if on else row.on)
        self.watch(phone, *(self.p[name] for name in self.wanted))

    def check(self, phone: Admin, answer: str) -> bool:
        rows = {self.p[name]: on for name, on in self.wanted.items()}
        return self.is_exactly(phone, **{t: SWITCHES[t].on if on else SWITCHES[t].off for t, on in rows.items()})

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        for i, name in enumerate(self.wanted):
            if i:
                yield ui.back()
            yield ui.tap(section_of(self.p[name]).title)
            yield ui.tap(self.p[name])
        yield ui.finish()


class SettingsTwoSwitches(_SeveralSwitches):
    instructions = ("Turn on {first} and turn off {second} in the settings",)
    steps = 7
    wanted = {"first": True, "second": False}


class SettingsThreeSwitches(_SeveralSwitches):
    demo = False
    instructions = ("Turn on {first} and {second} and turn off {third}",)
    steps = 10
    wanted = {"first": True, "second": True, "third": False}


class _OneChoice(_Settings):
    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = CHOICES[rng.choice(list(CHOICES))]
        return {"setting": row.title, "value": rng.choice(list(row.options))}


class SettingsChoose(_OneChoice):
    instructions = ("Set the {setting} to {value} in the settings", "Change the {setting} of this phone to {value}")
    steps = 5

    def setup(self, phone: Admin) -> None:
        row = CHOICES[self.p["setting"]]
        options = list(row.options)
        other = options[(options.index(self.p["value"]) + 2) % len(options)]
        _put(phone, row, row.options[other])
        self.watch(phone, row.title)

    def check(self, phone: Admin, answer: str) -> bool:
        row = CHOICES[self.p["setting"]]
        return self.is_exactly(phone, **{row.title: row.options[self.p["value"]]})

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap(section_of(self.p["setting"]).title)
        yield ui.tap(self.p["setting"])
        yield ui.tap(self.p["value"])
        yield ui.finish()


class SettingsReadChoice(_OneChoice):
    instructions = ("What is the {setting} of this phone?",)
    steps = 3

    def setup(self, phone: Admin) -> None:
        row = CHOICES[self.p["setting"]]
        _put(phone, row, row.options[self.p["value"]])
        self.watch(phone, row.title)

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["value"]) and self.is_exactly(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap(section_of(self.p["setting"]).title)
        yield ui.finish(self.p["value"])


class SettingsVolume(_Settings):
    """One to three steps up or down from `start`."""

    instructions = ("Set the {setting} to {level} in the settings",)
    steps = 6

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = LEVELS[rng.choice(list(LEVELS))]
        level, change = rng.randint(0, row.top), rng.choice((-3, -2, -1, 1, 2, 3))
        start = level - change
        if not 0 <= start <= row.top:
            start = level + change
        return {"setting": row.title, "level": level, "start": start}

    def setup(self, phone: Admin) -> None:
        row = LEVELS[self.p["setting"]]
        _put(phone, row, str(self.p["start"]))
        self.watch(phone, row.title)

    def check(self, phone: Admin, answer: str) -> bool:
        return self.is_exactly(phone, **{self.p["setting"]: str(self.p["level"])})

    def expert(self, ui: Hand) -> Iterator[Action]:
        change = self.p["level"] - self.p["start"]
        name = f"{'Raise' if change > 0 else 'Lower'} {self.p['setting'].lower()}"
        yield ui.launch("Settings")
        yield ui.tap("Sound")
        for _ in range(abs(change)):
            yield ui.tap(name)
        yield ui.finish()


class SettingsReadVolume(_Settings):
    instructions = ("What is the {setting} of this phone?",)
    steps = 3

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        row = LEVELS[rng.choice(list(LEVELS))]
        return {"setting": row.title, "level": rng.randint(0, row.top)}

    def setup(self, phone: Admin) -> None:
        row = LEVELS[self.p["setting"]]
        _put(phone, row, str(self.p["level"]))
        self.watch(phone, row.title)

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["level"]) and self.is_exactly(phone)

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap("Sound")
        yield ui.finish(str(self.p["level"]))


TEMPLATES = (
    SettingsTurnOn,
    SettingsTurnOff,
    SettingsTwoSwitches,
    SettingsThreeSwitches,
    SettingsChoose,
    SettingsReadChoice,
    SettingsVolume,
    SettingsReadVolume,
)
