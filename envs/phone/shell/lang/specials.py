"""`$?`, `$#`, `$RANDOM` and the other parameters that no assignment made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envs.phone.phone import EPOCH

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

OPTION_LETTERS = {"allexport": "a", "errexit": "e", "noglob": "f", "nounset": "u", "xtrace": "x"}


def special(shell: Interpreter, name: str) -> str | None:
    """The value, or None where there is no such parameter. `$RANDOM` repeats from session to session."""
    state = shell.state
    if name == "?":
        return str(state.status)
    if name == "#":
        return str(len(state.parameters))
    if name in "$!":
        return str(state.pid)
    if name == "-":
        return "h" + "".join(sorted(OPTION_LETTERS[o] for o in state.options if o in OPTION_LETTERS))
    if name == "PPID":
        return str(state.pid - 1)
    if name == "SECONDS":
        return str(max(0, round((shell.phone.now - EPOCH).total_seconds())))
    if name == "RANDOM":
        state.random = (state.random * 1103515245 + 12345) & 0x7FFFFFFF
        return str(state.random >> 16 & 0x7FFF)
    if name in ("USER_ID", "KSHUID"):
        return "0"
    return None
