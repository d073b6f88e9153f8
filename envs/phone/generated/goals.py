"""Operations that generated tasks ask for: changes to tables, and questions about them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mobilerl.envs.phone.app import Row
from mobilerl.envs.phone.generated import lexicon
from mobilerl.envs.phone.generated.app import GeneratedApp, app_class
from mobilerl.envs.phone.generated.search import Aim, Database, Move, copy_rows, plan
from mobilerl.envs.phone.generated.spec import Column, Table
from mobilerl.envs.phone.tasks.base import INFEASIBLE
from mobilerl.envs.phone.ui import Tree

Op = dict[str, Any]
"""One change or question as plain values: `kind`, `app`, `table`, and others that depend on the kind."""
CHANGES = ("create", "edit", "toggle", "delete")
QUESTIONS = ("read", "find", "count")
KINDS = (*CHANGES, *QUESTIONS, "copy", "missing")
"""`copy` reads a value in one app and enters it in another. `missing` asks for a row that does not exist, or for
something that the app cannot do."""
MOST_COUNTED = 8
"""Maximum number of rows in a list in which something is counted."""


def fresh_app(number: int, phone_seed: int) -> GeneratedApp:
    """The app with the content that it has on a phone of this seed, but without the phone."""
    app = app_class(number)(None)  # type: ignore[arg-type]  # its pages never use the phone
    app.populate(random.Random(f"{phone_seed}/{app.package}"))
    return app


def draw(kind: str, app: GeneratedApp, source: GeneratedApp | None, rng: random.Random) -> Op | None:
    """A random change or question of a kind, or None if the app does not allow it. `source` is the app to copy from."""
    table = rng.choice(app.spec.tables)
    row = rng.choice(app.db[table.name])
    op: Op = {"kind": kind, "app": app.spec.number, "table": table.name}
    drawn = _DRAW[kind](app, table, row, source, rng)
    return {**op, **drawn} if drawn is not None else None


def wording(op: Op, app: GeneratedApp, source: GeneratedApp | None = None, small: bool = False) -> dict[str, str]:
    """Values for the placeholders of a phrasing. With `small`, field names are in lower case."""
    table = table_of(op)
    row = row_of(op, app)
    column = column_of(op)
    value = op.get("value", next((v for k, v in op.get("values", {}).items() if k != "title"), ""))
    if op["kind"] in ("find", "count"):
        value = row[op["column"]]
    names = {
        "noun": table.noun,
        "plural": table.plural,
        "field": name_field(column, small) if column else "",
        "name": op.get("name", ""),
        "title": op.get("title") or op.get("values", {}).get("title") or row.get("title", ""),
        "value": str(value),
    }
    if source is not None and "source" in op:
        there = op["source"]
        known = next(r for r in source.db[there["table"]] if r["_id"] == there["row"])
        names |= {
            "source": known["title"],
            "source_app": source.label,
            "source_field": name_field(table_of(there).column(there["column"]), small),
        }
    return names


def name_field(column: Column, small: bool) -> str:
    """The name of a field in a goal."""
    return column.name.lower() if small else column.name


def row_of(op: Mapping[str, Any], app: GeneratedApp) -> Row:
    """The row that the op concerns, or {}."""
    return next((r for r in app.db[op["table"]] if r["_id"] == op.get("row")), {})


def table_of(op: Mapping[str, Any]) -> Table:
    return next(t for t in app_class(op["app"]).spec.tables if t.name == op["table"])


Drawn = dict[str, Any] | None


def _create(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    title = lexicon.title(rng, table.style)
    if any(r["title"] == title for r in app.db[table.name]):
        return None
    chosen = rng.sample(table.columns, rng.choice((0, 1, 1, min(2, len(table.columns)))))
    values = {c.key: 1 if c.kind == "flag" else c.draw(rng) for c in table.columns if c in chosen}
    return {"values": {"title": title, **values}}


def _edit(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    columns = table.of_kind("text", "number", "choice", "date")
    if not columns:
        return None
    column = rng.choice(columns)
    value = column.draw(rng)
    return {"row": row["_id"], "values": {column.key: value}} if value != row[column.key] else None


def _toggle(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    columns = table.of_kind("flag")
    if not columns:
        return None
    key = rng.choice(columns).key
    return {"row": row["_id"], "values": {key: 1 - row[key]}}


def _delete(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    return {"row": row["_id"]}


def _read(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    columns = table.of_kind("text", "number", "choice", "date")
    return {"row": row["_id"], "column": rng.choice(columns).key} if columns else None


def _find(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    keys = [k for k in table.listed if sum(r[k] == row[k] for r in app.db[table.name]) == 1]
    return {"row": row["_id"], "column": rng.choice(keys)} if keys else None


def _count(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    keys = [c.key for c in table.of_kind("choice", "date") if c.key in table.listed]
    if not keys or len(app.db[table.name]) > MOST_COUNTED:
        return None
    return {"row": row["_id"], "column": rng.choice(keys)}


def _copy(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    if source is None:
        return None
    columns = [
        (c, s, t) for t in source.spec.tables for s in t.of_kind("text", "number") for c in table.of_kind(s.kind)
    ]
    if not columns:
        return None
    column, read, read_table = rng.choice(columns)
    known = rng.choice(source.db[read_table.name])
    if known[read.key] == row[column.key]:
        return None
    there = {"app": source.spec.number, "table": read_table.name, "row": known["_id"], "column": read.key}
    return {"row": row["_id"], "values": {column.key: known[read.key]}, "source": there}


def _missing(app: GeneratedApp, table: Table, row: Row, source: GeneratedApp | None, rng: random.Random) -> Drawn:
    if rng.random() < 0.4:
        return {"row": row["_id"], "asked": "impossible", "name": lexicon.text_value(rng, "person").split()[0]}
    title = lexicon.title(rng, table.style)
    if any(r["title"] == title for r in app.db[table.name]):
        return None
    asked = rng.choice(("delete", "edit", "read"))
    columns = table.of_kind("text", "number", "choice", "date")
    if asked != "delete" and not columns:
        return None
    column = rng.choice(columns) if columns else None
    drawn: Op = {"title": title, "asked": asked}
    if asked != "delete" and column is not None:
        drawn |= {"column": column.key, "value": column.draw(rng)}
    return drawn


_DRAW: dict[str, Callable[[GeneratedApp, Table, Row, GeneratedApp | None, random.Random], Drawn]] = {
    "create": _create,
    "edit": _edit,
    "toggle": _toggle,
    "delete": _delete,
    "read": _read,
    "find": _find,
    "count": _count,
    "copy": _copy,
    "missing": _missing,
}


def apply(op: Op, db: Database) -> Database:
    """The tables of the op's app after the operation."""
    after = copy_rows(db)
    rows, values = after[op["table"]], op.get("values", {})
    if op["kind"] == "create":
        columns = app_class(op["app"]).tables[op["table"]]
        rows.append({"_id": max(r["_id"] for r in rows) + 1, **columns, **values})
    elif op["kind"] == "delete":
        after[op["table"]] = [r for r in rows if r["_id"] != op["row"]]
    else:
        for row in rows:
            if row["_id"] == op.get("row"):
                row.update(values)
    return after


