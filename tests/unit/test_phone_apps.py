"""The apps: what they do beyond what every task's expert shows."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.envs.phone.app import App
from mobilerl.envs.phone.apps.calculator import KEYS, evaluate, press
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.apps.files import Files
from mobilerl.envs.phone.apps.messages import DRAFT, RECEIVED, SENT, Messages
from mobilerl.envs.phone.apps.settings import Settings
from mobilerl.envs.phone.apps.settings_tables import Switch, rows_of
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.ui import Node


class Finger:
    """Touches the widgets of one app of a phone by their texts."""

    def __init__(self, app: type[App], *, empty: bool = False) -> None:
        self.phone = Phone(APPS)
        self.app = self.phone.apps[app.package]
        if empty:
            self.app.clear()
        self.phone.launch(app.package)

    def nodes(self) -> list[Node]:
        self.phone.invalidate()
        return [n for n in self.phone.tree().window.walk() if n.text or n.desc or n.hint]

    def reads(self) -> list[str]:
        return [n.text or n.desc for n in self.nodes()]

    def tap(self, *names: str, long: bool = False) -> None:
        """One after the other; of several widgets that read the same the last; an edit field is found by its hint."""
        for name in names:
            left, top, right, bottom = [n for n in self.nodes() if name in (n.text, n.desc, n.hint)][-1].bounds
            touch = self.phone.long_press if long else self.phone.tap
            touch((left + right) / 2, (top + bottom) / 2)

    def rewrite(self, text: str) -> None:
        """What the device does for a Type action: the field is emptied first."""
        self.phone.clear_text()
        self.phone.text(text)


@pytest.mark.parametrize(("section", "row"), list(rows_of(Switch)), ids=lambda x: x.title)
def test_switch_writes_its_setting_and_nothing_else(section, row):
    finger = Finger(Settings)
    before = {space: dict(values) for space, values in finger.phone.settings.items()}
    old = before[row.space][row.key]
    finger.tap(section.title, row.title)
    before[row.space][row.key] = row.on if old == row.off else row.off
    assert finger.phone.settings == before
    finger.tap(row.title)
    assert finger.phone.settings[row.space][row.key] == old


def test_an_unsent_text_becomes_a_draft_until_it_is_sent():
    chat = Finger(Messages, empty=True)
    chat.app.insert("messages", address="Anna Kim", body="where are you", type=RECEIVED, read=0)
    chat.tap("Anna Kim", "Send", "Text message")  # nothing is sent from an empty field
    assert chat.app.db["messages"][0]["read"] == 1
    chat.rewrite("on my way")
    chat.tap("Navigate up")
    assert [r["type"] for r in chat.app.db["messages"]] == [RECEIVED, DRAFT]
    assert "Draft: on my way" in chat.reads()
    chat.tap("Anna Kim", "Send")
    assert [r["type"] for r in chat.app.db["messages"]] == [RECEIVED, SENT]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 × 4", "14"),  # × before +
        ("8 - 6 ÷ 4", "6.5"),  # 6 / 4 = 1.5
        ("0.1 + 0.2", "0.3"),  # decimal, not binary
        ("50 × 2", "100"),  # no exponent
        ("1 ÷ 3", "0.3333333333"),  # ten digits
    ],
)
def test_evaluate(expression, value):
    assert evaluate(expression) == value


@given(st.lists(st.sampled_from([k for row in KEYS for k in row if k != "="]), max_size=40))
def test_any_keys_make_a_wellformed_expression(keys):
    text = ""
    for key in keys:
        text = press(text, key)
    words = text.split(" ")
    assert all(w in "+-×÷" for w in words[1::2])
    assert all(word in ("", "-") or Decimal(word).is_finite() for word in words[0::2])


@pytest.fixture
def files() -> Finger:
    finger = Finger(Files)
    finger.phone.files = {
        "/sdcard/Documents/Plans.txt": b"feed the cat",
        "/sdcard/Documents/Work/Budget.txt": bytes(2000),
        "/sdcard/Pictures/Garden.jpg": bytes(45_678),
    }
    return finger


def test_renaming_a_folder_takes_its_files_along(files):
    files.tap("Documents")
    files.tap("Work", long=True)
    files.tap("Rename")
    files.rewrite("School")
    files.phone.enter()
    assert files.phone.files["/sdcard/Documents/School/Budget.txt"] == bytes(2000)
    assert not any("/Work" in path for path in files.phone.files)


def test_a_taken_or_hidden_name_is_refused(files):
    before = dict(files.phone.files)
    files.tap("Documents", "New folder")
    for name in ("Work", "Plans.txt", "a/b", ".x", " "):
        files.rewrite(name)
        files.tap("Create")
        assert files.phone.files == before
