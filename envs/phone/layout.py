"""Laying a screen out: sizes and positions of all nodes, for any size of the screen and of the font."""

from __future__ import annotations

from math import ceil

from mobilerl.envs.phone.fonts import text_width, wrap_text
from mobilerl.envs.phone.ui import (
    APP_BAR,
    BODY_PAD,
    BOTTOM_BAR,
    COLUMN,
    DIALOG_WIDTH,
    IMAGE_BUTTON,
    LEFT_TO_RIGHT,
    LINE_PITCH,
    NAV_BAR,
    SCREEN_DP,
    SNACKBAR,
    STATUS_BAR,
    TEXT,
    TWO_COLUMNS,
    Bounds,
    Dialog,
    Node,
    Screen,
    Tree,
    keyboard_height,
)


def measure(node: Node, width: int) -> int:
    """Height of `node` when it is `width` wide."""
    if node.height is not None:
        return node.height
    inner = width - 2 * node.pad[0]
    if not node.children:
        return int(len(wrap_text(node.text, inner, node.size, node.bold)) * node.size * LINE_PITCH) + 2 * node.pad[1]
    if node.axis == "row":
        shares = _row_widths(node, inner)
        return max(measure(c, w) for c, w in zip(node.children, shares, strict=True)) + 2 * node.pad[1]
    gaps = node.gap * (len(node.children) - 1)
    return sum(measure(c, inner) for c in node.children) + gaps + 2 * node.pad[1]


