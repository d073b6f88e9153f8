"""Tasks: things to do, with a priority and a day, ticked off when done."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page, Row
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import Dialog, Node, Screen
from mobilerl.envs.phone.widgets import fab, field, flip, icon_button, item, label, mark
from mobilerl.envs.phone.words import NOTE_LINES, WEEKDAYS

PRIORITIES = ("Low", "Normal", "High")
DAYS = ("No day", *WEEKDAYS)
FILTERS = ("All", "Open", "Done", "High")


class Todo(App):
    package = "com.android.tasks"
    label = "Tasks"
    authority = "tasks"
    icon = "tasks"
    color = "#00796B"
    tables = {"tasks": {"title": "", "done": 0, "priority": "Normal", "due": "No day"}}
    default_prefs = {"filter": "All"}
    list_detail = ListDetail(("main",), ("edit",), "Select a task")

    def populate(self, rng: random.Random) -> None:
        for title in rng.sample(NOTE_LINES, 5):
            self.insert(
                "tasks",
                title=title,
                done=int(rng.random() < 0.3),
                priority=rng.choice(PRIORITIES),
                due=rng.choice(DAYS),
            )

    def filter_tasks(self) -> list[Row]:
        """The tasks that pass the filter, open ones first."""
        passes = {
            "All": lambda t: True,
            "Open": lambda t: not t["done"],
            "Done": lambda t: t["done"],
            "High": lambda t: t["priority"] == "High",
        }[self.prefs["filter"]]
        return sorted(filter(passes, self.db["tasks"]), key=lambda t: (t["done"], t["_id"]))

    def page_main(self, page: Page) -> Screen:
        chosen = self.prefs["filter"]
        body = [self._row(task) for task in self.filter_tasks()] or [label(self.t("No tasks"))]
        new = fab("plus", self.t("New task"), lambda: self.go("edit", focus="title", priority="Normal", due="No day"))
        actions = [icon_button("filter", self.t("Filter"), lambda: self.open_dialog("filter"))]
        return Screen(self.t("Tasks" if chosen == "All" else f"{chosen} tasks"), body, actions, fab=new)

    def _row(self, task: Row) -> Node:
        name = self.t("Done {title}", title=task["title"])
        box = mark("CheckBox", bool(task["done"]), (32, 32), name, flip(task, "done"))
        row = item(
            task["title"],
            self.t("{priority}, {day}", priority=self.t(task["priority"]), day=self.t(task["due"])),
            on_tap=lambda: self._open(task),
            selected=self.shown_beside(id=task["_id"]),
        )
        row.children.insert(0, box)
        return row

    def page_edit(self, page: Page) -> Screen:
        body = [
            field("title", self.t("Title")),
            item(self.t("Priority"), self.t(page.args["priority"]), on_tap=lambda: self.open_dialog("priority")),
            item(self.t("Day"), self.t(page.args["due"]), on_tap=lambda: self.open_dialog("due")),
        ]
        actions = [icon_button("check", self.t("Save"), lambda: self._save(page))]
        if "id" in page.args:
            delete = partial(self.delete, "tasks", page.args["id"], "Task")
            actions.insert(0, icon_button("trash", self.t("Delete"), delete))
        return Screen(self.t("Edit task" if "id" in page.args else "New task"), body, actions, on_up=self.up)

    def dialog_filter(self, page: Page) -> Dialog:
        return self.choice(self.t("Show"), FILTERS, self.prefs["filter"], lambda v: self.prefs.update(filter=v))

    def dialog_priority(self, page: Page) -> Dialog:
        return self.choice(
            self.t("Priority"), PRIORITIES, page.args["priority"], lambda v: page.args.update(priority=v)
        )

    def dialog_due(self, page: Page) -> Dialog:
        return self.choice(self.t("Day"), DAYS, page.args["due"], lambda v: page.args.update(due=v))

    def _open(self, task: Row) -> None:
        args = {"id": task["_id"], "priority": task["priority"], "due": task["due"]}
        self.go("edit", focus="title", fields={"title": task["title"]}, **args)

    def _save(self, page: Page) -> None:
        values = {"title": page.fields["title"].strip(), "priority": page.args["priority"], "due": page.args["due"]}
        if not values["title"]:
            self.toast(self.t("A task needs a title"))
            return
        self.save(page, "tasks", values, "Task")
