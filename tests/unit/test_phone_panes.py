"""On wide screens a list stands beside the page opened from it, and both can be used."""

from __future__ import annotations

import pytest

from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.ui import EXPANDED, Node

WIDTH, HEIGHT = 1280, 800


def wide(app: str, width: int = WIDTH, height: int = HEIGHT) -> Phone:
    phone = Phone(APPS)
    phone.display.size_override, phone.display.density_override = (width, height), 160
    phone.launch(phone.app(app).package)
    return phone


def nodes(phone: Phone, name: str) -> list[Node]:
    return [n for n in phone.tree().window.walk() if name in (n.text, n.desc, n.hint)]


def tap(phone: Phone, name: str, nth: int = 0) -> None:
    left, top, right, bottom = nodes(phone, name)[nth].bounds
    phone.tap((left + right) / 2, (top + bottom) / 2)


def stack(phone: Phone) -> list[str]:
    return [page.name for page in phone.foreground.stack]


def selected(phone: Phone) -> list[str]:
    rows = (n for n in phone.tree().panes[0].root.walk() if n.selected)
    return [text.text for row in rows for text in row.walk() if text.rid == "android:id/title"]


@pytest.fixture
def contacts() -> Phone:
    return wide("Contacts")


def names(phone: Phone) -> list[str]:
    return [f"{p['first']} {p['last']}" for p in phone.foreground.sort_rows()]


def test_the_list_stays_and_the_page_opens_beside_it(contacts):
    first, second, *_ = names(contacts)
    assert nodes(contacts, "Select a contact") and selected(contacts) == []
    tap(contacts, first)
    row, title = nodes(contacts, first)
    assert row.bounds[2] <= contacts.tree().panes[1].root.bounds[0] <= title.bounds[0]
    assert not nodes(contacts, "Select a contact") and selected(contacts) == [first]
    tap(contacts, second)
    assert stack(contacts) == ["main", "view"] and selected(contacts) == [second]
    tap(contacts, "Edit")
    tap(contacts, first)
    assert stack(contacts) == ["main", "view"] and selected(contacts) == [first]
    contacts.back()
    assert nodes(contacts, "Select a contact")
    contacts.back()
    assert contacts.foreground is contacts.launcher


@pytest.mark.parametrize("width", [EXPANDED - 1, EXPANDED])
def test_it_begins_at_the_expanded_width(width):
    phone = wide("Contacts", width)
    tap(phone, names(phone)[0])
    assert len(phone.tree().panes) == (2 if width == EXPANDED else 0)
    right = max(n.bounds[2] for n in phone.tree().root.walk())
    assert right == width


def test_what_is_touched_in_the_list_without_opening_anything_leaves_the_page():
    phone = wide("Tasks")
    first, second, *_ = [t["title"] for t in phone.foreground.filter_tasks()]
    tap(phone, first)
    phone.text(" soon")
    tap(phone, f"Done {second}")
    assert stack(phone) == ["main", "edit"] and phone.foreground.page.fields["title"] == f"{first} soon"
    assert phone.tree().keyboard
    tap(phone, "Filter")
    assert stack(phone) == ["main"] and phone.tree().dialog.title == "Show"
    tap(phone, "High")
    assert stack(phone) == ["main"] and nodes(phone, "High tasks")


def test_each_pane_scrolls_by_itself():
    phone = wide("Settings", WIDTH, 400)
    tap(phone, "Sound")
    main, section = phone.foreground.stack
    phone.swipe(180, 300, 180, 200)
    assert (main.scroll, section.scroll) == (100, 0)
    phone.swipe(1000, 300, 1000, 100)
    assert main.scroll == 100 and section.scroll == phone.tree().panes[1].scroll_max > 0
    tap(phone, "Display")
    assert phone.foreground.stack[0].scroll == 100 and nodes(phone, "Dark theme")


def test_a_field_in_the_list_takes_the_focus_back(contacts):
    first = names(contacts)[0]
    tap(contacts, "Search")
    contacts.text(first[:3])
    tap(contacts, first)
    assert stack(contacts) == ["main", "search", "view"] and not contacts.tree().keyboard
    tap(contacts, "Search contacts")
    assert stack(contacts) == ["main", "search"] and contacts.tree().keyboard
    contacts.text("zz")
    assert contacts.foreground.page.fields["query"] == f"{first[:3]}zz"


def test_a_draft_is_kept_when_another_conversation_is_opened():
    phone = wide("Messages")
    first, second, *_ = [r["address"] for r in phone.foreground.db["messages"][::-2]]
    tap(phone, first)
    tap(phone, "Text message")
    phone.text("not yet")
    tap(phone, second)
    assert phone.foreground.draft(first)["body"] == "not yet" and nodes(phone, "Draft: not yet")
    tap(phone, first)
    assert phone.foreground.page.fields["text"] == "not yet"


def test_tabs_stand_in_a_rail(contacts):
    phone = wide("Clock")
    rail = phone.tree().root.children[0]
    assert rail.bounds == (0, 0, rail.bounds[2], HEIGHT) and [n.text for n in rail.children][:2] == ["Alarm", "World"]
    tap(phone, "World")
    assert stack(phone) == ["world"] and nodes(phone, "Add city")[0].bounds[2] > WIDTH - 100


def test_a_snackbar_and_a_dialog_belong_to_the_page_they_come_from(contacts):
    tap(contacts, names(contacts)[0])
    tap(contacts, "Delete")
    card = contacts.tree().window.bounds
    assert card[0] == WIDTH - card[2], "a dialog stands in the middle of the screen"
    tap(contacts, "Delete", -1)
    assert nodes(contacts, "Contact deleted") and stack(contacts) == ["main"]
