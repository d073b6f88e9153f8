"""The expert of generated tasks: a breadth-first search over an app's screens, which gives shortest plans."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from mobilerl.envs.phone.app import Page, Row
from mobilerl.envs.phone.generated.app import GeneratedApp
from mobilerl.envs.phone.layout import assemble
from mobilerl.envs.phone.ui import Node, Screen, Tree

HEIGHT_DP = 720
SWIPE_DP = 360
"""Distance that a swipe from the middle of the screen to its top scrolls."""
MAX_STATES = 20_000
Database = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Move:
    kind: Literal["tap", "type", "back", "swipe"]
    text: str = ""
    """The text to type, or the text or description of the node to tap."""
    edit: bool = False
    """Whether an edit field is tapped; `text` is then its content or its hint."""
    nth: int = 0
    """Index among equal nodes on the screen."""
    change: int = 0
    """Index of the change that the move is made for."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The goal of a plan in one app."""

    stages: tuple[Database, ...]
    """The tables after each requested change, with new rows last. The ids of new rows do not matter."""
    rows: frozenset[int] = frozenset()
    """Ids of the rows that matter; no others need to be opened."""
    seen: Callable[[Tree], bool] = lambda tree: True
    """Whether the final screen shows the requested information."""


@dataclass(slots=True)
class _State:
    stack: list[Page]
    db: Database
    path: tuple[Move, ...] = ()
    key: str = field(init=False)

    def __post_init__(self) -> None:
        self.key = repr((self.stack, self.db))


def plan(app: GeneratedApp, aim: Aim) -> list[Move]:
    """A shortest list of moves from the app's main page to `aim`. Raises LookupError if there is none.

    The app's state is restored afterwards.
    """
    before = [_copy(page) for page in app.stack], copy_rows(app.db)
    app.start()
    try:
        return _search(app, aim, before[1])
    finally:
        app.stack, app.db = before


def _search(app: GeneratedApp, aim: Aim, first: Database) -> list[Move]:
    stages = [_Stage(*pair, aim.rows) for pair in pairwise((first, *(aim.stages or (first,))))]
    queue = deque([_State([_copy(page) for page in app.stack], copy_rows(app.db))])
    known = {queue[0].key}
    while queue and len(known) < MAX_STATES:
        state = queue.popleft()
        tree = _show(app, state)
        if _same(state.db, stages[-1].wanted) and aim.seen(tree):
            return list(state.path)
        number = next((i for i, s in enumerate(stages) if _same(state.db, s.first)), len(stages) - 1)
        stage = stages[number]
        shown = _Live(app)
        for move, act in _moves(app, tree, stage):
            act()
            after = _State(
                [_copy(page) for page in app.stack], copy_rows(app.db), (*state.path, replace(move, change=number))
            )
            shown.restore(app)
            if after.key not in known and stage.allows(after):
                known.add(after.key)
                queue.append(after)
    raise LookupError(f"{app.package}: no way leads to the goal ({len(known)} states)")


def _show(app: GeneratedApp, state: _State) -> Tree:
    """Sets the app's state and lays out its screen."""
    app.stack, app.db, app.snack = [_copy(page) for page in state.stack], copy_rows(state.db), ""
    screen = app.screen()
    keyboard = _fill(app.page, screen)
    return assemble(screen, app.package, HEIGHT_DP, app.page.scroll, keyboard)


class _Live:
    """The pages and rows that a screen's handlers are bound to. Restoring them makes one screen do for all moves."""

    def __init__(self, app: GeneratedApp) -> None:
        self._pages = [(page, _copy(page)) for page in app.stack]
        self._tables = {name: [(row, dict(row)) for row in rows] for name, rows in app.db.items()}

    def restore(self, app: GeneratedApp) -> None:
        for page, was in self._pages:
            page.args |= was.args
            page.dialog_args, page.fields = dict(was.dialog_args), dict(was.fields)
            page.focus, page.scroll, page.dialog = was.focus, was.scroll, was.dialog
        for pairs in self._tables.values():
            for row, values in pairs:
                row |= values
        app.stack = [page for page, _ in self._pages]
        app.db = {name: [row for row, _ in pairs] for name, pairs in self._tables.items()}


def _fill(page: Page, screen: Screen) -> bool:
    """Puts the page's texts into its fields. Returns whether one has the focus (`Phone._fill_fields`)."""
    tops = screen.dialog.body if screen.dialog else screen.body
    focused = False
    for node in (n for top in tops for n in top.walk() if n.field_key):
        node.text = page.fields.setdefault(node.field_key, "")
        focused |= page.focus == node.field_key
    return focused


def _moves(app: GeneratedApp, tree: Tree, stage: _Stage) -> Iterator[tuple[Move, Callable[[], object]]]:
    page = app.page
    if page.focus:
        for text in stage.texts(app, page):
            if page.fields.get(page.focus) != text:
                yield Move("type", text), partial(_type, app, text)
    counts: Counter[tuple[str, bool]] = Counter()
    hidden = _find_hidden(tree)
    for node in tree.window.walk():
        if id(node) in hidden:
            continue
        name, edit = node_name(node), bool(node.field_key)
        if node.clickable and stage.touch(node) and not (edit and page.focus == node.field_key):
            yield Move("tap", name, edit, counts[name, edit]), partial(_tap, app, node)
        if edit:
            counts[name, True] += 1
        for shown in {node.text, node.desc} - {""}:
            counts[shown, False] += 1
    if not page.dialog and page.scroll < tree.scroll_max:
        yield Move("swipe"), partial(_swipe, app, tree.scroll_max)
    if not page.dialog and not page.focus and len(app.stack) > 1:
        yield Move("back"), app.back


