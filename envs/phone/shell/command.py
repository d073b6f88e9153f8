"""Commands of Android: functions of the phone and the arguments that return the output or raise `Failure`."""

from __future__ import annotations

from collections.abc import Callable

from mobilerl.envs.phone.phone import Phone

Handler = Callable[[Phone, list[str]], str | bytes]


class Failure(Exception):
    """The error of a command. The message goes to stderr; `stdout` holds the output before it."""

    def __init__(self, message: str = "", exit_code: int = 1, stdout: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stdout = stdout

    @property
    def reason(self) -> str:
        """The message without the names of command and file."""
        return str(self).rpartition(": ")[2]


def dispatch(**verbs: Handler) -> Handler:
    """A command whose first argument selects the handler for the others."""

    def run(phone: Phone, words: list[str]) -> str | bytes:
        if not words or words[0] not in verbs:
            raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
        return verbs[words[0]](phone, words[1:])

    return run


def number(word: str, command: str) -> float:
    """Parses an argument as a number. Raises `Failure` if it is not a finite number."""
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not abs(value) < 1e9:
        raise Failure(f"Error: Invalid number for {command}: {word}", 255)
    return value


def option(words: list[str], name: str, default: str = "") -> str:
    """The argument after `name`, or `default` if the option is not given."""
    if name not in words:
        return default
    at = words.index(name) + 1
    if at == len(words):
        raise Failure(f'Error: Argument expected after "{name}"', 255)
    return words[at]
