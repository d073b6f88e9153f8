"""The layout tree: touches, scrolling, keyboard, dialogs, pop-ups, and the XML made of it."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from mobilerl.envs.phone import xml_dump
from mobilerl.envs.phone.app import App, Page
from mobilerl.envs.phone.keyboard import KEYS, keyboard_top
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.popups import LAST_INPUT
from mobilerl.envs.phone.ui import Dialog, Node, Screen, Tree
from mobilerl.envs.phone.widgets import field, item, label, text_button


class Home(App):
    package, label, authority, icon, color = "home", "Home", "home", "home", "#333333"

    def page_main(self, page: Page) -> Screen:
        return Screen("Home", [label("welcome")], bar=False)


class Demo(App):
    package, label, authority, icon, color = "com.demo", "Demo", "demo", "note", "#F2B600"
    tables = {"rows": {"name": "", "n": 0}}

    def page_main(self, page: Page) -> Screen:
        rows = [item(f"row {i}", on_tap=lambda i=i: self.go("form", focus="name", id=i)) for i in range(20)]
        return Screen("Demo", rows)

    def page_form(self, page: Page) -> Screen:
        ask = item("ask", on_tap=lambda: self.open_dialog("sure"))
        return Screen("Form", [field("name", "Name"), field("other", "Other"), ask], on_up=self.up)

    def dialog_sure(self, page: Page) -> Dialog:
        yes = text_button("Yes", lambda: (self.close_dialog(), self.toast("done")))
        return Dialog("Sure?", [label("Really?")], [text_button("No", self.close_dialog), yes])

    def submit(self, page: Page, key: str) -> None:
        self.insert("rows", name=page.fields[key])


def opened(width: int = 360, height: int = 720) -> Phone:
    phone = Phone((Home, Demo), width, height)
    phone.launch("com.demo")
    return phone


def dump(phone: Phone) -> ElementTree.Element:
    text = xml_dump.dump(phone.tree(), phone.window_package, phone.scale, phone.width, phone.height)
    return ElementTree.fromstring(text)


def texts(phone: Phone) -> list[str]:
    said = [n.get("text") or n.get("content-desc") for n in dump(phone).iter("node")]
    return [s for s in said if s]


def tap(phone: Phone, name: str) -> None:
    node = next(n for n in phone.tree().window.walk() if name in (n.text, n.desc, n.hint))
    left, top, right, bottom = node.bounds
    phone.tap((left + right) / 2, (top + bottom) / 2)


def test_focus_moves_between_fields_and_keys_type():
    phone = opened()
    tap(phone, "row 0")
    tap(phone, "Other")
    top = keyboard_top(phone.height / phone.scale)
    for name in ("h", "i", "i", "delete"):
        x1, y1, x2, y2 = next(k.box for k in KEYS if k.name == name)
        phone.tap((x1 + x2) / 2, top + (y1 + y2) / 2)
    assert phone.foreground.page.fields == {"name": "", "other": "hi"}
    tap(phone, "Name")
    phone.text("Ann\n")
    phone.enter()
    assert phone.foreground.db["rows"] == [{"_id": 1, "name": "Ann ", "n": 0}], "a field holds one line"


def test_scrolling_moves_rows_and_stops_at_the_end():
    phone = opened()
    assert "row 19" not in texts(phone)
    # 20 rows of 56 dp below 8 dp in a body of 720 - 24 - 56 - 20 = 620 dp: 1128 - 620 = 508 dp to scroll.
    assert phone.tree().scroll_max == 508
    for _ in range(4):
        phone.swipe(180, 500, 180, 200)
    assert phone.foreground.page.scroll == 508
    assert texts(phone)[-1] == "row 19" and "row 0" not in texts(phone)
    tap(phone, "row 19")
    assert phone.foreground.page.args == {"id": 19}


def test_a_dialog_owns_the_screen():
    phone = opened()
    tap(phone, "row 0")
    phone.back()
    tap(phone, "ask")
    assert texts(phone) == ["Sure?", "Really?", "No", "Yes"]
    phone.tap(180, 100)  # outside the dialog: closes it, and touches nothing below
    assert phone.tree().dialog is None and phone.foreground.page.focus == ""
    tap(phone, "ask")
    tap(phone, "Yes")
    assert "done" in texts(phone)
    phone.wait()
    assert "done" not in texts(phone), "the snackbar stays until the next input"


def test_a_popup_interrupts_an_app_but_not_the_home_screen():
    phone = Phone((Home, Demo))
    phone.reset(1, popup_rate=1.0)
    for _ in range(LAST_INPUT + 1):
        phone.wait()
    assert phone.popup is None
    phone.launch("com.demo")
    assert phone.popup is not None
    assert dump(phone)[0].get("package") == phone.popup.package
    while phone.popup is not None:  # this seed plans two, and both are due
        tap(phone, phone.popup.decline)
    assert phone.foreground.page.name == "main" and texts(phone)[0] == "Demo"


def test_xml_bounds_are_pixels_inside_the_viewport():
    phone = opened(1080, 2400)
    phone.swipe(540, 1500, 540, 1400)
    for node in dump(phone).iter("node"):
        x1, y1, x2, y2 = (int(v) for v in node.get("bounds").replace("][", ",").strip("[]").split(","))
        assert 0 <= x1 < x2 <= 1080 and 0 <= y1 < y2 <= 2400


@given(st.text(max_size=30))
def test_any_text_gives_readable_xml(text):
    node = Node(cls="android.widget.TextView", text=text, desc=text, bounds=(0, 0, 10, 10))
    xml = xml_dump.dump(Tree(node, node, 0, node.bounds, False, None), "p", 1.0, 360, 720)
    read = ElementTree.fromstring(xml)[0].get("text")
    assert len(read) == len(text)
    assert all(a == b or (b == "." and not a.isprintable()) for a, b in zip(text, read, strict=True))
