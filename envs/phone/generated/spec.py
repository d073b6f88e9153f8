"""The specification of a generated app: its tables and the design of its screens, drawn from the app's number."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from mobilerl.envs.phone.generated import everyday, lexicon
from mobilerl.envs.phone.words import split

Kind = Literal["text", "number", "flag", "choice", "date"]


@dataclass(frozen=True, slots=True)
class Column:
    """A field of a table's rows."""

    key: str
    """Name of the database column."""
    name: str
    """Label on the screen."""
    kind: Kind
    options: tuple[str, ...] = ()
    """Options of a choice or a date."""
    style: str = ""
    """Style of a text for `lexicon.text_value`."""

    def draw(self, rng: random.Random) -> str | int:
        if self.kind == "flag":
            return int(rng.random() < 0.4)
        if self.kind == "number":
            return rng.randint(1, 99)
        return rng.choice(self.options) if self.options else lexicon.text_value(rng, self.style)

    def format_value(self, value: str | int) -> str:
        return ("no", "yes")[int(value)] if self.kind == "flag" else str(value)


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """Name of the database table."""
    noun: str
    plural: str
    title: str
    """Label of the column `title`, which identifies rows on the screen."""
    style: str
    """Style of the rows' titles for `lexicon.title`."""
    columns: tuple[Column, ...]
    rows: tuple[int, int]
    """Minimum and maximum number of rows."""
    listed: tuple[str, ...]
    """Keys of the columns that are shown in the list."""

    def column(self, key: str) -> Column:
        return next(c for c in self.columns if c.key == key)

    def of_kind(self, *kinds: Kind) -> list[Column]:
        return [c for c in self.columns if c.kind in kinds]


@dataclass(frozen=True, slots=True)
class Design:
    """The look of an app's screens and the paths between them."""

    main: Literal["list", "tabs", "menu"]
    """Main page: the list of the first table, lists in tabs, or a menu of the lists."""
    add: Literal["fab", "bar", "row", "more"]
    """Where a new row is started: a floating button, the title bar, the first row of the list, or the menu `More`."""
    opened: Literal["view", "form"]
    """What tapping a row opens."""
    edit: Literal["form", "inline"]
    """How a value on a view is changed: in the form, or by tapping it."""
    actions: Literal["icons", "buttons", "more"]
    """Where edit and delete are: in the title bar, at the end of the page, or in the menu `More`."""
    flags: Literal["list", "page", "bar"]
    """Where the first flag is changed: also in the list, only on the row's page, or by a button in the title bar of
    that page."""
    buttons: tuple[str, str]
    """Labels of that button for turning `{flag}` on and off."""
    save: Literal["icon", "button"]
    search: bool
    confirm: Literal["", "this", "short", "long"]
    """Style of the confirmation before deleting; "" for none."""
    order: Literal["oldest", "newest", "title"]
    words: dict[str, str]
    """Labels of `new`, `save`, `delete`, `edit`, `search`, `more` and `cancel`."""
    pages: tuple[str, ...]
    """Pages that no task needs."""


@dataclass(frozen=True, slots=True)
class Spec:
    number: int
    label: str
    package: str
    color: str
    icon: str
    tables: tuple[Table, ...]
    design: Design

    @property
    def authority(self) -> str:
        return f"app{self.number}"


@lru_cache(maxsize=4096)
def make_spec(number: int) -> Spec:
    """The specification of app `number`. Deterministic."""
    rng = random.Random(f"app/{number}")
    tables = [_table(rng, "t0", set())]
    if rng.random() < 0.4:
        tables.append(_table(rng, "t1", {tables[0].noun}))
    words = {name: rng.choice(getattr(lexicon, name.upper())) for name in _WORDS}
    design = Design(
        main=rng.choice(("list", "list", "tabs", "menu")) if len(tables) == 1 else rng.choice(("tabs", "menu")),
        add=rng.choice(("fab", "bar", "row", "more")),
        opened=rng.choice(("view", "view", "form")),
        edit=rng.choice(("form", "inline")),
        actions=rng.choice(("icons", "buttons", "more")),
        flags=rng.choice(("list", "page", "bar")),
        buttons=rng.choice(_BUTTONS),
        save=rng.choice(("icon", "button")),
        search=rng.random() < 0.5,
        confirm=rng.choice(("", "", "this", "short", "long")),
        order=rng.choice(("oldest", "newest", "title")),
        words=words,
        pages=tuple(rng.sample(lexicon.PAGES, rng.randint(1, 3))),
    )
    return Spec(
        number,
        _label(rng, tables[0]),
        f"com.generated.app{number}",
        rng.choice(lexicon.COLORS),
        rng.choice(lexicon.ICONS),
        tuple(tables),
        design,
    )