def place(node: Node, x: int, y: int, width: int, height: int) -> None:
    """Gives `node` and its children their bounds. Row children are centered vertically."""
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
    fixed = [_own_width(c, inner) if c.fit else c.width for c in node.children]
    free = inner - node.gap * (len(node.children) - 1) - sum(width or 0 for width in fixed)
    flexible = fixed.count(None)
    return [width if width is not None else free // flexible for width in fixed]


def _own_width(node: Node, room: int) -> int:
    """Width of a node that fits its text, at most `node.width` and what there is room for."""
    text = max(text_width(line, node.size, node.bold) for line in node.text.split("\n"))
    return min(node.width or room, room, ceil(text) + 2 * node.pad[0] + 1)


def enlarge(node: Node, factor: float) -> None:
    """Multiplies the sizes of all texts; what holds a text grows with it but never shrinks."""
    for child in node.children:
        enlarge(child, factor)
    if node.text or node.hint:
        before, node.size = node.size, round(node.size * factor)
        if node.height is not None:
            node.height += max(0, round((node.size - before) * LINE_PITCH))
        if node.width is not None:
            node.width = round(node.width * max(1.0, factor))
    if node.children and node.height is not None and factor > 1:
        least, node.height = node.height, None
        node.height = max(least, measure(node, SCREEN_DP))


def assemble(
    screen: Screen,
    package: str,
    height: int,
    scroll: int,
    keyboard: bool,
    snack: str = "",
    width: int = SCREEN_DP,
    font_scale: float = 1.0,
    dialog_scroll: int = 0,
) -> Tree:
    """Lays a screen out on `width` by `height` dp. Scroll positions are clamped to what the content allows."""
    top, keys = STATUS_BAR, keyboard_height(height) if keyboard else 0
    root = Node(cls="android.widget.FrameLayout", look="window")
    root.bounds = (0, 0, width, height)
    if font_scale != 1:
        for node in (*screen.body, *screen.actions, *filter(None, (screen.bottom, screen.footer))):
            enlarge(node, font_scale)
    if screen.bar:
        bar = _app_bar(screen, package, font_scale)
        place(bar, 0, top, width, APP_BAR)
        root.children.append(bar)
        top += APP_BAR
    bottom = height - NAV_BAR - keys
    if screen.bottom is not None and not keyboard:
        bottom -= BOTTOM_BAR
        place(screen.bottom, 0, bottom, width, BOTTOM_BAR)
        root.children.append(screen.bottom)
    if screen.footer is not None:
        tall, wide = measure(screen.footer, width), min(width, COLUMN)
        bottom -= tall
        place(screen.footer, (width - wide) // 2, bottom, wide, tall)
        root.children.append(screen.footer)
    body, scroll_max = _body(screen, (0, top, width, bottom), scroll)
    root.children.insert(1 if screen.bar else 0, body)
    if screen.fab is not None and not keyboard:
        # A snackbar pushes the button up, as in Material: what the XML offers can be seen.
        place(screen.fab, width - 72, bottom - 72 - (SNACKBAR if snack else 0), 56, 56)
        root.children.append(screen.fab)
    if snack:
        size = round(14 * font_scale)
        bar = Node(cls=TEXT, text=snack, rid=f"{package}:id/snackbar_text", look="snack", size=size)
        wide = min(width, COLUMN) - 24
        place(bar, (width - wide) // 2, bottom - SNACKBAR, wide, 48)
        root.children.append(bar)
    tree = Tree(root, root, scroll_max, body.bounds, keyboard, screen.dialog)
    if screen.dialog is not None:
        tree.window, tree.dialog_scroll_max = dialog_window(
            screen.dialog, package, width, height, keys, font_scale, dialog_scroll
        )
    return tree


def mirror(tree: Tree) -> None:
    """Turns a screen over from left to right, as Android does for languages that are read from the right."""
    left, _, right, _ = tree.root.bounds
    both = left + right
    _turn_over(tree.root, both)
    if tree.window is not tree.root:
        _turn_over(tree.window, both)
    for part in (tree, *tree.panes):
        left, top, right, bottom = part.body
        part.body = (both - right, top, both - left, bottom)


def _turn_over(node: Node, both: int) -> None:
    """`both` is the sum of the left and the right edge of what is turned over."""
    left, top, right, bottom = node.bounds
    for child in node.children:
        if node.look == LEFT_TO_RIGHT:  # turned over twice
            _turn_over(child, left + right)
        _turn_over(child, both)
    node.bounds = (both - right, top, both - left, bottom)


def _body(screen: Screen, bounds: Bounds, scroll: int) -> tuple[Node, int]:
    """The scrolling part of a screen within `bounds`, and how far it scrolls."""
    _, top, width, bottom = bounds
    nodes, column = screen.body, width
    if screen.bar and width > COLUMN:
        beside = screen.lead > 0 and width > bottom - top
        column = min(width, TWO_COLUMNS if beside else COLUMN)
        if beside:
            nodes = [
                Node(axis="row", children=[Node(children=nodes[: screen.lead]), Node(children=nodes[screen.lead :])])
            ]
    body = Node(cls="android.widget.ScrollView", look="body", children=nodes)
    pad = BODY_PAD if screen.bar else 0
    content = pad + sum(measure(n, column) for n in nodes) + (72 if screen.fab else 0)
    scroll_max = max(0, content - (bottom - top))
    _pile(nodes, (width - column) // 2, top + pad - min(max(0, scroll), scroll_max), column)
    body.bounds, body.scrollable = bounds, scroll_max > 0
    return body, scroll_max


def _pile(nodes: list[Node], x: int, y: int, width: int) -> None:
    """Places nodes below one another."""
    for node in nodes:
        h = measure(node, width)
        place(node, x, y, width, h)
        y += h


def _app_bar(screen: Screen, package: str, font_scale: float) -> Node:
    children = []
    if screen.on_up is not None:
        children.append(
            Node(
                cls=IMAGE_BUTTON,
                desc=screen.up_name,
                look="icon",
                icon="back",
                width=40,
                height=40,
                on_tap=screen.on_up,
            )
        )
    title = Node(cls=TEXT, text=screen.title, rid=f"{package}:id/title", look="title", size=19, height=28, pad=(8, 0))
    enlarge(title, font_scale)
    children.append(title)
    children.extend(screen.actions)
    return Node(look="appbar", color=screen.color, axis="row", pad=(8, 0), height=APP_BAR, children=children)


def dialog_window(
    dialog: Dialog, package: str, width: int, height: int, keys: int, font_scale: float, scroll: int
) -> tuple[Node, int]:
    """The dialog's card, and how far its body scrolls. `keys` is the height of the keyboard below it."""
    wide = min(width - 48, DIALOG_WIDTH)
    for node in (*dialog.body, *dialog.buttons):
        enlarge(node, font_scale)
    card = Node(cls="android.widget.FrameLayout", look="dialog", pad=(8, 10))
    if dialog.title:
        rid = f"{package}:id/alertTitle"
        title = Node(cls=TEXT, text=dialog.title, rid=rid, look="text", size=18, bold=True, pad=(16, 10))
        enlarge(title, font_scale)
        card.children.append(title)
    first = len(card.children)
    card.children += dialog.body
    if dialog.buttons:
        row = Node(axis="row", pad=(4, 6), gap=4, height=52, children=_right_aligned(dialog.buttons, wide))
        card.children.append(row)
    room = height - STATUS_BAR - (keys or NAV_BAR)
    free = room - (NAV_BAR if keys else 0)
    too_much = max(0, measure(card, wide) - free)
    inner = wide - 2 * card.pad[0]
    if too_much:
        body = Node(cls="android.widget.ScrollView", look="viewport", scrollable=True, children=dialog.body)
        body.height = max(0, measure(body, inner) - too_much)
        card.children[first : first + len(dialog.body)] = [body]
    tall = measure(card, wide)
    place(card, (width - wide) // 2, STATUS_BAR + min((room - tall) // 2, free - tall), wide, tall)
    if too_much:
        left, top, _, _ = body.bounds
        _pile(dialog.body, left, top - min(max(0, scroll), too_much), inner)
    return card, too_much


def _right_aligned(buttons: list[Node], wide: int) -> list[Node]:
    """Buttons as wide as their texts at the right end of their row; equal shares when that is too wide."""
    widths = [max(32 + 8 * len(b.text), ceil(text_width(b.text, b.size, b.bold)) + 24) for b in buttons]
    if sum(widths) + 4 * len(buttons) > wide - 24:
        return buttons
    for button, width in zip(buttons, widths, strict=True):
        button.width = width
    return [Node(height=1), *buttons]
