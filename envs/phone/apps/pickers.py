"""Dialogs that pick a time or a date, shared by the clock and the calendar."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

from mobilerl.envs.phone.app import App
from mobilerl.envs.phone.languages.dates import month_name
from mobilerl.envs.phone.ui import TEXT, Dialog, Node
from mobilerl.envs.phone.widgets import button, grid, icon_button, label, text_button


def time_text(hour: int, minute: int) -> str:
    """`7:05`, as all times are shown and stored."""
    return f"{hour}:{minute:02d}"


def time_order(text: str) -> tuple[int, int]:
    """(hour, minute) of a `time_text`: what times are sorted by."""
    hour, minute = text.split(":")
    return int(hour), int(minute)


def time_dialog(app: App, on_time: Callable[[str], None]) -> Dialog:
    """Asks for the hour, then for the minutes in steps of five; then closes and calls `on_time` with a `time_text`."""
    args = app.page.dialog_args

    def pick_minute(minute: int) -> None:
        app.close_dialog()
        on_time(time_text(args["hour"], minute))

    cancel = [text_button(app.t("Cancel"), app.close_dialog)]
    if "hour" not in args:
        return Dialog(
            app.t("Select hour"),
            grid([text_button(str(h), partial(args.update, hour=h)) for h in range(24)], 6),
            cancel,
        )
    minutes = [text_button(f"{m:02d}", partial(pick_minute, m)) for m in range(0, 60, 5)]
    return Dialog(app.t("Select minutes"), grid(minutes, 4), cancel)


def month_view(
    app: App, month: date, on_month: Callable[[date], None], on_day: Callable[[date], None], marked: Sequence[date] = ()
) -> list[Node]:
    """A month's days in weeks, between arrows to its neighbors; `marked` days stand out."""

    def turn(months: int) -> None:
        years, index = divmod(month.month - 1 + months, 12)
        on_month(date(month.year + years, index + 1, 1))

    def cell(day: date) -> Node:
        if day.month != month.month:
            return Node(height=44)
        return button(str(day.day), lambda: on_day(day), filled=day in marked)

    language = app.phone.language
    first, letters = language.first_weekday, language.weekday_letters
    name = label(month_name(app.t, month), size=17, bold=True, align="center")
    arrows = [
        icon_button("left", app.t("Previous month"), partial(turn, -1)),
        name,
        icon_button("right", app.t("Next month"), partial(turn, 1)),
    ]
    names = [
        Node(cls=TEXT, text=d, look="text", size=12, align="center", height=24)
        for d in letters[first:] + letters[:first]
    ]
    weeks = calendar.Calendar(first).monthdatescalendar(month.year, month.month)
    days = [cell(d) for week in weeks for d in week]
    return [Node(axis="row", pad=(12, 4), children=arrows), *grid([*names, *days], 7)]


def date_dialog(app: App, start: date, on_date: Callable[[date], None]) -> Dialog:
    """Asks for a day, opening at the month of `start`; then closes and calls `on_date` with the day."""
    args = app.page.dialog_args

    def done(day: date) -> None:
        app.close_dialog()
        on_date(day)

    month = date.fromisoformat(args["month"]) if "month" in args else start
    days = month_view(app, month, lambda m: args.update(month=m.isoformat()), done, marked=(start,))
    return Dialog(app.t("Select date"), days, [text_button(app.t("Cancel"), app.close_dialog)])
