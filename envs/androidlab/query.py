"""`adb_query`: a task's `adb shell ...` line -> the line its device's shell runs."""

from __future__ import annotations

import shlex

FAILED = "ERROR"
"""What AndroidLab's judges find in place of the output of a query that failed."""
_OPERATORS = "|&;<>()"


def device_line(query: str) -> str:
    """What reaches the device's shell when a host's shell runs `query`. Raises ValueError for anything but a pipeline.

    `adb shell 'getprop a.b'` sends `getprop a.b`: the host takes the quotes off. What follows a `|` runs on the host
    there; here the device runs it, which has the same `grep`.
    """
    lexer = shlex.shlex(query, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError as error:
        raise ValueError(f"is not a shell line ({error})") from None
    if tokens[:2] != ["adb", "shell"] or len(tokens) < 3:
        raise ValueError("must begin with `adb shell `")
    for token in tokens:
        if token and token != "|" and set(token) <= set(_OPERATORS):
            raise ValueError(f"uses `{token}`; only `|` is supported")
    pipe = tokens.index("|") if "|" in tokens else len(tokens)
    filters = [token if token == "|" else shlex.quote(token) for token in tokens[pipe:]]
    return " ".join(tokens[2:pipe] + filters)
