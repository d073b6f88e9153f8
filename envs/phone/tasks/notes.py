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
        "[Create|Write|Add] a [|new ]note [titled|called|named] {title} [with the text|that says] {body}",
        "In Notes write {body} under the title {title}",
        "Write {body} in a new note [with the title|titled] {title}",
    )
    script = ("New note", Type("{title}"), tap_field("Note"), Type("{body}"), "Save")
    done = adds(title="{title}", body="{body}", pinned=0)


class NotesDelete(_OneNote):
    instructions = (
        "[Delete|Remove|Erase] the note {title}",
        "[Remove|Delete] {title} from Notes",
        "In Notes [delete|remove] {title}",
        "Get rid of the note {title}[ in Notes|]",
        "I do not need the note {title} [any longer|any more], delete it",
    )
    script = ("{title}", "Delete", "Delete")
    done = deletes


class NotesPin(_OneNote):
    demo = False
    instructions = (
        "Pin the note {title}[ in Notes|]",
        "[In|Go to] Notes and pin {title}",
        "The note {title} should be pinned[ in Notes|]",
        "Pin {title} in [Notes|the Notes app]",
        "Open the note {title} and pin it",
        "[Mark|Set] the note {title} as pinned",
    )
    script = ("{title}", "Pin")
    done = edits(pinned=1)


class NotesRead(_OneNote):
    instructions = (
        "What does [the|my] note {title} say?",
        "What is in [the|my] note {title}?",
        "[Tell me|Look up] the text of the note {title}[ in Notes|]",
        "What text [has|is in] the note {title}?",
        "[Find|Open] the note {title} and tell me what it says",
    )
    script = ()
    answer = "{body}"


class NotesShare(_OneNote):
    """Notes has no sharing: the right answer is that it cannot be done."""

    instructions = (
        "[Share|Send] the note {title} by email",
        "[Email|Send an email with] the note {title}[ from Notes|]",
        "I want to [share|send] [the|my] note {title} by email",
        "[Share|Send] {title} from Notes by email",
    )
    script = ("{title}",)
    answer = INFEASIBLE
    done = unchanged
