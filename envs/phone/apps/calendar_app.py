"""Calendar: events in an agenda, a month and a day view."""

from __future__ import annotations

import random
from datetime import date, timedelta
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.apps.pickers import date_dialog, month_view, time_dialog, time_order, time_text
from mobilerl.envs.phone.languages.dates import day_and_month, full_day, weekday_name
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.system import EPOCH
from mobilerl.envs.phone.ui import Dialog, Node, Screen
from mobilerl.envs.phone.widgets import fab, field, icon_button, item, label
from mobilerl.envs.phone.words import EVENT_TITLES


class Calendar(App):
    """An event's `day` is an ISO date."""

    package = "com.android.calendar"
    label = "Calendar"
    authority = "calendar"
    icon = "calendar"
    color = "#1A73E8"
    tables = {"events": {"title": "", "day": EPOCH.date().isoformat(), "time": "9:00"}}
    list_detail = ListDetail(("main", "month"), ("day", "event", "edit"), "Select an event")

    def populate(self, rng: random.Random) -> None:
        for title in rng.sample(EVENT_TITLES, 9):
            day = EPOCH.date() + timedelta(days=rng.randrange(30))
            time = time_text(rng.randrange(7, 21), rng.choice((0, 30)))
            self.insert("events", title=title, day=day.isoformat(), time=time)

    @property
    def today(self) -> date:
        return self.phone.now.date()

    def sort_rows(self) -> list[Row]:
        """All events, the earliest first."""
        return sorted(self.db["events"], key=lambda r: (r["day"], time_order(r["time"]), r["_id"]))

    def page_main(self, page: Page) -> Screen:
        coming = [e for e in self.sort_rows() if e["day"] >= self.today.isoformat()]
        body = [self._row(e, self._full_day(e["day"])) for e in coming] or [label(self.t("No events"))]
        month = icon_button("calendar", self.t("Month"), self._open_month)
        return Screen(self.t("Calendar"), body, [month], fab=self._add_button(self.today))

    def _full_day(self, iso: str) -> str:
        return full_day(self.t, date.fromisoformat(iso))

    def _row(self, event: Row, subtitle: str = "") -> Node:
        time = label(event["time"], align="right")
        time.width, time.pad = 56, (0, 4)
        return item(
            event["title"],
            subtitle,
            on_tap=lambda: self.go("event", id=event["_id"]),
            trailing=[time],
            selected=self.shown_beside(id=event["_id"]),
        )

    def _add_button(self, day: date) -> Node:
        edit = partial(self.go, "edit", focus="title", day=day.isoformat(), time="9:00")
        return fab("plus", self.t("Add event"), edit)

    def _open_month(self) -> None:
        self.go("month", month=self.today.replace(day=1).isoformat())

    def page_month(self, page: Page) -> Screen:
        busy = [date.fromisoformat(e["day"]) for e in self.db["events"]]
        body = month_view(
            self,
            date.fromisoformat(page.args["month"]),
            on_month=lambda month: page.args.update(month=month.isoformat()),
            on_day=lambda day: self.go("day", day=day.isoformat()),
            marked=busy,
        )
        return Screen(self.t("Month"), body, on_up=self.up)

    def page_day(self, page: Page) -> Screen:
        day = date.fromisoformat(page.args["day"])
        events = [e for e in self.sort_rows() if e["day"] == page.args["day"]]

        def turn(days: int) -> None:
            page.args["day"] = (day + timedelta(days=days)).isoformat()

        actions = [
            icon_button("left", self.t("Previous day"), lambda: turn(-1)),
            icon_button("right", self.t("Next day"), lambda: turn(1)),
        ]
        body = [label(weekday_name(self.t, day)), *map(self._row, events)]
        if not events:
            body.append(label(self.t("No events")))
        return Screen(day_and_month(self.t, day), body, actions, on_up=self.up, fab=self._add_button(day))

    def page_event(self, page: Page) -> Screen:
        event = self.get("events", page.args["id"])
        if event is None:
            return self.missing(self.t("Event"), self.t("This event was deleted"))
        actions = [
            icon_button("edit", self.t("Edit"), lambda: self._edit(event)),
            icon_button("trash", self.t("Delete"), lambda: self.open_dialog("delete")),
        ]
        body = [item(self.t("Date"), self._full_day(event["day"])), item(self.t("Time"), event["time"])]
        return Screen(event["title"], body, actions, on_up=self.up)

    def page_edit(self, page: Page) -> Screen:
        body = [
            field("title", self.t("Title")),
            item(self.t("Date"), self._full_day(page.args["day"]), on_tap=lambda: self.open_dialog("date")),
            item(self.t("Time"), page.args["time"], on_tap=lambda: self.open_dialog("time")),
        ]
        save = icon_button("check", self.t("Save"), lambda: self._save(page))
        return Screen(self.t("Edit event"), body, [save], on_up=self.up)

    def dialog_date(self, page: Page) -> Dialog:
        start = date.fromisoformat(page.args["day"])
        return date_dialog(self, start, lambda day: page.args.update(day=day.isoformat()))

    def dialog_time(self, page: Page) -> Dialog:
        return time_dialog(self, lambda time: page.args.update(time=time))

    def dialog_delete(self, page: Page) -> Dialog:
        return self.confirmation(self.t("Delete event?"), partial(self.delete, "events", page.args["id"], "Event"))

    def _edit(self, event: Row) -> None:
        fields, args = {"title": event["title"]}, {"id": event["_id"], "day": event["day"], "time": event["time"]}
        self.go("edit", focus="title", fields=fields, **args)

    def _save(self, page: Page) -> None:
        values = {"title": page.fields["title"].strip(), "day": page.args["day"], "time": page.args["time"]}
        if not values["title"]:
            self.toast(self.t("An event needs a title"))
            return
        self.save(page, "events", values, "Event")
