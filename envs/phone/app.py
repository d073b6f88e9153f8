"""Base class of the apps: tables of rows, a stack of pages, and a method per page that describes its screen.

`Host` is the phone as apps, panels and pop-ups see it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar

from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.system import System
from mobilerl.envs.phone.ui import Dialog, Handler, Node, Screen
from mobilerl.envs.phone.widgets import field as edit_field
from mobilerl.envs.phone.widgets import icon_button, label, radio_item, tabs, text_button

Row = dict[str, Any]
T = TypeVar("T")


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
    dialog_scroll: int = 0


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
    list_detail: ClassVar[ListDetail | None] = None
    """Which pages stand side by side on a wide screen."""

    def __init__(self, phone: Host) -> None:
        self.phone = phone
        self.stack: list[Page] = []
        self.snack = ""
        self.db: dict[str, list[Row]] = {}
        self.prefs: Row = {}
        self.clear()

    def t(self, english: str, /, **values: object) -> str:
        """A text of the interface in the phone's language, with `values` for its {names}."""
        language = self.phone.language
        return language.text(english, values) if values or language.words else english

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

    def save(self, page: Page, table: str, values: Row, noun: str) -> None:
        """Save of an edit page: changes the row `page.args["id"]`, or adds one, and leaves the page."""
        row = self.get(table, page.args.get("id", 0))
        if row is None:
            self.insert(table, **values)
        else:
            row.update(values)
        self.up()
        self.toast(self.t(f"{noun} saved"))

    def delete(self, table: str, row_id: int, noun: str) -> None:
        """Delete of a row's page: removes the row and leaves the page."""
        self.close_dialog()
        self.remove(table, row_id)
        self.up()
        self.toast(self.t(f"{noun} deleted"))

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
            self.leave(self.stack.pop())

    def leave(self, page: Page) -> None:
        """The page is left, or may be, by a touch in the list beside it: the time to store what is in its fields."""

    def open_dialog(self, name: str, **args: Any) -> None:
        page = self.page
        page.dialog, page.dialog_args, page.dialog_scroll, page.focus = name, args, 0, ""

    def close_dialog(self) -> None:
        self.page.dialog, self.page.dialog_args, self.page.focus = "", {}, ""

    def back(self) -> bool:
        """The Back key, once keyboard and dialogs are down. False: nothing left, the phone goes home."""
        if len(self.stack) > 1:
            self.up()
            return True
        return False

    @property
    def list_page(self) -> Page | None:
        """The page on the left of a wide screen; None while one page takes all of the screen."""
        if self.list_detail is not None and self.phone.wide:
            for page in reversed(self.stack):
                if page.name in self.list_detail.lists:
                    return page
                if page.name not in self.list_detail.details:
                    return None
        return None

    def shown_beside(self, **args: Any) -> bool:
        """Whether the page with these arguments, or one opened from it, stands beside the list."""
        if self.list_detail is None or not self.phone.wide:
            return False
        details = (p for p in self.stack if p.name in self.list_detail.details)
        return any(args.items() <= page.args.items() for page in details)

    def touch_list(self, touch: Handler) -> None:
        """Carries out a touch in the list beside a page. What it opens takes the place of that page; a switch or a
        star in the list leaves it."""
        page = self.list_page
        count = next(i for i, p in enumerate(self.stack, 1) if p is page)
        beside = self.stack[count:]
        if page is None or not beside:
            touch()
            return
        for left in beside:
            self.leave(left)
        del self.stack[count:]
        page.focus = ""
        touch()
        if len(self.stack) == count and self.stack[-1] is page and not page.dialog and not page.focus:
            self.stack += beside

    def toast(self, text: str) -> None:
        """A line at the bottom of the screen until the next input."""
        self.snack = text

    def submit(self, page: Page, key: str) -> None:
        """Enter was pressed in field `key`."""

    def tab_bar(self, names: Sequence[str], selected: str, icons: Sequence[str]) -> Node:
        """The bottom bar of an app whose main page has tabs (`page.args["tab"]`)."""
        handlers = [partial(self.replace, "main", tab=n) for n in names]
        return tabs([self.t(n) for n in names], names.index(selected), handlers, icons)

    def search_button(self) -> Node:
        return icon_button("search", self.t("Search"), lambda: self.go("search", focus="query"))

    def search_screen(
        self, page: Page, hint: str, things: Iterable[T], text: Callable[[T], str], row: Callable[[T], Node]
    ) -> Screen:
        """A search field, and below it the rows of those things whose `text` contains what was typed."""
        query = page.fields.get("query", "").casefold().strip()
        hits = [row(thing) for thing in things if query and query in text(thing).casefold()]
        return Screen(self.t("Search"), [edit_field("query", hint), *hits], on_up=self.up)

    def missing(self, title: str, text: str) -> Screen:
        """The screen of a page whose row is gone."""
        return Screen(title, [label(text)], on_up=self.up)

    def confirmation(self, title: str, on_confirm: Handler, button: str = "", text: str = "") -> Dialog:
        """Asks before something is done; the button reads `Delete` if no other text is given."""
        confirm = text_button(button or self.t("Delete"), on_confirm)
        buttons = [text_button(self.t("Cancel"), self.close_dialog), confirm]
        return Dialog(title, [label(text)] if text else [], buttons)

    def choice(self, title: str, options: Sequence[str], chosen: str, on_choice: Callable[[str], object]) -> Dialog:
        def choose(option: str) -> None:
            self.close_dialog()
            on_choice(option)

        rows = [radio_item(self.t(o), o == chosen, partial(choose, o)) for o in options]
        return Dialog(title, rows, [text_button(self.t("Cancel"), self.close_dialog)])

    def text_dialog(self, title: str, key: str, hint: str, button: str, password: bool = False) -> Dialog:
        """Asks for a text in the page's field `key`; the button and Enter call `submit`."""
        page = self.page
        submit = text_button(button, lambda: self.submit(page, key))
        buttons = [text_button(self.t("Cancel"), self.close_dialog), submit]
        return Dialog(title, [edit_field(key, hint, password=password)], buttons)

    def ask(self, dialog: str, key: str, text: str = "", **args: Any) -> None:
        """Opens a text dialog whose field holds `text`."""
        self.open_dialog(dialog, **args)
        self.page.fields[key], self.page.focus = text, key

    def screen(self) -> Screen:
        """The current page's screen, with its dialog."""
        page = self.page
        screen = self.screen_of(page)
        if page.dialog:
            dialog: Dialog = getattr(self, f"dialog_{page.dialog}")(page)
            screen.dialog = dialog
        return screen

    def screen_of(self, page: Page) -> Screen:
        """A page's screen, without its dialog."""
        screen: Screen = getattr(self, f"page_{page.name}")(page)
        if not screen.color:
            screen.color = self.color
        screen.up_name = self.t(screen.up_name)
        return screen


