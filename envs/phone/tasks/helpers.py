"""Parts of templates: comparisons of a table before and after, values of `done`, steps of scripts."""

from __future__ import annotations

from collections.abc import Callable

from mobilerl.envs.phone.tasks.base import Actions, Admin, Row, RowTemplate

Done = Callable[[RowTemplate, Admin], bool]


def find_added(before: list[Row], after: list[Row]) -> list[Row]:
    """The new rows, without their ids; [] when an old row is missing or changed."""
    if after[: len(before)] != before:
        return []
    return [{k: v for k, v in row.items() if k != "_id"} for row in after[len(before) :]]


def edit_row(rows: list[Row], row_id: int, **values: str | int | float) -> list[Row]:
    """`rows` with other values in one of them."""
    return [{**row, **values} if row["_id"] == row_id else row for row in rows]


def unchanged(task: RowTemplate, phone: Admin) -> bool:
    return phone.rows(task.table) == task.before


def deletes(task: RowTemplate, phone: Admin) -> bool:
    """Exactly the task's row is gone."""
    return phone.rows(task.table) == [row for row in task.before if row["_id"] != task.row_id]


def edits(**values: str | int) -> Done:
    """The task's row has these new values, and nothing else changed."""

    def done(task: RowTemplate, phone: Admin) -> bool:
        return phone.rows(task.table) == edit_row(task.before, task.row_id, **task.row(values))

    return done


def adds(**values: str | int) -> Done:
    """Exactly one row is new, and it has these values. Each value of a parameter is a condition of its own."""

    def done(task: RowTemplate, phone: Admin) -> bool:
        new = find_added(task.before, phone.rows(task.table))
        return [{k: row.get(k) for k in values} for row in new] == [task.row(values)]

    def conditions(task: RowTemplate, phone: Admin) -> list[bool]:
        new, wanted = find_added(task.before, phone.rows(task.table)), task.row(values)
        asked = [k for k, value in values.items() if isinstance(value, str) and "{" in value]
        return [len(new) == 1 and new[0].get(k) == wanted[k] for k in asked]

    done.conditions = conditions  # type: ignore[attr-defined]  # for `RowTemplate.conditions`
    return done


def tap_field(hint: str) -> Actions:
    """Taps the edit field with this hint."""
    return lambda ui, p: ui.press(hint, field=True)


def long_press(name: str) -> Actions:
    return lambda ui, p: ui.press(name.format(**p), long=True)


def reach(name: str) -> Actions:
    """Scrolls until `name` can be seen."""
    return lambda ui, p: ui.reach(name.format(**p))


def repeat(name: str, times: Callable[[Row], int]) -> Actions:
    """Taps `name` as often as `times` says for the task's parameters."""
    return lambda ui, p: (action for _ in range(times(p)) for action in ui.press(name.format(**p)))
