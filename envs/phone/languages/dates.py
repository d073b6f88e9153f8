"""Days in the language of the interface."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from mobilerl.envs.phone.words import MONTHS, WEEKDAYS

Translate = Callable[..., str]
"""`App.t`, or a phone's."""


def weekday_name(t: Translate, day: date) -> str:
    return t(WEEKDAYS[day.weekday()])


def month_name(t: Translate, day: date) -> str:
    return t(MONTHS[day.month - 1])


def day_and_month(t: Translate, day: date) -> str:
    """`17 October`."""
    return t("{day} {month}", day=day.day, month=month_name(t, day))


def full_day(t: Translate, day: date) -> str:
    """`Tuesday 17 October`."""
    return t("{weekday} {day} {month}", weekday=weekday_name(t, day), day=day.day, month=month_name(t, day))


def short_day(t: Translate, day: date) -> str:
    """`17 Oct`."""
    return t("{day} {month}", day=day.day, month=t(f"{day:%b}"))