class Host(System, ABC):
    """The phone that apps run on."""

    def __init__(self, width: int, height: int, density: int | None = None) -> None:
        super().__init__(width, height, density)
        self.apps: dict[str, App] = {}
        self.wide = False
        """Whether the screen, as it was laid out last, has room for a list beside a page."""

    @property
    def launcher(self) -> App:
        return next(iter(self.apps.values()))

    def app(self, label_or_package: str) -> App | None:
        """Looks an app up by package or by the name under its icon, case-insensitively."""
        wanted = label_or_package.casefold()
        return next((a for a in self.apps.values() if wanted in (a.package.casefold(), a.label.casefold())), None)

    @abstractmethod
    def open(self, package: str) -> None:
        """An app opens another from within a handler."""

    @abstractmethod
    def running(self) -> list[App]:
        """The apps that were opened and not closed since, the one used last first."""

    @abstractmethod
    def force_stop(self, package: str) -> None:
        """Ends an app; in front, it leaves the screen to the launcher."""

    @abstractmethod
    def show_panel(self, page: Page) -> None:
        """Puts a window of the system over the apps."""

    @abstractmethod
    def close_panel(self, name: str = "") -> None:
        """Closes the panel; with a `name` only that one."""

    @abstractmethod
    def close_popup(self) -> None:
        """Takes the pop-up off the screen."""

    @abstractmethod
    def invalidate(self) -> None:
        """State was changed from outside (by the shell): the screen is laid out again."""
