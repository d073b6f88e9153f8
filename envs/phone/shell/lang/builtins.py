"""The shell's builtin commands. Each takes the interpreter and its arguments and returns its exit code. The message of
a `Failure` is printed after the command's name."""

from __future__ import annotations

import operator
import posixpath
import re
import stat
from collections.abc import Callable

from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.lang.escapes import to_bytes, unescape
from mobilerl.envs.phone.shell.lang.parser import NAME
from mobilerl.envs.phone.shell.lang.state import Context, Exit, Sink

Builtin = Callable[[Context, list[str]], int]


def say(shell: Context, text: str) -> int:
    if not isinstance(shell.streams.get(1), Sink):
        raise Failure("write error: Bad file descriptor")
    shell.write(1, to_bytes(text))
    return 0


def echo(shell: Context, words: list[str]) -> int:
    """Escapes are interpreted unless `-E` is given, as in mksh."""
    newline, escapes, at = True, True, 0
    while at < len(words) and re.fullmatch("-[neE]+", words[at]):
        newline = newline and "n" not in words[at]
        escapes = {"e": True, "E": False}.get(words[at].replace("n", "")[-1:], escapes)
        at += 1
    text = " ".join(words[at:])
    return say(shell, (unescape(text) if escapes else text) + "\n" * newline)


def pwd(shell: Context, words: list[str]) -> int:
    return say(shell, f"{shell.state.cwd}\n")


def cd(shell: Context, words: list[str]) -> int:
    state = shell.state
    target = words[0] if words else state.variables.get("HOME", "/")
    path = "/" + posixpath.normpath(posixpath.join(state.cwd, target)).lstrip("/")
    real = files.normal(path)
    if not target or not files.is_folder(shell.phone, real):
        fault = "Not a directory" if real in shell.phone.files else "No such file or directory"
        raise Failure(f"{target}: {fault}", 2)
    state.assign("PWD", path)
    state.cwd = path
    return 0


def exit_(shell: Context, words: list[str]) -> int:
    if words and not re.fullmatch(r"\d{1,9}", words[0], re.ASCII):
        raise Failure(f"bad number: {words[0]}")
    raise Exit(int(words[0]) if words else shell.state.status)


def export(shell: Context, words: list[str]) -> int:
    """Only assigns the variables, since programs see all variables anyway."""
    for word in words:
        name, is_assignment, value = word.partition("=")
        if not re.fullmatch(NAME, name):
            raise Failure(f"{name}: is not an identifier")
        if is_assignment:
            shell.state.assign(name, value)
    return 0


def unset(shell: Context, words: list[str]) -> int:
    for name in words:
        shell.state.variables.pop(name, None)
    return 0


# --- test and [ --------------------------------------------------------------------------------------------------

_TEXTS = {"=": operator.eq, "==": operator.eq, "!=": operator.ne}
_NUMBERS = {f"-{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_KINDS = {"-f": stat.S_ISREG, "-d": stat.S_ISDIR, "-c": stat.S_ISCHR, "-x": lambda mode: mode & 0o111}
_UNARY = frozenset(("-n", "-z", "-e", "-r", "-w", "-s", "-h", "-L", *_KINDS))


def bracket(shell: Context, words: list[str]) -> int:
    if words[-1:] != ["]"]:
        raise Failure("missing ]", 2)
    return test(shell, words[:-1])


def test(shell: Context, words: list[str]) -> int:
    shell.budget.spend(2)
    return int(not _is_true(shell, words))


def _is_true(shell: Context, words: list[str]) -> bool:
    match words:
        case [] | [_]:
            return words not in ([], [""])
        case [left, op, right] if op in _TEXTS:
            return _TEXTS[op](left, right)
        case [left, op, right] if op in _NUMBERS:
            return bool(_NUMBERS[op](_number(left), _number(right)))
        case ["!", *rest]:
            return not _is_true(shell, rest)
        case [flag, word] if flag in _UNARY:
            return _holds(shell, flag, word)
    for joint in ("-o", "-a"):
        if joint in words[1:-1]:
            at = words.index(joint, 1)
            sides = [_is_true(shell, side) for side in (words[:at], words[at + 1 :])]
            return any(sides) if joint == "-o" else all(sides)
    raise Failure(f"{words[0]}: unexpected operator/operand", 2)


def _number(word: str) -> int:
    if not re.fullmatch(r"\s*[-+]?\d{1,18}\s*", word, re.ASCII):
        raise Failure(f"{word}: bad number", 2)
    return int(word)


def _holds(shell: Context, flag: str, word: str) -> bool:
    if flag in ("-n", "-z"):
        return (word != "") == (flag == "-n")
    phone, path = shell.phone, shell.state.path(word)
    if word == "" or not files.exists(phone, path):
        return False
    if flag in _KINDS:
        return bool(_KINDS[flag](files.mode(phone, path)))
    if flag == "-s":
        return files.size(phone, path) > 0
    if flag == "-w":
        return not files.read_only(path) or path in files.DEVICES
    return flag in ("-e", "-r")


BUILTINS: dict[str, Builtin] = {
    **{"echo": echo, "cd": cd, "test": test, "[": bracket, "export": export, "unset": unset, "exit": exit_},
    "pwd": pwd,
    **dict.fromkeys((":", "true", "wait"), lambda shell, words: 0),
    "false": lambda shell, words: 1,
}