EVERYDAY = 0.45
"""Fraction of tables with things of `everyday.THINGS`."""
_BUTTONS = (("{flag}", "Not {flag}"), ("Add {flag}", "Remove {flag}"), ("Mark {flag}", "Unmark {flag}"))
_WORDS = ("new", "save", "delete", "edit", "search", "more", "cancel")


def _label(rng: random.Random, table: Table) -> str:
    """The usual name, the plural of what the app contains, its noun with a second word, or a made-up name."""
    kind = rng.random()
    if table.noun in everyday.THINGS and rng.random() < 0.7:
        return rng.choice(everyday.THINGS[table.noun].apps)
    if kind < 0.4:
        return table.plural.capitalize()
    if kind < 0.6:
        return f"{table.noun.capitalize()} {rng.choice(lexicon.SUFFIXES)}"
    return lexicon.made_up(rng).capitalize()


def _table(rng: random.Random, name: str, used: set[str]) -> Table:
    thing = (
        everyday.THINGS[rng.choice([n for n in everyday.THINGS if n not in used])] if rng.random() < EVERYDAY else None
    )
    if thing is not None:
        noun, plural = thing.noun, thing.plural
    elif rng.random() < 0.6:
        noun = rng.choice([n for n in lexicon.ENTITIES if n not in used])
        plural = lexicon.ENTITIES[noun]
    else:
        noun = lexicon.made_up(rng)
        plural = lexicon.plural(noun)
    columns = _columns(rng, thing.fields if thing else ())
    visible = [c.key for c in columns if c.kind != "flag"]
    rows = rng.choice(((3, 6), (4, 8), (9, 14)))
    listed = tuple(rng.sample(visible, min(len(visible), rng.choice((0, 1, 1, 2)))))
    style = rng.choice(("person", "phrase", "made-up", "mixed"))
    if thing is not None and rng.random() < 0.7:
        style = thing.style
    return Table(name, noun, plural, rng.choice(lexicon.TITLE_FIELDS), style, columns, rows, listed)


def _columns(rng: random.Random, usual: Sequence[str] = ()) -> tuple[Column, ...]:
    """Two to four columns, some of them `usual` ones (of `everyday`)."""
    drawn = [_usual(rng, name) for name in usual if rng.random() < 0.7][:3]
    kinds: list[Kind] = [rng.choice(("text", "number")), rng.choice(("flag", "choice", "date"))]
    kinds += rng.choices(("text", "number", "flag", "choice", "date"), k=rng.randint(0, 2))
    for kind in kinds[len(drawn) :]:
        name, options = _field(rng, kind, {c.name for c in drawn})
        drawn.append(Column("", name, kind, options))
    rng.shuffle(drawn)
    return tuple(replace(column, key=f"c{i}") for i, column in enumerate(drawn))


def _usual(rng: random.Random, name: str) -> Column:
    """A column for a field of `everyday`."""
    if name in everyday.FLAGS:
        return Column("", name, "flag")
    kind, style = everyday.FIELDS[name]
    if kind == "choice":
        return Column("", name, "choice", split(style))
    if kind == "date":
        return Column("", name, "date", _dates(rng))
    return Column("", name, "number" if kind == "number" else "text", style=style)


def _field(rng: random.Random, kind: Kind, used: set[str]) -> tuple[str, tuple[str, ...]]:
    """A label that is not in `used`, and the options of a choice or a date."""
    while True:
        name, options = _any_field(rng, kind)
        if name not in used:
            return name, options


def _any_field(rng: random.Random, kind: Kind) -> tuple[str, tuple[str, ...]]:
    invented = rng.random() < 0.35
    if kind == "choice":
        if invented:
            return _invent_word(rng), tuple(dict.fromkeys(_invent_word(rng) for _ in range(rng.randint(3, 5))))
        name = rng.choice(list(lexicon.CHOICE_FIELDS))
        return name, lexicon.CHOICE_FIELDS[name]
    if kind == "flag":
        return (_invent_word(rng) if invented else rng.choice(lexicon.FLAGS).capitalize()), ()
    names = {"text": lexicon.TEXT_FIELDS, "number": lexicon.NUMBER_FIELDS, "date": lexicon.DATE_FIELDS}[kind]
    return (_invent_word(rng) if invented else rng.choice(names)), _dates(rng) if kind == "date" else ()


def _dates(rng: random.Random) -> tuple[str, ...]:
    return tuple(dict.fromkeys(lexicon.date_value(rng) for _ in range(5)))


def _invent_word(rng: random.Random) -> str:
    return lexicon.made_up(rng).capitalize()
