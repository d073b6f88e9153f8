"""Tasks of the to-do app, which is called Tasks."""

from __future__ import annotations

from mobilerl.envs.phone.tasks.base import INFEASIBLE, Admin, RowTemplate, Type
from mobilerl.envs.phone.tasks.helpers import adds, deletes, edits, unchanged
from mobilerl.envs.phone.words import FIRST_NAMES, NOTE_LINES, WEEKDAYS


class _Tasks(RowTemplate):
    """No task of the given title exists."""

    app = "Tasks"
    table = "tasks/tasks"
    unique = ("title",)
    params = {"title": NOTE_LINES, "priority": ("High", "Low"), "due": WEEKDAYS}


class _OneTask(_Tasks):
    """One task of the given title exists, between others."""

    new_row = {"title": "{title}", "due": "{due}", "done": 0}


class TodoComplete(_OneTask):
    instructions = ("Mark the task {title} as done", "In Tasks tick off {title}")
    script = ("Done {title}",)
    done = edits(done=1)


class TodoReopen(_OneTask):
    """The list shows open tasks only: the filter has to be changed first."""

    demo = False
    new_row = {**_OneTask.new_row, "done": 1}
    instructions = ("Mark the done task {title} as not done", "Reopen the done task {title}")
    script = ("Filter", "Done", "Done {title}")
    done = edits(done=0)

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.update("tasks/prefs", 1, filter="Open")


class TodoAdd(_Tasks):
    instructions = ("Add the task {title} with {priority} priority", "Create a {priority} priority task {title}")
    script = ("New task", Type("{title}"), "Priority", "{priority}", "Save")
    done = adds(title="{title}", done=0, priority="{priority}", due="No day")


class TodoAddDue(_Tasks):
    instructions = (
        "Add the task {title} with {priority} priority for {due}",
        "Create a {priority} priority task {title} due on {due}",
    )
    script = ("New task", Type("{title}"), "Priority", "{priority}", "Day", "{due}", "Save")
    done = adds(title="{title}", done=0, priority="{priority}", due="{due}")


class TodoPriority(_OneTask):
    split = "test"
    instructions = (
        "Change the priority of the task {title} to {priority}",
        "Give the task {title} {priority} priority",
    )
    script = ("{title}", "Priority", "{priority}", "Save")
    done = edits(priority="{priority}")


class TodoDelete(_OneTask):
    demo = False
    instructions = ("Delete the task {title}", "Remove {title} from Tasks")
    script = ("{title}", "Delete")
    done = deletes


class TodoDue(_OneTask):
    instructions = ("On which day is the task {title} due?", "Which day is set for the task {title}?")
    script = ()
    answer = "{due}"


class TodoAssign(_OneTask):
    """Tasks belong to no one: the right answer is that it cannot be done."""

    instructions = ("Assign the task {title} to {name}",)
    params = {**_OneTask.params, "name": FIRST_NAMES}
    script = ("{title}",)
    answer = INFEASIBLE
    done = unchanged
