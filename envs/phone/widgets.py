"""The widgets apps are made of. Each returns a `Node`; none holds state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mobilerl.envs.phone.ui import IMAGE, IMAGE_BUTTON, LEFT_TO_RIGHT, TEXT, Handler, Node

BUTTON = "android.widget.Button"
LOOKS = {"Switch": "switch", "CheckBox": "checkbox", "RadioButton": "radio"}


def label(text: str, size: int = 15, color: str = "", bold: bool = False, align: str = "left", rid: str = "") -> Node:
    """Plain text, wrapped to the width it gets."""
    return Node(cls=TEXT, text=text, look="text", size=size, color=color, bold=bold, align=align, rid=rid, pad=(16, 4))


def hint(text: str, icon: str) -> Node:
    """What stands beside a list while nothing is open."""
    return Node(cls=TEXT, text=text, look="hint", icon=icon)


def section(text: str) -> Node:
    """A small colored heading between rows."""
    return Node(cls=TEXT, text=text, look="section", size=13, bold=True, height=34, pad=(16, 8))


def spacer(height: int) -> Node:
    return Node(look="", height=height)


def button(text: str, on_tap: Handler, filled: bool = True, enabled: bool = True) -> Node:
    return Node(
        cls=BUTTON,
        text=text,
        look="button" if filled else "text_button",
        size=14,
        bold=True,
        align="center",
        height=44,
        on_tap=on_tap,
        enabled=enabled,
    )


def text_button(text: str, on_tap: Handler) -> Node:
    """A flat button, as in dialogs."""
    return button(text, on_tap, filled=False)


def icon_button(icon: str, desc: str, on_tap: Handler) -> Node:
    """`icon` names a glyph of `icons.py`; `desc` is what a screen reader (and the agent) reads."""
    return Node(cls=IMAGE_BUTTON, desc=desc, look="icon", icon=icon, width=40, height=40, on_tap=on_tap)


def wide_button(text: str, on_tap: Handler, enabled: bool = True) -> Node:
    """A filled button across the screen, with space around it."""
    return Node(pad=(16, 8), children=[button(text, on_tap, enabled=enabled)])


def flip(row: dict[str, Any], column: str) -> Handler:
    """Handler: turns a 0/1 column of a row over."""
    return lambda: row.update({column: 1 - row[column]})


def heart_button(row: dict[str, Any], t: Callable[[str], str]) -> Node:
    """Makes a row with the column `favourite` one, or no longer. `t` translates."""
    liked = row["favourite"]
    icon, name = ("heart_filled", "Unfavourite") if liked else ("heart", "Favourite")
    return icon_button(icon, t(name), flip(row, "favourite"))


def step_buttons(lower: str, raise_: str, change: Callable[[int], Any]) -> list[Node]:
    """Minus and plus; `change` gets -1 or 1."""
    return [icon_button("minus", lower, lambda: change(-1)), icon_button("plus", raise_, lambda: change(1))]


def fab(icon: str, desc: str, on_tap: Handler) -> Node:
    return Node(cls=IMAGE_BUTTON, desc=desc, look="fab", icon=icon, on_tap=on_tap)


def item(
    title: str,
    subtitle: str = "",
    on_tap: Handler | None = None,
    on_long: Handler | None = None,
    icon: str = "",
    avatar: str = "",
    trailing: Sequence[Node] = (),
    selected: bool = False,
) -> Node:
    """A list row: optional leading icon or round avatar (its first letter), title, subtitle, trailing widgets."""
    lines = [Node(cls=TEXT, text=title, rid="android:id/title", look="text", size=16, height=22)]
    if subtitle:
        lines.append(Node(cls=TEXT, text=subtitle, rid="android:id/summary", look="subtext", size=13, height=18))
    row: list[Node] = []
    if icon:
        row.append(Node(cls=IMAGE, look="row_icon", icon=icon, width=40, height=40))
    if avatar:
        row.append(Node(cls=IMAGE, look="avatar", icon=avatar[:1].upper(), width=40, height=40))
    row.append(Node(children=lines))
    row.extend(trailing)
    return Node(
        axis="row",
        look="row",
        pad=(16, 8),
        gap=12,
        height=64 if subtitle else 56,
        children=row,
        on_tap=on_tap,
        on_long=on_long,
        selected=selected,
    )


def mark(
    kind: str, checked: bool, size: tuple[int, int] = (28, 28), desc: str = "", on_tap: Handler | None = None
) -> Node:
    """A bare Switch, CheckBox or RadioButton."""
    node = Node(
        cls=f"android.widget.{kind}", desc=desc, look=LOOKS[kind], checkable=True, checked=checked, on_tap=on_tap
    )
    node.width, node.height = size
    return node


def _add_toggle(row: Node, place: int, state: Node) -> Node:
    """Puts a mark into a row that toggles it wherever it is tapped."""
    row.children.insert(place, state)
    row.checkable, row.checked = True, state.checked
    return row


def switch_item(title: str, checked: bool, on_toggle: Handler, icon: str = "") -> Node:
    """A row whose whole width toggles the switch at its end."""
    row = item(title, on_tap=on_toggle, icon=icon)
    return _add_toggle(row, len(row.children), mark("Switch", checked, (48, 28)))


def check_item(title: str, checked: bool, on_toggle: Handler, subtitle: str = "") -> Node:
    """A row with a checkbox in front."""
    return _add_toggle(item(title, subtitle, on_tap=on_toggle), 0, mark("CheckBox", checked))


def radio_item(title: str, checked: bool, on_select: Handler) -> Node:
    return _add_toggle(item(title, on_tap=on_select), 0, mark("RadioButton", checked))


def field(key: str, hint: str, lines: int = 1, password: bool = False) -> Node:
    """An edit field. Its text lives in `page.fields[key]`; the phone fills in text and focus when it lays out."""
    return Node(
        cls="android.widget.EditText",
        field_key=key,
        hint=hint,
        look="field",
        size=16,
        pad=(16, 6),
        height=20 + 36 * lines,
        password=password,
    )


def tile(text: str, icon: str, color: str, on_tap: Handler, height: int = 92) -> Node:
    """A square with an icon and a caption: the launcher's grid, album covers, product cards."""
    return Node(
        cls=TEXT, text=text, look="tile", icon=icon, color=color, size=12, align="center", height=height, on_tap=on_tap
    )


def grid(tiles: Sequence[Node], columns: int) -> list[Node]:
    """Rows of equal tiles; the last row is filled up with blanks."""
    rows = []
    for i in range(0, len(tiles), columns):
        row = list(tiles[i : i + columns])
        row += [Node(height=1) for _ in range(columns - len(row))]
        rows.append(Node(axis="row", pad=(12, 4), gap=8, children=row))
    return rows


def tabs(names: Sequence[str], selected: int, on_select: Sequence[Handler], icons: Sequence[str] = ()) -> Node:
    """A bottom navigation bar; `selected` is the place of the current page's name."""
    children = [
        Node(
            cls="android.widget.FrameLayout",
            text=name,
            look="tab",
            icon=icons[i] if icons else "",
            size=12,
            align="center",
            height=56,
            on_tap=on_select[i],
            selected=i == selected,
        )
        for i, name in enumerate(names)
    ]
    return Node(axis="row", look="bottom_bar", height=60, children=children)


def key_row(keys: Sequence[Node], height: int = 64) -> Node:
    """A row of equal keys, as on a calculator."""
    for key in keys:
        key.height = height - 8
    return Node(axis="row", look=LEFT_TO_RIGHT, pad=(8, 4), gap=8, height=height, children=list(keys))