def node_name(node: Node) -> str:
    """The name of a node: its own text, description or hint, or else the first text in it outside of buttons."""
    if own := node.text or node.desc or node.hint:
        return own
    return next((n.text or n.desc for n in node.walk() if (n.text or n.desc) and (n is node or not n.clickable)), "")


def _find_hidden(tree: Tree) -> set[int]:
    """Ids of the nodes that are scrolled out of view."""
    if tree.dialog is not None:
        return set()
    _, top, _, bottom = tree.body
    body = next(node for node in tree.root.children if node.look == "body")
    return {id(n) for n in body.walk() if n is not body and not top <= (n.bounds[1] + n.bounds[3]) / 2 < bottom}


def _tap(app: GeneratedApp, node: Node) -> None:
    if node.field_key:
        app.page.focus = node.field_key
    elif node.on_tap is not None:
        node.on_tap()


def _type(app: GeneratedApp, text: str) -> None:
    app.page.fields[app.page.focus] = text


def _swipe(app: GeneratedApp, lowest: int) -> None:
    app.page.scroll = min(app.page.scroll + SWIPE_DP, lowest)


class _Stage:
    """One change. Only steps that can be part of a shortest path are allowed: nothing else is changed, typed or opened,
    and the values of a form are filled in from top to bottom."""

    def __init__(self, first: Database, wanted: Database, rows: frozenset[int]) -> None:
        self.first, self.wanted, self.rows = first, wanted, rows
        self.new = {name: [r for r in now if r not in first[name]][-1:] for name, now in wanted.items()}
        """The row to be added to each table, if any."""
        for name, now in wanted.items():
            if len(now) <= len(first[name]):
                self.new[name] = []

    def allows(self, state: _State) -> bool:
        tables = all(rows == self.first[n] or _plain(rows) == _plain(self.wanted[n]) for n, rows in state.db.items())
        return tables and all(self._page(page) for page in state.stack)

    def _page(self, page: Page) -> bool:
        if page.name != "edit":
            return True
        table, row_id = f"t{page.args.get('table', 0)}", page.args.get("id")
        goal = self._goal(table, row_id)
        if goal is None:
            return row_id is not None
        before = next((r for r in self.first[table] if r["_id"] == row_id), dict.fromkeys(goal, ""))
        values = {**page.args, **page.fields}
        changed = [
            str(values[k]) == str(goal[k])
            for k in goal
            if k in values and str(goal[k]) != (str(before[k]) or _empty(k, page))
        ]
        kept = all(
            str(values[k]) in (str(goal[k]), str(before[k]), _empty(k, page) if row_id is None else str(before[k]))
            for k in goal
            if k in values and k != "_id"
        )
        return kept and changed == sorted(changed, reverse=True)

    def _goal(self, table: str, row_id: int | None) -> Row | None:
        """The final values of the row in a form, or None."""
        if row_id is None:
            return next(iter(self.new[table]), None)
        return next((r for r in self.wanted[table] if r["_id"] == row_id), None)

    def touch(self, node: Node) -> bool:
        """Whether a tap on the node can be part of a shortest path."""
        handler = node.on_tap
        while isinstance(handler, partial) and getattr(handler.func, "__name__", "") == "_then":
            handler = handler.args[0]
        if isinstance(handler, partial):
            name = getattr(handler.func, "__name__", "")
            if name == "open_row":
                return handler.args[1] in self.rows
            if name == "go" and handler.args == ("info",):
                return False
        return True

    def texts(self, app: GeneratedApp, page: Page) -> Iterator[str]:
        """Texts that may be typed into the focused field."""
        table = app.table(page).name
        if page.name == "search":
            yield from (row["title"] for row in self.first[table] if row["_id"] in self.rows)
        elif (goal := self._goal(table, page.args.get("id"))) is not None:
            yield str(goal[page.dialog_args["column"] if page.name == "view" else page.focus])


def _empty(key: str, page: Page) -> str:
    """The initial value of a new row: a switch that is off, or ""."""
    return "0" if page.args.get(key) in (0, 1) else ""


def _copy(page: Page) -> Page:
    return Page(
        page.name, dict(page.args), dict(page.fields), page.focus, page.scroll, page.dialog, dict(page.dialog_args)
    )


def copy_rows(db: Mapping[str, list[Row]]) -> Database:
    return {name: [dict(row) for row in rows] for name, rows in db.items()}


def _values(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "_id"}


def _same(db: Database, other: Database) -> bool:
    return all(_plain(db[name]) == _plain(other[name]) for name in db)


def _plain(rows: list[Row]) -> list[dict[str, Any]]:
    return [_values(row) for row in rows]
