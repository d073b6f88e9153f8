"""Settings, Contacts and Messages: what their screens do to the phone's state."""

from __future__ import annotations

import pytest

from envs.phone.app import App
from envs.phone.apps.contacts import Contacts
from envs.phone.apps.launcher import Launcher
from envs.phone.apps.messages import DRAFT, RECEIVED, SENT, Messages
from envs.phone.apps.people import full_name
from envs.phone.apps.settings import Settings
from envs.phone.apps.settings_tables import SECTIONS, Choice, Level, Stored, Switch, rows_of
from envs.phone.phone import DEFAULT_SETTINGS, Phone
from envs.phone.ui import Node


@pytest.fixture
def phone() -> Phone:
    return Phone((Launcher, Settings, Contacts, Messages))


def nodes(phone: Phone) -> list[Node]:
    return list(phone.tree().window.walk())


def texts(phone: Phone) -> list[str]:
    return [n.text or n.desc for n in nodes(phone) if n.text or n.desc]


def tap(phone: Phone, *names: str) -> None:
    """Taps what reads each name, one after the other; an edit field is found by its hint."""
    for name in names:
        left, top, right, bottom = next(n.bounds for n in nodes(phone) if name in (n.text, n.desc, n.hint))
        phone.tap((left + right) / 2, (top + bottom) / 2)


def write(phone: Phone, text: str) -> None:
    """What the device does for a Type action: the field is emptied first."""
    phone.clear_text()
    phone.text(text)


def launch(phone: Phone, cls: type[App]) -> App:
    phone.launch(cls.package)
    return phone.apps[cls.package]


# --- Settings --------------------------------------------------------------------------------------------------------


def test_every_row_is_a_known_setting_with_a_valid_default() -> None:
    for section in SECTIONS:
        for row in (r for r in section.rows if isinstance(r, Stored)):
            default = DEFAULT_SETTINGS[row.space][row.key]
            match row:
                case Switch():
                    assert default in (row.off, row.on), row.title
                case Choice():
                    assert default in row.options.values(), row.title
                case Level():
                    assert 0 <= int(default) <= row.top, row.title


def test_titles_are_unique() -> None:
    titles = [s.title for s in SECTIONS] + [r.title for s in SECTIONS for r in s.rows]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize(("section", "row"), list(rows_of(Switch)), ids=lambda x: x.title)
def test_switch_writes_its_setting_and_nothing_else(phone: Phone, section, row) -> None:
    before = {space: dict(values) for space, values in phone.settings.items()}
    old = before[row.space][row.key]
    launch(phone, Settings)
    tap(phone, section.title, row.title)
    before[row.space][row.key] = row.on if old == row.off else row.off
    assert phone.settings == before
    tap(phone, row.title)
    assert phone.settings[row.space][row.key] == old


def test_choice_is_stored_and_shown(phone: Phone) -> None:
    launch(phone, Settings)
    tap(phone, "Display", "Screen timeout", "5 minutes")
    assert phone.settings["system"]["screen_off_timeout"] == "300000"
    assert "5 minutes" in texts(phone) and "1 minute" not in texts(phone)


def test_a_value_set_from_outside_is_shown_as_it_is(phone: Phone) -> None:
    phone.settings["system"]["screen_brightness"] = "77"
    phone.settings["system"]["volume_ring"] = "99"
    del phone.settings["system"]["font_scale"]
    launch(phone, Settings)
    tap(phone, "Display")
    assert "77" in texts(phone)
    phone.back()
    tap(phone, "Sound", "Raise ring volume")
    assert phone.settings["system"]["volume_ring"] == "7"


def test_volume_stops_at_its_ends(phone: Phone) -> None:
    launch(phone, Settings)
    tap(phone, "Sound", *["Raise alarm volume"] * 3)
    assert phone.settings["system"]["volume_alarm"] == "7"
    tap(phone, *["Lower alarm volume"] * 9)
    assert phone.settings["system"]["volume_alarm"] == "0"


def test_time_follows_the_24_hour_switch(phone: Phone) -> None:
    launch(phone, Settings)
    tap(phone, "Date & time")
    assert "15:34" in texts(phone)
    tap(phone, "24-hour format")
    assert "3:34 PM" in texts(phone)


def test_device_name_must_not_be_empty(phone: Phone) -> None:
    launch(phone, Settings)
    tap(phone, "About phone", "Device name")
    write(phone, "  ")
    tap(phone, "Save")
    assert phone.settings["global"]["device_name"] == "Pixel 7"
    write(phone, " Anna tablet ")
    phone.enter()
    assert phone.settings["global"]["device_name"] == "Anna tablet"
    assert "About phone" in texts(phone)


def test_a_network_needs_its_password(phone: Phone) -> None:
    app = launch(phone, Settings)
    app.db["networks"] = []
    app.insert("networks", name="Cafe", password="river", connected=1)
    app.insert("networks", name="Hotel", password="apple")
    tap(phone, "Network & internet", "Wi-Fi networks", "Hotel")
    write(phone, "tiger")
    tap(phone, "Connect")
    assert [r["connected"] for r in app.db["networks"]] == [1, 0]
    write(phone, "apple")
    tap(phone, "Connect")
    assert [r["connected"] for r in app.db["networks"]] == [0, 1]
    assert not phone.tree().keyboard and phone.tree().dialog is None


