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
    instructions = (
        "[Mark|Set] the task {title} as [done|finished]",
        "[In Tasks tick|Tick] off [the task |]{title}",
        "The task {title} is [done|finished], [tick it off|mark it as done]",
    )
    script = ("Done {title}",)
    done = edits(done=1)


class TodoReopen(_OneTask):
    """The list shows open tasks only: the filter has to be changed first."""

    demo = False
    new_row = {**_OneTask.new_row, "done": 1}
    instructions = (
        "[Mark|Set] the [done|finished] task {title} as not [done|finished]",
        "Reopen the [done|finished] task {title}[ in Tasks|]",
        "[Untick|Unmark] the done task {title}",
    )
    script = ("Filter", "Done", "Done {title}")
    done = edits(done=0)

    def setup(self, phone: Admin) -> None:
        super().setup(phone)
        phone.update("tasks/prefs", 1, filter="Open")


class TodoAdd(_Tasks):
    instructions = (
        "Add the task {title} with {priority} priority",
        "[Add|Create] a [|new ]task {title} with {priority} priority",
        "[Create|Add] a {priority} priority task {title}",
        "In Tasks [add|create] {title} with {priority} priority",
        "New task[ in Tasks|]: {title}, {priority} priority",
    )
    script = ("New task", Type("{title}"), "Priority", "{priority}", "Save")
    done = adds(title="{title}", done=0, priority="{priority}", due="No day")


class TodoAddDue(_Tasks):
    instructions = (
        "Add the task {title} with {priority} priority for {due}",
        "[Add|Create] a [|new ]task {title} with {priority} priority, due on {due}",
        "[Create|Add] a {priority} priority task {title} [for|due on] {due}",
        "In Tasks [add|create] {title} with {priority} priority for {due}",
        "New task: {title}, {priority} priority, due on {due}",
    )
    script = ("New task", Type("{title}"), "Priority", "{priority}", "Day", "{due}", "Save")
    done = adds(title="{title}", done=0, priority="{priority}", due="{due}")


class TodoPriority(_OneTask):
    split = "dev"
    instructions = (
        "[Change|Set] the priority of [the task |]{title} to {priority}",
        "Give the task {title} {priority} priority",
        "The [task {title} should have {priority} priority|priority of the task {title} should be {priority}]",
        "[Make|Mark] {title} a {priority} priority task",
        "In Tasks [set|change] the priority of {title} to {priority}",
    )
    script = ("{title}", "Priority", "{priority}", "Save")
    done = edits(priority="{priority}")


class TodoDelete(_OneTask):
    demo = False
    instructions = (
        "[Delete|Remove|Erase] the task {title}",
        "[Remove|Delete] {title} from [Tasks|my tasks]",
        "Get rid of the task {title}",
        "I do not need the task {title} [any more|any longer], delete it",
        "In Tasks delete {title}",
    )
    script = ("{title}", "Delete")
    done = deletes


class TodoDue(_OneTask):
    instructions = (
        "[On which|Which|On what] day is the task {title} due?",
        "[Which|What] day is set for the task {title}?",
        "When is [the task |]{title} due?",
        "[Tell me|Look up] the day of the task {title}",
        "What [day|deadline] has the task {title}[ in Tasks|]?",
    )
    script = ()
    answer = "{due}"


class TodoAssign(_OneTask):
    """Tasks belong to no one: the right answer is that it cannot be done."""

    instructions = (
        "[Assign|Give] the task {title} to {name}",
        "[Give|Assign] {name} the task {title}[ in Tasks|]",
        "Make {name} the owner of the task {title}",
        "{name} should [do|have|get] the task {title}, assign it",
    )
    params = {**_OneTask.params, "name": FIRST_NAMES}
    script = ("{title}",)
    answer = INFEASIBLE
    done = unchanged
