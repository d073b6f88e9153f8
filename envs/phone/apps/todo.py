"""Tasks: things to do, with a priority and a day, ticked off when done."""

from __future__ import annotations

import random
from collections.abc import Callable

from envs.phone.app import App, Page, Row
from envs.phone.ui import Dialog, Handler, Node, Screen
from envs.phone.widgets import fab, field, icon_button, item, label, radio_item, text_button
from envs.phone.words import NOTE_LINES, WEEKDAYS

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

    def populate(self, rng: random.Random) -> None:
        for title in rng.sample(NOTE_LINES, 5):
            self.insert("tasks", title=title, done=int(rng.random() < 0.3), priority=rng.choice(PRIORITIES),
                        due=rng.choice(DAYS))  # fmt: skip

    def shown(self) -> list[Row]:
        """The tasks that pass the filter, open ones first."""
        passes = {
            "All": lambda t: True,
            "Open": lambda t: not t["done"],
            "Done": lambda t: t["done"],
            "High": lambda t: t["priority"] == "High",
        }[self.prefs["filter"]]
        return sorted(filter(passes, self.db["tasks"]), key=lambda t: (t["done"], t["_id"]))

    # --- pages -----------------------------------------------------------------------------------------------

    def page_main(self, page: Page) -> Screen:
        chosen = self.prefs["filter"]
        body = [self._row(task) for task in self.shown()] or [label("No tasks")]
        new = fab("plus", "New task", lambda: self.go("edit", focus="title", priority="Normal", due="No day"))
        actions = [icon_button("filter", "Filter", lambda: self.open_dialog("filter"))]
        return Screen("Tasks" if chosen == "All" else f"{chosen} tasks", body, actions, fab=new)

    def _row(self, task: Row) -> Node:
        box = Node(cls="android.widget.CheckBox", desc=f"Done {task['title']}", look="checkbox", width=32, height=32,
                   checkable=True, checked=bool(task["done"]),
                   on_tap=lambda: task.update(done=1 - task["done"]))  # fmt: skip
        row = item(task["title"], f"{task['priority']}, {task['due']}", on_tap=lambda: self._open(task))
        row.children.insert(0, box)
        return row

    def page_edit(self, page: Page) -> Screen:
        body = [
            field("title", "Title"),
            item("Priority", page.args["priority"], on_tap=lambda: self.open_dialog("priority")),
            item("Day", page.args["due"], on_tap=lambda: self.open_dialog("due")),
        ]
        actions = [icon_button("check", "Save", lambda: self._save(page))]
        if "id" in page.args:
            actions.insert(0, icon_button("trash", "Delete", lambda: self._delete(page)))
        return Screen("Edit task" if "id" in page.args else "New task", body, actions, on_up=self.up)

    # --- dialogs ---------------------------------------------------------------------------------------------

    def dialog_filter(self, page: Page) -> Dialog:
        return self._choice("Show", FILTERS, self.prefs["filter"], lambda v: self.prefs.update(filter=v))

    def dialog_priority(self, page: Page) -> Dialog:
        return self._choice("Priority", PRIORITIES, page.args["priority"], lambda v: page.args.update(priority=v))

    def dialog_due(self, page: Page) -> Dialog:
        return self._choice("Day", DAYS, page.args["due"], lambda v: page.args.update(due=v))

    def _choice(self, title: str, names: tuple[str, ...], chosen: str, on_choice: Callable[[str], None]) -> Dialog:
        def choose(name: str) -> Handler:
            def handler() -> None:
                self.close_dialog()
                on_choice(name)

            return handler

        rows = [radio_item(name, name == chosen, choose(name)) for name in names]
        return Dialog(title, rows, [text_button("Cancel", self.close_dialog)])

    # --- changes ---------------------------------------------------------------------------------------------

    def _open(self, task: Row) -> None:
        self.go("edit", focus="title", fields={"title": task["title"]}, id=task["_id"], priority=task["priority"],
                due=task["due"])  # fmt: skip

    def _save(self, page: Page) -> None:
        values = {"title": page.fields["title"].strip(), "priority": page.args["priority"], "due": page.args["due"]}
        if not values["title"]:
            self.toast("A task needs a title")
            return
        task = self.get("tasks", page.args.get("id", 0))
        if task is None:
            self.insert("tasks", **values)
        else:
            task.update(values)
        self.up()
        self.toast("Task saved")

    def _delete(self, page: Page) -> None:
        self.remove("tasks", page.args["id"])
        self.up()
        self.toast("Task deleted")