def test_no_networks_without_wifi(phone: Phone) -> None:
    launch(phone, Settings)
    tap(phone, "Network & internet", "Wi-Fi")
    assert "Not connected" in texts(phone)
    tap(phone, "Wi-Fi networks")
    assert texts(phone) == ["Navigate up", "Wi-Fi networks", "Turn on Wi-Fi"]


# --- Contacts --------------------------------------------------------------------------------------------------------


def test_contact_is_created_at_its_place_in_the_alphabet(phone: Phone) -> None:
    launch(phone, Contacts)
    tap(phone, "New contact")
    write(phone, "Aaron")
    tap(phone, "Last name")
    write(phone, "Kim")
    tap(phone, "Save")
    names = [n.text for n in nodes(phone) if n.rid == "android:id/title"]
    assert names[0] == "Aaron Kim" and names == sorted(names)


def test_contact_needs_a_name(phone: Phone) -> None:
    app = launch(phone, Contacts)
    before = list(app.db["people"])
    tap(phone, "New contact", "Phone")
    write(phone, "20 31 47")
    tap(phone, "Save")
    assert app.db["people"] == before and "New contact" in texts(phone)


def test_search_finds_names_and_numbers(phone: Phone) -> None:
    app = launch(phone, Contacts)
    app.db["people"] = []
    app.insert("people", first="Anna", last="Kim", phone="20 31 47")
    app.insert("people", first="Ben", last="Hill", phone="55 60 61")
    tap(phone, "Search")
    for query, found in (("hill", ["Ben Hill"]), ("31 47", ["Anna Kim"]), ("n", ["Anna Kim", "Ben Hill"]), ("", [])):
        write(phone, query)
        phone.changed()
        assert [n.text for n in nodes(phone) if n.rid == "android:id/title" and n.text != "Search"] == found


def test_contact_that_is_deleted_from_outside(phone: Phone) -> None:
    app = launch(phone, Contacts)
    tap(phone, full_name(app.ordered()[0]))
    app.db["people"] = []
    phone.changed()
    assert "This contact was deleted" in texts(phone)


# --- Messages --------------------------------------------------------------------------------------------------------


def talk(phone: Phone) -> Messages:
    """Messages with one conversation, which has an unread message."""
    app = launch(phone, Messages)
    assert isinstance(app, Messages)
    app.db["messages"] = []
    app.insert("messages", address="Anna Kim", body="where are you", type=RECEIVED, read=0)
    phone.changed()
    return app


def test_conversations_are_with_contacts(phone: Phone) -> None:
    messages, contacts = phone.apps[Messages.package], phone.apps[Contacts.package]
    assert {r["address"] for r in messages.db["messages"]} <= {full_name(p) for p in contacts.db["people"]}


def test_opening_a_conversation_reads_it(phone: Phone) -> None:
    app = talk(phone)
    assert "New" in texts(phone)
    tap(phone, "Anna Kim")
    assert app.db["messages"][0]["read"] == 1
    phone.back()
    assert "New" not in texts(phone)


def test_a_text_that_is_left_behind_becomes_a_draft_until_it_is_sent(phone: Phone) -> None:
    app = talk(phone)
    tap(phone, "Anna Kim", "Text message")
    write(phone, "on my way")
    tap(phone, "Navigate up")
    assert [(r["body"], r["type"]) for r in app.db["messages"]] == [("where are you", RECEIVED), ("on my way", DRAFT)]
    assert "Draft: on my way" in texts(phone)
    tap(phone, "Anna Kim", "Send")
    assert [(r["body"], r["type"]) for r in app.db["messages"]] == [("where are you", RECEIVED), ("on my way", SENT)]
    phone.back()
    assert "on my way" in texts(phone)


def test_clearing_the_field_discards_the_draft(phone: Phone) -> None:
    app = talk(phone)
    app.insert("messages", address="Anna Kim", body="on my way", type=DRAFT)
    tap(phone, "Anna Kim", "Text message")
    phone.clear_text()
    phone.back()  # the keyboard
    phone.back()
    assert [r["type"] for r in app.db["messages"]] == [RECEIVED]


def test_nothing_is_sent_from_an_empty_field(phone: Phone) -> None:
    app = talk(phone)
    tap(phone, "Anna Kim", "Send")
    assert len(app.db["messages"]) == 1


def test_deleting_a_conversation_takes_its_draft_along(phone: Phone) -> None:
    app = talk(phone)
    tap(phone, "Anna Kim", "Text message")
    write(phone, "on my way")
    tap(phone, "Delete", "Delete")
    assert app.db["messages"] == [] and "No messages yet" in texts(phone)


def test_a_contact_leads_to_the_conversation_with_its_draft(phone: Phone) -> None:
    messages, contacts = phone.apps[Messages.package], launch(phone, Contacts)
    name = full_name(contacts.ordered()[0])
    messages.insert("messages", address=name, body="on my way", type=DRAFT)
    tap(phone, name, "Message")
    assert phone.current == Messages.package and phone.tree().keyboard
    assert "on my way" in texts(phone)
