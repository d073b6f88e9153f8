"""What every app of the phone is: tables of rows, a stack of pages, and a method per page that describes its screen."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from envs.phone.ui import Dialog, Node, Screen

if TYPE_CHECKING:
    from envs.phone.phone import Phone

Row = dict[str, Any]


@dataclass(slots=True)
class Page:
    """One entry of an app's back stack. Everything in it is plain data, so that a phone can be saved and restored."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    """Text of the page's edit fields by key."""
    focus: str = ""
    """Key of the field that has the focus; "" when the keyboard is down."""
    scroll: int = 0
    dialog: str = ""
    """Name of the dialog that is up; drawn by the app's `dialog_<name>`."""
    dialog_args: dict[str, Any] = field(default_factory=dict)


class App:
    """Base class. A subclass sets the class variables, fills `db` in `populate` and has a `page_<name>(page)` method
    for every page, each returning a `Screen`, and a `dialog_<name>(page)` for every dialog, returning a `Dialog`.

    State that tasks set up or read lives in `db` (table -> rows with an integer `_id`), which is served as
    `content://<authority>/<table>`. Values are str, int or float. `prefs` holds single values and is served as the
    one-row table `prefs`.
    """

    package: ClassVar[str]
    label: ClassVar[str]
    authority: ClassVar[str]
    icon: ClassVar[str]
    color: ClassVar[str]
    tables: ClassVar[dict[str, Row]] = {}
    """Columns of every table with their default values: an inserted row is completed from them."""
    default_prefs: ClassVar[Row] = {}

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.stack: list[Page] = []
        self.snack = ""
        self.db: dict[str, list[Row]] = {}
        self.prefs: Row = {}
        self.clear()

    # --- state -----------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """As after `pm clear`: empty tables, default preferences, not running."""
        self.stack, self.snack = [], ""
        self.db = {name: [] for name in self.tables}
        self.prefs = dict(self.default_prefs)

    def populate(self, rng: random.Random) -> None:
        """Fills the tables with what a used phone holds. Deterministic in `rng`."""

    def insert(self, table: str, **values: Any) -> Row:
        """Adds a row (missing columns take their defaults) and returns it."""
        rows = self.db[table]
        row = {"_id": max((r["_id"] for r in rows), default=0) + 1, **self.tables[table], **values}
        rows.append(row)
        return row

    def get(self, table: str, row_id: int) -> Row | None:
        return next((r for r in self.db[table] if r["_id"] == row_id), None)

    def remove(self, table: str, row_id: int) -> None:
        self.db[table] = [r for r in self.db[table] if r["_id"] != row_id]

    # --- navigation ------------------------------------------------------------------------------------------

    @property
    def page(self) -> Page:
        return self.stack[-1]

    def start(self) -> None:
        """Brings the app up: at its main page when it was not running."""
        if not self.stack:
            self.stack = [Page("main")]

    def go(self, name: str, focus: str = "", fields: dict[str, str] | None = None, **args: Any) -> None:
        """Pushes a page. `fields` are the first texts of its edit fields, `focus` the one that gets the keyboard."""
        self.stack.append(Page(name, args, dict(fields or {}), focus))

    def replace(self, name: str, **args: Any) -> None:
        """Puts a page in the place of the current one."""
        self.stack[-1] = Page(name, args)

    def up(self) -> None:
        """Leaves the page; the last one is left to the phone's Back."""
        if len(self.stack) > 1:
            self.stack.pop()

    def open_dialog(self, name: str, **args: Any) -> None:
        self.page.dialog, self.page.dialog_args, self.page.focus = name, args, ""

    def close_dialog(self) -> None:
        self.page.dialog, self.page.dialog_args = "", {}

    def back(self) -> bool:
        """The Back key, once keyboard and dialogs are down. False: nothing left, the phone goes home."""
        if len(self.stack) > 1:
            self.stack.pop()
            return True
        return False

    def toast(self, text: str) -> None:
        """A line at the bottom of the screen until the next input."""
        self.snack = text

    def submit(self, page: Page, key: str) -> None:
        """Enter was pressed in field `key`."""

    # --- drawing ---------------------------------------------------------------------------------------------

    def screen(self) -> Screen:
        """The current page's screen, with its dialog."""
        page = self.page
        screen: Screen = getattr(self, f"page_{page.name}")(page)
        if page.dialog:
            dialog: Dialog = getattr(self, f"dialog_{page.dialog}")(page)
            screen.dialog = dialog
        if not screen.color:
            screen.color = self.color
        return screen


def field_nodes(nodes: list[Node]) -> list[Node]:
    """All edit fields below `nodes`."""
    return [n for top in nodes for n in top.walk() if n.field_key]
