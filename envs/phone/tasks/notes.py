"""Tasks of the Notes app."""

from __future__ import annotations

from mobilerl.envs.phone.tasks.base import INFEASIBLE, RowTemplate, Type
from mobilerl.envs.phone.tasks.helpers import adds, deletes, edits, tap_field, unchanged
from mobilerl.envs.phone.words import NOTE_LINES, NOTE_TITLES

NOTES = "notes/notes"


class _NoNote(RowTemplate):
    """No note of the given title exists."""

    app = "Notes"
    table = NOTES
    unique = ("title",)
    params = {"title": NOTE_TITLES, "body": NOTE_LINES}


class _OneNote(_NoNote):
    """A note of the given title exists exactly once, between others."""

    new_row = {"title": "{title}", "body": "{body}"}


class NotesCreate(_NoNote):
    instructions = (
        "Create a note titled {title} with the text {body}",
        "In Notes write {body} under the title {title}",
    )
    script = ("New note", Type("{title}"), tap_field("Note"), Type("{body}"), "Save")
    done = adds(title="{title}", body="{body}", pinned=0)


class NotesDelete(_OneNote):
    instructions = ("Delete the note {title}", "Remove {title} from Notes")
    script = ("{title}", "Delete", "Delete")
    done = deletes


class NotesPin(_OneNote):
    demo = False
    instructions = ("Pin the note {title}",)
    script = ("{title}", "Pin")
    done = edits(pinned=1)


class NotesRead(_OneNote):
    instructions = ("What does the note {title} say?",)
    script = ()
    answer = "{body}"


class NotesShare(_OneNote):
    """Notes has no sharing: the right answer is that it cannot be done."""

    instructions = ("Share the note {title} by email",)
    script = ("{title}",)
    answer = INFEASIBLE
    done = unchanged
