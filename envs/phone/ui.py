"""The layout tree: one description of a screen that draws the PNG, makes the XML and receives the touches.

Sizes are in dp: the screen is 360 dp wide at any resolution, until it is rotated or `wm` changes it. Apps build a
`Screen` from the widgets in `envs.phone.widgets`; `assemble` turns it into a `Tree` with bounds. Handlers are closures
over the app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from envs.phone.fonts import wrapped

SCREEN_DP = 360
STATUS_BAR = 24
NAV_BAR = 20
APP_BAR = 56
BOTTOM_BAR = 60
KEYBOARD = 220
BODY_PAD = 8
"""Free space between the title bar and the body's first row."""
SNACKBAR = 56
LINE_PITCH = 1.35
"""Distance between the lines of a text, in font sizes."""
DIALOG_WIDTH = 480
"""The widest a dialog gets, on a screen that is turned."""

TEXT = "android.widget.TextView"
IMAGE = "android.widget.ImageView"
IMAGE_BUTTON = "android.widget.ImageButton"
Handler = Callable[[], None]
Bounds = tuple[int, int, int, int]


@dataclass(slots=True, eq=False)
class Node:
    """A view. `look` says how it is drawn (see `render.py`), everything else is what uiautomator would report."""

    cls: str = "android.view.ViewGroup"
    text: str = ""
    desc: str = ""
    rid: str = ""
    look: str = ""
    color: str = ""
    icon: str = ""
    size: int = 15
    bold: bool = False
    align: str = "left"
    width: int | None = None
    """Width in a row; None shares what is left."""
    height: int | None = None
    """None: the sum (column) or the largest (row) of the children, or the height of the wrapped text."""
    axis: str = "col"
    pad: tuple[int, int] = (0, 0)
    """Horizontal and vertical padding."""
    gap: int = 0
    children: list[Node] = field(default_factory=list)
    on_tap: Handler | None = None
    on_long: Handler | None = None
    field_key: str = ""
    """For an edit field: the key of the page's `fields` that holds its text."""
    hint: str = ""
    checkable: bool = False
    checked: bool = False
    selected: bool = False
    focused: bool = False
    password: bool = False
    enabled: bool = True
    scrollable: bool = False
    bounds: Bounds = (0, 0, 0, 0)

    @property
    def clickable(self) -> bool:
        return self.on_tap is not None or bool(self.field_key)

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(slots=True)
class Dialog:
    """A window over the screen: while it is up, nothing below it can be touched or is in the dump."""

    title: str
    body: list[Node] = field(default_factory=list)
    buttons: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Screen:
    """An app's screen: a title bar, a scrolling body, and optionally a bottom bar, a floating button and a dialog."""

    title: str
    body: list[Node]
    actions: list[Node] = field(default_factory=list)
    on_up: Handler | None = None
    fab: Node | None = None
    bottom: Node | None = None
    dialog: Dialog | None = None
    color: str = ""
    bar: bool = True
    """False: no title bar (launcher, calculator)."""


@dataclass(slots=True)
class Tree:
    """A laid-out screen. `root` is the app's window; `window` is the one that has the focus (a dialog, or root)."""

    root: Node
    window: Node
    scroll_max: int
    """How far the body can scroll, in dp."""
    body: Bounds
    keyboard: bool
    dialog: Dialog | None


def measure(node: Node, width: int) -> int:
    """Height of `node` when it is `width` wide."""
    if node.height is not None:
        return node.height
    inner = width - 2 * node.pad[0]
    if not node.children:
        return int(len(wrapped(node.text, inner, node.size, node.bold)) * node.size * LINE_PITCH) + 2 * node.pad[1]
    if node.axis == "row":
        shares = _row_widths(node, inner)
        return max(measure(c, w) for c, w in zip(node.children, shares, strict=True)) + 2 * node.pad[1]
    gaps = node.gap * (len(node.children) - 1)
    return sum(measure(c, inner) for c in node.children) + gaps + 2 * node.pad[1]


