"""Settings: the pages of `settings_tables.py`, drawn over the phone's settings, and the Wi-Fi networks in reach."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.apps.settings_tables import (
    SECTIONS,
    SYSTEM,
    Choice,
    Info,
    Level,
    Link,
    Section,
    SettingsRow,
    Stored,
    Switch,
)
from mobilerl.envs.phone.languages.dates import full_day
from mobilerl.envs.phone.languages.language import Language
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import Dialog, Handler, Node, Screen
from mobilerl.envs.phone.widgets import field, icon_button, item, label, radio_item, step_buttons, switch_item
from mobilerl.envs.phone.words import NETWORK_NAMES, PASSWORDS


class Settings(App):
    package = "com.android.settings"
    label = "Settings"
    authority = "wifi"
    icon = "gear"
    color = "#455A8A"
    tables = {"networks": {"name": "", "password": "", "connected": 0}}
    list_detail = ListDetail(("main",), ("section", "networks", "name", "languages"), "Select a setting")

    def populate(self, rng: random.Random) -> None:
        for i, name in enumerate(rng.sample(NETWORK_NAMES, 4)):
            self.insert("networks", name=name, password=rng.choice(PASSWORDS), connected=int(i == 0))

    def value(self, row: Stored) -> str:
        """The stored value; "" when it was deleted over adb."""
        return self.phone.settings[row.space].get(row.key, "")

    def put(self, row: Stored, value: str) -> None:
        self.phone.settings[row.space][row.key] = value

    def level(self, row: Level) -> int:
        value = self.value(row)
        return min(int(value), row.top) if value.isdecimal() else 0

    def page_main(self, page: Page) -> Screen:
        shown = [(i, s) for i, s in enumerate(SECTIONS) if s is not SYSTEM or len(self.phone.languages) > 1]
        return Screen(self.t("Settings"), [self._section_row(i, section) for i, section in shown])

    def _section_row(self, index: int, section: Section) -> Node:
        opened, shown = partial(self.go, "section", index=index), self.shown_beside(index=index)
        return item(self.t(section.title), icon=section.icon, on_tap=opened, selected=shown)

    def open_section(self, title: str) -> None:
        """Shows the page of a section, as an intent of another app asks for."""
        index = next(i for i, s in enumerate(SECTIONS) if s.title == title)
        self.stack = [Page("main"), Page("section", {"index": index})]

    def page_section(self, page: Page) -> Screen:
        section = SECTIONS[page.args["index"]]
        return Screen(self.t(section.title), [self._row(i, row) for i, row in enumerate(section.rows)], on_up=self.up)

    def _row(self, index: int, row: SettingsRow) -> Node:
        title = self.t(row.title)
        match row:
            case Switch():
                on = self.phone.is_on(row.space, row.key, row.off)
                return switch_item(title, on, lambda: self.put(row, row.off if on else row.on))
            case Choice():
                shown = self.t(row.label(self.value(row)))
                return item(title, shown, on_tap=lambda: self.open_dialog("choice", row=index))
            case Level():
                return self._level_row(row)
            case Link():
                summary: Callable[[], str] = getattr(self, f"summary_{row.page}")
                opened: Handler = getattr(self, f"open_{row.page}")
                return item(title, summary(), on_tap=opened)
            case Info():
                return item(title, getattr(self, f"info_{row.name}")() if row.name else self.t(row.text))

    def _level_row(self, row: Level) -> Node:
        level, name = self.level(row), row.title.lower()

        def change(by: int) -> None:
            self.put(row, str(min(max(0, level + by), row.top)))

        buttons = step_buttons(self.t(f"Lower {name}"), self.t(f"Raise {name}"), change)
        return item(self.t(row.title), str(level), trailing=buttons)

    def dialog_choice(self, page: Page) -> Dialog:
        row = SECTIONS[page.args["index"]].rows[page.dialog_args["row"]]
        assert isinstance(row, Choice)
        shown = row.label(self.value(row))
        return self.choice(self.t(row.title), list(row.options), shown, lambda name: self.put(row, row.options[name]))

    def info_date(self) -> str:
        return full_day(self.t, self.phone.now)

    def info_time(self) -> str:
        now = self.phone.now
        if self.phone.settings["system"].get("time_12_24") == "12":
            return f"{(now.hour - 1) % 12 + 1}:{now:%M} {self.t(f'{now:%p}')}"
        return f"{now.hour}:{now:%M}"

    def summary_name(self) -> str:
        return self.phone.settings["global"].get("device_name", "")

    def open_name(self) -> None:
        self.go("name", focus="name", fields={"name": self.summary_name()})

    def page_name(self, page: Page) -> Screen:
        actions = [icon_button("check", self.t("Save"), lambda: self._save_name(page))]
        return Screen(self.t("Device name"), [field("name", self.t("Name"))], actions, on_up=self.up)

    def _save_name(self, page: Page) -> None:
        name = page.fields["name"].strip()
        if not name:
            self.toast(self.t("Enter a name"))
            return
        self.phone.settings["global"]["device_name"] = name
        self.up()

    def summary_languages(self) -> str:
        return self.phone.languages[0].name

    def open_languages(self) -> None:
        self.go("languages")

    def page_languages(self, page: Page) -> Screen:
        """The languages of the phone in the order in which the user prefers them; the first is shown."""
        known = self.phone.languages
        rows = [radio_item(one.name, one is known[0], partial(self._prefer, one)) for one in known]
        return Screen(self.t("Languages"), rows, on_up=self.up)

    def _prefer(self, language: Language) -> None:
        rest = [one.locale for one in self.phone.languages if one is not language]
        self.phone.settings["system"]["system_locales"] = ",".join([language.locale, *rest])

    def _wifi(self) -> bool:
        return self.phone.settings["global"].get("wifi_on") == "1"

    def _find_connected(self) -> Row | None:
        return next((r for r in self.db["networks"] if r["connected"]), None) if self._wifi() else None

    def summary_networks(self) -> str:
        connected = self._find_connected()
        return connected["name"] if connected else self.t("Not connected")

    def open_networks(self) -> None:
        self.go("networks")

    def page_networks(self, page: Page) -> Screen:
        rows = sorted(self.db["networks"], key=lambda r: (-r["connected"], r["name"])) if self._wifi() else []
        nothing = self.t("No networks" if self._wifi() else "Turn on Wi-Fi")
        body = [self._network_row(r) for r in rows] or [label(nothing)]
        return Screen(self.t("Wi-Fi networks"), body, on_up=self.up)

    def _network_row(self, network: Row) -> Node:
        if network["connected"]:
            subtitle, tapped = "Connected", partial(self.open_dialog, "disconnect", id=network["_id"])
        else:
            subtitle, tapped = "Password needed", partial(self.ask, "password", "password", id=network["_id"])
        return item(network["name"], self.t(subtitle), icon="wifi", on_tap=tapped)

    def dialog_password(self, page: Page) -> Dialog:
        network = self.get("networks", page.dialog_args["id"])
        name = network["name"] if network else self.t("Not in range")
        return self.text_dialog(name, "password", self.t("Password"), self.t("Connect"), password=True)

    def dialog_disconnect(self, page: Page) -> Dialog:
        network = self.get("networks", page.dialog_args["id"])
        name = network["name"] if network else self.t("Not in range")
        leave = partial(self._disconnect, network)
        return self.confirmation(name, leave, self.t("Disconnect"), self.t("Connected"))

    def submit(self, page: Page, key: str) -> None:
        """Enter does what the button of the page does: saves the name, or connects with the password."""
        if key == "name":
            self._save_name(page)
            return
        network = self.get("networks", page.dialog_args["id"])
        if network is None or page.fields["password"].strip() != network["password"]:
            self.toast(self.t("Wrong password"))
            return
        for row in self.db["networks"]:
            row["connected"] = int(row is network)
        self.close_dialog()

    def _disconnect(self, network: Row | None) -> None:
        if network is not None:
            network["connected"] = 0
        self.close_dialog()
