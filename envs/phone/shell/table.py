"""What a table of a content provider is, and those of the phone's own apps."""

from __future__ import annotations

from typing import Protocol

from envs.phone.app import App, Row


class Refused(Exception):
    """An operation that the provider does not have."""


class Table(Protocol):
    """`columns` are shown by a query without a projection. `rows` are copies or the rows themselves."""

    columns: tuple[str, ...]
    defaults: Row

    def rows(self) -> list[Row]: ...
    def insert(self, values: Row) -> None: ...
    def update(self, row: Row, values: Row) -> None: ...
    def delete(self, row: Row) -> None: ...


class AppTable:
    """A table of an app, as it is."""

    def __init__(self, app: App, table: str) -> None:
        self.app, self.table = app, table
        self.defaults = {"_id": 0, **app.tables[table]}
        self.columns = tuple(self.defaults)

    def rows(self) -> list[Row]:
        return self.app.db[self.table]

    def insert(self, values: Row) -> None:
        self.app.insert(self.table, **values)

    def update(self, row: Row, values: Row) -> None:
        row.update(values)

    def delete(self, row: Row) -> None:
        self.app.remove(self.table, row["_id"])


class Prefs:
    """The one row of an app's single values."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.defaults = app.prefs
        self.columns = tuple(app.prefs)

    def rows(self) -> list[Row]:
        return [self.app.prefs]

    def insert(self, values: Row) -> None:
        raise Refused("insert")

    def update(self, row: Row, values: Row) -> None:
        row.update(values)

    def delete(self, row: Row) -> None:
        raise Refused("delete")
