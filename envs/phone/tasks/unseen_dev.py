"""Templates that are never trained on, for choosing settings; those of the apps' modules with this split are too."""

from __future__ import annotations

import random
from typing import Any

from mobilerl.envs.base import Back, Launch
from mobilerl.envs.phone.apps.messages import SENT
from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, RowTemplate, Type
from mobilerl.envs.phone.tasks.clock import CITY_ROWS, _OneAlarm
from mobilerl.envs.phone.tasks.contacts import PEOPLE, add_contact
from mobilerl.envs.phone.tasks.files import _OneFile, _tree
from mobilerl.envs.phone.tasks.helpers import adds, edits, tap_field, unchanged
from mobilerl.envs.phone.tasks.maps import ROUTE, _OnePlace
from mobilerl.envs.phone.tasks.messages import OLD_NUMBER, _NewMessage, _TwoPeople
from mobilerl.envs.phone.tasks.notes import NOTES, _OneNote
from mobilerl.envs.phone.tasks.settings import SWITCHES, SettingsChoose, _Choose, open_section, section_of
from mobilerl.envs.phone.tasks.shop import _OneOrder
from mobilerl.envs.phone.words import CITIES, NOTE_LINES, NOTE_TITLES


class NotesEdit(_OneNote):
    split = "dev"
    instructions = (
        "[Change|Set] the text of [the|my] note {title} to {new}",
        "The note {title} should say {new}[, change it|]",
        "[Edit|Update] the note {title}, it should say {new}",
        "In Notes [change|set] the text of {title} to {new}",
    )
    script = ("{title}", "Edit", tap_field("Note"), Type("{new}"), "Save")
    done = edits(body="{new}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        body, new = rng.sample(NOTE_LINES, 2)
        return {"title": rng.choice(NOTE_TITLES), "body": body, "new": new}


class NotesToMessage(_NewMessage):
    """Two apps: the text read in one is sent with the other."""

    app = "Notes"
    split = "dev"
    instructions = (
        "Send the text of [the|my] note {title} to {name}[ in Messages|]",
        "Send {name} [the text of|what is in|what I have in] the note {title}",
        "[Write|Send] to {name} what the note {title} says",
        "{name} should get the text of the note {title}[, send it|]",
    )
    params = {**_NewMessage.params, "body": NOTE_LINES, "title": NOTE_TITLES}
    script = (Launch("Messages"), "New message", "{name}", Type("{body}"), "Send")
    sends = staticmethod(adds(address="{name}", body="{body}", type=SENT, read=1))

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.delete_where(NOTES, lambda row: row["title"] == self.p["title"])
        phone.insert(NOTES, title=self.p["title"], body=self.p["body"])
        self.notes = phone.rows(NOTES)

    def done(self, phone: Admin) -> bool:
        return self.sends(self, phone) and phone.rows(NOTES) == self.notes


class SettingsSwitchAndChoice(_Choose):
    """The switch is on another page than the choice."""

    split = "dev"
    instructions = (
        "[Turn|Switch] on {switch} and [set|change] the {setting} to {value}",
        "In Settings [turn|switch] on {switch} and set the {setting} to {value}",
        "Set the {setting} to {value} and [turn|switch] on {switch}[ in the settings|]",
        "{switch} should be on and the {setting} should be {value}",
    )
    script = (open_section("switch"), "{switch}", Back(), *SettingsChoose.script)

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        params = super().sample(rng)
        page = section_of(params["setting"])
        return {**params, "switch": rng.choice([title for title in SWITCHES if section_of(title) != page])}

    def first(self) -> dict[str, str]:
        return super().first() | {self.p["switch"]: SWITCHES[self.p["switch"]].off}

    def target_values(self) -> dict[str, str]:
        return super().target_values() | {self.p["switch"]: SWITCHES[self.p["switch"]].on}


class ClockAlarmDaily(_OneAlarm):
    split = "dev"
    instructions = (
        "Repeat the [{time} alarm|alarm at {time}] daily",
        "[Set|Change] the alarm at {time} to [repeat daily|daily]",
        "The {time} alarm should [ring|repeat] daily",
        "Make the {time} alarm [a daily one|repeat daily]",
        "In Clock make the alarm for {time} repeat daily",
    )
    script = ("{time}", "Repeat daily")
    done = edits(daily=1)


class ClockCityAdd(RowTemplate):
    app = "Clock"
    split = "dev"
    table = CITY_ROWS
    unique = ("name",)
    instructions = (
        "Add [|the city ]{name} to the world clock[| in Clock]",
        "[Show|Put] {name} in the world clock",
        "The world clock should show {name}[, add it|]",
        "In Clock add [|the city ]{name}",
    )
    params = {"name": CITIES}
    script = ("World", "Add city", "{name}")
    steps = 6
    done = adds(name="{name}")


class ContactsTwoFavourites(_TwoPeople):
    app = "Contacts"
    split = "dev"
    table = PEOPLE
    instructions = (
        "Add [the contacts |]{name} and {other} to [the|my] favourites[| in Contacts]",
        "Make {name} and {other} favourites[ in Contacts|]",
        "{name} and {other} should be [favourites in Contacts|my favourite contacts]",
    )
    script = ("{name}", "Add favourite", Back(), "{other}", "Add favourite")

    def clear(self, phone: Admin) -> None:
        for name in self.names():
            add_contact(phone, name, phone=OLD_NUMBER)

    def done(self, phone: Admin) -> bool:
        asked = {row["_id"] for row in self.before[-2:]}
        return phone.rows(PEOPLE) == [row | {"favourite": 1} if row["_id"] in asked else row for row in self.before]


class ShopOrderItem(_OneOrder):
    split = "dev"
    instructions = (
        "What [did I buy|was bought] in order {number}[ in Shop|]?",
        "What [was|is] in order {number}[ in Shop|]?",
        "[Tell me|Look up] what I bought in order {number}",
        "Which item [has|was in] order {number}?",
    )
    script = ("Orders", "Order {number}")
    answer = "{product}"


class FilesPrint(_OneFile):
    """Files has no printing: the right answer is that it cannot be done."""

    split = "dev"
    instructions = (
        "Print [the file |]{name} [in|from] {folder}",
        "I [want|need] to print the file {name} in {folder}",
        "[Open|Find] the file {name} in {folder} and print it",
        "In Files open {name} in {folder} and print it",
        "Send the file {name} in {folder} to the printer",
    )
    script = ("{folder}", "{name}")
    answer = INFEASIBLE

    def done(self, phone: Admin) -> bool:
        return _tree(phone) == self.before


class MapsEndRoute(_OnePlace):
    split = "dev"
    instructions = (
        "[End|Cancel|Close] the route to the {place}[ in Maps|]",
        "Do not [go|navigate] to the {place} any more, end the route",
        "In Maps [end|cancel] the route to the {place}",
    )
    script = ("End route",)

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.update(ROUTE, 1, destination=self.p["place"], mode="Car")

    def done(self, phone: Admin) -> bool:
        return phone.rows(ROUTE)[0]["destination"] == "" and unchanged(self, phone)
