"""`settings`: the three tables of system settings."""

from __future__ import annotations

from envs.phone.phone import DEFAULT_SETTINGS, Phone
from envs.phone.shell.command import Failure, Handler

SPACES = ("system", "secure", "global")


def run(phone: Phone, words: list[str]) -> str:
    if "--user" in words:
        at = words.index("--user")
        words = words[:at] + words[at + 2 :]
    if len(words) < 2:
        raise Failure("Bad arguments", 255)
    verb, space, *rest = words
    if space not in SPACES:
        raise Failure(f"Invalid namespace '{space}'", 255)
    table = phone.settings[space]
    counts = {"list": 0, "get": 1, "delete": 1, "put": 2, "reset": 1}
    if verb not in counts or len(rest) < counts[verb]:
        raise Failure("Bad arguments" if verb in counts else f"Invalid command: {verb}", 255)
    if verb == "list":
        return "".join(f"{key}={table[key]}\n" for key in sorted(table))
    if verb == "get":
        return f"{table.get(rest[0], 'null')}\n"
    if verb == "reset":
        if rest[0] == "trusted_defaults":
            phone.settings[space] = dict(DEFAULT_SETTINGS[space])
            phone.changed()
        return ""
    if verb == "delete":
        gone = table.pop(rest[0], None)
        phone.changed()
        return f"Deleted {int(gone is not None)} rows\n"
    table[rest[0]] = rest[1]
    phone.changed()
    return ""


COMMANDS: dict[str, Handler] = {"settings": run}