def answer(op: Op, db: Database) -> str:
    """The expected final answer; "" for a change."""
    if op["kind"] == "missing":
        return INFEASIBLE
    if op["kind"] not in QUESTIONS:
        return ""
    rows, key = db[op["table"]], op["column"]
    row = next(r for r in rows if r["_id"] == op["row"])
    if op["kind"] == "read":
        return str(row[key])
    return row["title"] if op["kind"] == "find" else str(sum(r[key] == row[key] for r in rows))


@dataclass(frozen=True, slots=True)
class Visit:
    """The expert's moves in one app."""

    label: str
    moves: tuple[Move, ...]
    carried: str = ""
    """The value that was read here for another app."""


def visits(ops: list[Op], phone_seed: int) -> list[Visit]:
    """The shortest plans, one per app. Raises LookupError if there is none."""
    return list(_visits(json.dumps(ops), phone_seed))


@lru_cache(maxsize=2**14)
def _visits(told: str, phone_seed: int) -> tuple[Visit, ...]:
    """Cached, because a search takes some 10 ms, and a task is often both created and demonstrated."""
    ops: list[Op] = json.loads(told)
    made = []
    target = fresh_app(ops[0]["app"], phone_seed)
    if ops[0]["kind"] == "copy":
        source, there = fresh_app(ops[0]["source"]["app"], phone_seed), ops[0]["source"]
        moves = plan(source, Aim((), frozenset({there["row"]}), lambda tree: _reads(source, there, tree)))
        made.append(Visit(source.label, tuple(moves), str(next(iter(ops[0]["values"].values())))))
    db, stages = target.db, []
    for op in ops:
        if op["kind"] not in (*QUESTIONS, "missing"):
            db = apply(op, db)
            stages.append(db)
    rows = frozenset(op["row"] for op in ops if "row" in op)
    moves = plan(target, Aim(tuple(stages), rows, lambda tree: all(_shows(target, op, tree) for op in ops)))
    made.append(Visit(target.label, tuple(moves)))
    return tuple(made)


def _shows(app: GeneratedApp, op: Op, tree: Tree) -> bool:
    """Whether the screen answers the question."""
    if op["kind"] == "read":
        return _reads(app, op, tree)
    listed = app.page.name in ("main", "list") and _table_name(app) == op["table"] and not _in_menu(app)
    if op["kind"] == "find":
        row = next(r for r in app.db[op["table"]] if r["_id"] == op["row"])
        return listed and _visible_text(tree, row["title"])
    if op["kind"] == "count":
        return listed and tree.scroll_max == 0
    if op["kind"] == "missing" and "row" in op:
        return listed and _visible_text(tree, next(r["title"] for r in app.db[op["table"]] if r["_id"] == op["row"]))
    if op["kind"] == "missing":
        return listed and app.page.scroll >= tree.scroll_max
    return True


def _reads(app: GeneratedApp, op: Mapping[str, Any], tree: Tree) -> bool:
    """Whether the value of the row's column is visible."""
    row = next(r for r in app.db[op["table"]] if r["_id"] == op["row"])
    if app.page.dialog or _table_name(app) != op["table"] or _in_menu(app):
        return False
    if app.page.name in ("view", "edit"):
        return app.page.args.get("id") == op["row"] and _visible_text(tree, str(row[op["column"]]))
    table = app.table(app.page)
    return op["column"] in table.listed and app.page.name != "info" and _visible_text(tree, row["title"])


def _in_menu(app: GeneratedApp) -> bool:
    return app.page.name == "info" or (app.page.name == "main" and app.spec.design.main == "menu")


def _table_name(app: GeneratedApp) -> str:
    return app.table(app.page).name


def _visible_text(tree: Tree, text: str) -> bool:
    top, bottom = tree.body[1], tree.body[3]
    return any(
        node.text == text and top <= (node.bounds[1] + node.bounds[3]) / 2 < bottom for node in tree.window.walk()
    )


def column_of(op: Op) -> Column | None:
    """The column that a goal names, or None."""
    key = op.get("column") or next((k for k in op.get("values", {}) if k != "title"), None)
    return table_of(op).column(key) if key else None
