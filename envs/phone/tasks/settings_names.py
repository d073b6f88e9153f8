"""Tasks of Settings about names: of Wi-Fi networks and of the device."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import INFEASIBLE, Admin, Hand, Template, same_answer
from envs.phone.words import DEVICE_NAMES, FIRST_NAMES, NETWORK_NAMES, PASSWORDS

NETWORKS = "wifi/networks"
CONNECT = ("Connect to the Wi-Fi network {network} with the password {password}",)


class _Network(Template):
    """Wi-Fi is on and connected to a network other than `network`, which is `in_range` or not."""

    app = "Settings"
    in_range = True

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"network": rng.choice(NETWORK_NAMES), "password": rng.choice(PASSWORDS)}

    def setup(self, phone: Admin) -> None:
        phone.put_setting("global", "wifi_on", "1")
        phone.delete(NETWORKS)
        start = NETWORK_NAMES.index(self.p["network"])
        others = [NETWORK_NAMES[(start + i) % len(NETWORK_NAMES)] for i in (1, 4, 7)]
        for i, name in enumerate(others):
            phone.insert(NETWORKS, name=name, password=PASSWORDS[i], connected=int(i == 0))
        if self.in_range:
            phone.insert(NETWORKS, name=self.p["network"], password=self.p["password"], connected=0)
        self.before = phone.rows(NETWORKS)

    def connected(self, phone: Admin) -> list[str]:
        return [r["name"] for r in phone.rows(NETWORKS) if r["connected"]]


class SettingsConnect(_Network):
    split = "test"
    instructions = CONNECT
    steps = 7

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.setting("global", "wifi_on") == "1" and self.connected(phone) == [self.p["network"]]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap("Network & internet")
        yield ui.tap("Wi-Fi networks")
        yield ui.tap(self.p["network"])
        yield ui.type(self.p["password"])
        yield ui.tap("Connect")
        yield ui.finish()


class SettingsConnectMissing(_Network):
    """The network is not in range: the right answer is that it cannot be done."""

    instructions = CONNECT
    steps = 4
    feasible = False
    in_range = False

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, INFEASIBLE) and phone.rows(NETWORKS) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap("Network & internet")
        yield ui.tap("Wi-Fi networks")
        yield ui.finish(INFEASIBLE)


class SettingsWhichNetwork(_Network):
    instructions = ("Which Wi-Fi network is this phone connected to?",)
    steps = 3

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        for row in self.before:
            phone.update(NETWORKS, row["_id"], connected=int(row["name"] == self.p["network"]))

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["network"]) and self.connected(phone) == [self.p["network"]]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap("Network & internet")
        yield ui.finish(self.p["network"])


class _DeviceName(Template):
    app = "Settings"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"name": f"{rng.choice(FIRST_NAMES)} {rng.choice(DEVICE_NAMES)}"}


class SettingsRename(_DeviceName):
    instructions = ("Change the device name to {name}", "Name this device {name} in the settings")
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return phone.setting("global", "device_name") == self.p["name"]

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap("About phone")
        yield ui.tap("Device name")
        yield ui.type(self.p["name"])
        yield ui.tap("Save")
        yield ui.finish()


class SettingsReadName(_DeviceName):
    instructions = ("What is the device name of this phone?",)
    steps = 3

    def setup(self, phone: Admin) -> None:
        phone.put_setting("global", "device_name", self.p["name"])

    def check(self, phone: Admin, answer: str) -> bool:
        unchanged = phone.setting("global", "device_name") == self.p["name"]
        return unchanged and same_answer(answer, self.p["name"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Settings")
        yield ui.tap("About phone")
        yield ui.finish(self.p["name"])


TEMPLATES = (SettingsConnect, SettingsConnectMissing, SettingsWhichNetwork, SettingsRename, SettingsReadName)