def place(node: Node, x: int, y: int, width: int, height: int) -> None:
    """Gives `node` and its children their bounds. Row children are centred vertically."""
    node.bounds = (x, y, x + width, y + height)
    if not node.children:
        return
    px, py = node.pad
    inner = width - 2 * px
    if node.axis == "row":
        left = x + px
        for child, w in zip(node.children, _row_widths(node, inner), strict=True):
            h = min(measure(child, w), height)
            place(child, left, y + (height - h) // 2, w, h)
            left += w + node.gap
        return
    top = y + py
    for child in node.children:
        h = measure(child, inner)
        place(child, x + px, top, inner, h)
        top += h + node.gap


def _row_widths(node: Node, inner: int) -> list[int]:
    free = inner - node.gap * (len(node.children) - 1) - sum(c.width or 0 for c in node.children)
    flexible = sum(c.width is None for c in node.children)
    return [c.width if c.width is not None else free // flexible for c in node.children]


def assemble(
    screen: Screen, package: str, height: int, scroll: int, keyboard: bool, snack: str = "", width: int = SCREEN_DP
) -> Tree:
    """Lays a screen out on `width` by `height` dp. `scroll` is clamped to what the content allows."""
    top = STATUS_BAR
    root = Node(cls="android.widget.FrameLayout", look="window")
    root.bounds = (0, 0, width, height)
    if screen.bar:
        bar = _app_bar(screen, package)
        place(bar, 0, top, width, APP_BAR)
        root.children.append(bar)
        top += APP_BAR
    bottom = height - NAV_BAR - (KEYBOARD if keyboard else 0)
    if screen.bottom is not None and not keyboard:
        bottom -= BOTTOM_BAR
        place(screen.bottom, 0, bottom, width, BOTTOM_BAR)
        root.children.append(screen.bottom)
    body = Node(cls="android.widget.ScrollView", look="body", children=screen.body)
    pad = BODY_PAD if screen.bar else 0
    content = pad + sum(measure(n, width) for n in screen.body) + (72 if screen.fab else 0)
    scroll_max = max(0, content - (bottom - top))
    scroll = min(max(0, scroll), scroll_max)
    y = top + pad - scroll
    for node in screen.body:
        h = measure(node, width)
        place(node, 0, y, width, h)
        y += h
    body.bounds = (0, top, width, bottom)
    body.scrollable = scroll_max > 0
    root.children.insert(1 if screen.bar else 0, body)
    if screen.fab is not None and not keyboard:
        # A snackbar pushes the button up, as in Material: what the XML offers can be seen.
        place(screen.fab, width - 72, bottom - 72 - (SNACKBAR if snack else 0), 56, 56)
        root.children.append(screen.fab)
    if snack:
        bar = Node(cls=TEXT, text=snack, rid=f"{package}:id/snackbar_text", look="snack", size=14)
        place(bar, 12, bottom - SNACKBAR, width - 24, 48)
        root.children.append(bar)
    window = root if screen.dialog is None else _dialog_window(screen.dialog, package, width, height, keyboard)
    return Tree(root, window, scroll_max, body.bounds, keyboard, screen.dialog)


def _app_bar(screen: Screen, package: str) -> Node:
    children = []
    if screen.on_up is not None:
        children.append(
            Node(
                cls=IMAGE_BUTTON, desc="Navigate up", look="icon", icon="back", width=40, height=40, on_tap=screen.on_up
            )
        )
    children.append(
        Node(cls=TEXT, text=screen.title, rid=f"{package}:id/title", look="title", size=19, height=28, pad=(8, 0))
    )
    children.extend(screen.actions)
    return Node(look="appbar", color=screen.color, axis="row", pad=(8, 0), height=APP_BAR, children=children)


def _dialog_window(dialog: Dialog, package: str, width: int, height: int, keyboard: bool) -> Node:
    wide = min(width - 48, DIALOG_WIDTH)
    children = []
    if dialog.title:
        children.append(
            Node(
                cls=TEXT,
                text=dialog.title,
                rid=f"{package}:id/alertTitle",
                look="text",
                size=18,
                bold=True,
                pad=(16, 10),
            )
        )
    children.extend(dialog.body)
    if dialog.buttons:
        row = Node(axis="row", pad=(4, 6), gap=4, height=52, children=_right_aligned(dialog.buttons, wide))
        children.append(row)
    card = Node(cls="android.widget.FrameLayout", look="dialog", pad=(8, 10), children=children)
    room = height - STATUS_BAR - (KEYBOARD if keyboard else NAV_BAR)
    tall = min(measure(card, wide), room)
    place(card, (width - wide) // 2, STATUS_BAR + (room - tall) // 2, wide, tall)
    return card


def _right_aligned(buttons: list[Node], wide: int) -> list[Node]:
    """Buttons as wide as their texts at the right end of their row; equal shares when that is too wide."""
    widths = [32 + 8 * len(b.text) for b in buttons]
    if sum(widths) + 4 * len(buttons) > wide - 24:
        return buttons
    for button, width in zip(buttons, widths, strict=True):
        button.width = width
    return [Node(height=1), *buttons]


def node_at(tree: Tree, x: float, y: float, long: bool = False) -> Node | None:
    """The topmost node of the focused window that takes a touch at (x, y) dp, or None."""
    return _hit(tree.window, x, y, long)


def _hit(node: Node, x: float, y: float, long: bool) -> Node | None:
    left, top, right, bottom = node.bounds
    # A child never reaches outside its parent: the body's bounds are the viewport, so scrolled-away rows are out.
    if not (left <= x < right and top <= y < bottom) or not node.enabled:
        return None
    for child in reversed(node.children):
        if (hit := _hit(child, x, y, long)) is not None:
            return hit
    takes = node.on_long is not None if long else node.clickable
    return node if takes else None
