"""The layout tree: one description of a screen that draws the PNG, makes the XML and receives the touches.

Sizes are in dp: the screen is 360 dp wide at any resolution, until it is rotated or `wm` changes it. Apps build a
`Screen` from the widgets in `widgets`; `layout` turns it into a `Tree` with bounds. Handlers are
closures over the app.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SCREEN_DP = 360
STATUS_BAR = 24
NAV_BAR = 20
APP_BAR = 56
BOTTOM_BAR = 60
KEYBOARD = 220
LOW_KEYBOARD = 140
"""Height of the keyboard on a screen that is lower than `LOW_SCREEN`, such as a phone's that is turned."""
LOW_SCREEN = 480
BODY_PAD = 8
"""Free space between the title bar and the body's first row."""
SNACKBAR = 56
LINE_PITCH = 1.35
"""Distance between the lines of a text, in font sizes."""
DIALOG_WIDTH = 480
"""The widest a dialog gets, on a screen that is turned."""
COLUMN, TWO_COLUMNS = 600, 840
"""The widest that a list gets, and a screen with its lead beside the rest: wider screens show them in the middle."""
EXPANDED = 840
"""From this width on a list stands beside the page opened from it (Material's expanded window)."""
RAIL = 80
"""Width of the tabs on such a screen."""

TEXT = "android.widget.TextView"
IMAGE = "android.widget.ImageView"
IMAGE_BUTTON = "android.widget.ImageButton"
LEFT_TO_RIGHT = "ltr"
"""Look of a row that keeps its order on a mirrored screen, as number pads and the keys of players do."""
Handler = Callable[[], object]
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
    fit: bool = False
    """`width` is the most; a shorter text takes less."""
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
    up_name: str = "Navigate up"
    """Description of the arrow that `on_up` puts into the title bar."""
    fab: Node | None = None
    bottom: Node | None = None
    footer: Node | None = None
    """Stays below the body and above the keyboard (where a message is written)."""
    dialog: Dialog | None = None
    color: str = ""
    bar: bool = True
    """False: no title bar (launcher)."""
    lead: int = 0
    """On a wide screen, this many of the first nodes of the body stand on the left of the others (a map, a cover)."""
    side: Screen | None = None
    """The list that stands on the left of the page, on a screen of `EXPANDED` dp or more."""
    hint: Node | None = None
    """Makes the screen a list on the left of such a screen; this is what stands on the right."""


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
    dialog_scroll_max: int = 0
    """How far the dialog's body can scroll: 0 unless the dialog is taller than the screen."""
    panes: tuple[Tree, ...] = ()
    """The parts of a wide screen that scroll by themselves, from the left; `body` is the last one's."""


def keyboard_height(height: float) -> int:
    """Height of the keyboard on a screen that is `height` dp high."""
    return KEYBOARD if height >= LOW_SCREEN else LOW_KEYBOARD


def node_at(tree: Tree, x: float, y: float, long: bool = False) -> Node | None:
    """The topmost node of the focused window that takes a touch at (x, y) dp, or None."""
    return _find_hit(tree.window, x, y, long)


def _find_hit(node: Node, x: float, y: float, long: bool) -> Node | None:
    left, top, right, bottom = node.bounds
    # A child never reaches outside its parent: the body's bounds are the viewport, so scrolled-away rows are out.
    if not (left <= x < right and top <= y < bottom) or not node.enabled:
        return None
    for child in reversed(node.children):
        if (hit := _find_hit(child, x, y, long)) is not None:
            return hit
    takes = node.on_long is not None if long else node.clickable
    return node if takes else None
