"""The shell's own commands. Each takes the interpreter and its arguments and returns its exit code; the message of a
`Failure` is printed behind the command's name."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.conditions import bracket, test
from envs.phone.shell.lang.escapes import to_bytes, to_text, unescaped
from envs.phone.shell.lang.expand import BLANKS, field_separator
from envs.phone.shell.lang.parser import RESERVED
from envs.phone.shell.lang.state import OPTIONS, Leave, ShellFault, Sink, Source, reading
from envs.phone.shell.lang.words import NAME

if TYPE_CHECKING:
    from envs.phone.shell.lang.interpret import Interpreter

Builtin = Callable[["Interpreter", list[str]], int]


def say(shell: Interpreter, text: str) -> int:
    if not isinstance(shell.streams.get(1), Sink):
        raise Failure("write error: Bad file descriptor")
    shell.write(1, to_bytes(text))
    return 0


def echo(shell: Interpreter, words: list[str]) -> int:
    """As in mksh, escapes are resolved unless `-E` is given."""
    newline, escapes, at = True, True, 0
    while at < len(words) and re.fullmatch("-[neE]+", words[at]):
        newline = newline and "n" not in words[at]
        escapes = {"e": True, "E": False}.get(words[at].replace("n", "")[-1:], escapes)
        at += 1
    text, stopped = " ".join(words[at:]), False
    if escapes:
        text, stopped = unescaped(text, echo=True)
    return say(shell, text + "\n" if newline and not stopped else text)


def cd(shell: Interpreter, words: list[str]) -> int:
    state = shell.state
    if len(words) > 1:
        raise Failure(f"bad substitution: '{words[0]}' not in '{state.cwd}'", 2)
    target = words[0] if words else state.variables.get("HOME", "")
    if target == "-":
        target = state.variables.get("OLDPWD", "")
        if not target:
            raise Failure("no OLDPWD", 2)
        say(shell, f"{target}\n")
    if not target:
        raise Failure("no home directory" if not words else ": No such file or directory", 2)
    path = "/" + posixpath.normpath(posixpath.join(state.cwd, target)).lstrip("/")
    real = files.normal(path)
    if not files.is_folder(shell.phone, real):
        fault = "Not a directory" if real in shell.phone.files else "No such file or directory"
        raise Failure(f"{target}: {fault}", 2)
    state.assign("OLDPWD", state.cwd)
    state.assign("PWD", path)
    state.cwd = path
    return 0


def _number(words: list[str], command: str, default: int) -> int:
    if words and not re.fullmatch(r"-?\d{1,18}", words[0], re.ASCII):
        raise ShellFault(f"{command}: bad number: {words[0]}")
    return int(words[0]) if words else default


def exit_(shell: Interpreter, words: list[str]) -> int:
    raise Leave("exit", _number(words, "exit", shell.state.status))


def return_(shell: Interpreter, words: list[str]) -> int:
    raise Leave("return" if shell.functions else "exit", _number(words, "return", shell.state.status) & 0xFF)


def _leave_loop(kind: str) -> Builtin:
    def leave(shell: Interpreter, words: list[str]) -> int:
        value = _number(words, kind, 1)
        if value < 1:
            raise ShellFault(f"{kind}: {value}: bad value")
        if not shell.loops:
            shell.complain(f"{kind}: can't {kind}")
            return 0
        raise Leave(kind, value)

    return leave


def export(shell: Interpreter, words: list[str]) -> int:
    shell.state.exported.update(_assign(shell, word, "export") for word in words)
    return 0


def _assign(shell: Interpreter, word: str, command: str) -> str:
    """Carries out `name`, `name=value` or `name+=value`, and returns the name."""
    found = re.fullmatch(rf"({NAME})(?:(\+?)=(.*))?", word, re.DOTALL)
    if found is None:
        raise ShellFault(f"{command}: {word}: is not an identifier")
    name, append, value = found.groups()
    if value is not None:
        shell.state.assign(name, shell.state.variables.get(name, "") + value if append else value)
    return name


def local(shell: Interpreter, words: list[str]) -> int:
    for word in words:
        if word.startswith("-"):
            continue
        name = word.partition("=")[0].removesuffix("+")
        if shell.locals and name not in shell.locals[-1]:
            shell.locals[-1][name] = shell.state.variables.get(name)
            if "=" not in word:
                shell.state.variables.pop(name, None)
        _assign(shell, word, "typeset")
    return 0


def unset(shell: Interpreter, words: list[str]) -> int:
    """`unset NAME ...` and `unset -f FUNCTION ...`."""
    functions = words[:1] == ["-f"]
    for name in words[functions:]:
        if functions:
            shell.state.functions.pop(name, None)
        else:
            shell.state.variables.pop(name, None)
            shell.state.exported.discard(name)
    return 0


def set_(shell: Interpreter, words: list[str]) -> int:
    state = shell.state
    if not words:
        return say(shell, "".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(state.variables.items())))
    at = 0
    while at < len(words) and re.match(r"[-+].", words[at]):
        word = words[at]
        at += 1
        if word == "--":
            break
        change = state.options.add if word[0] == "-" else state.options.discard
        for letter in word[1:]:
            if letter == "o" and at < len(words):
                change(words[at])
                at += 1
            elif letter in OPTIONS:
                change(OPTIONS[letter])
            else:
                raise ShellFault(f"set: -{letter}: unknown option")
    if at < len(words) or words[-1] == "--":
        state.parameters = words[at:]
    return 0


def shift(shell: Interpreter, words: list[str]) -> int:
    count = _number(words, "shift", 1)
    if not 0 <= count <= len(shell.state.parameters):
        raise ShellFault("shift: nothing to shift")
    del shell.state.parameters[:count]
    return 0


def read(shell: Interpreter, words: list[str]) -> int:
    """`read [-r] [NAME ...]`."""
    raw = words[:1] == ["-r"]
    names = words[raw:] or ["REPLY"]
    source = shell.streams.get(0)
    if not isinstance(source, Source):
        raise Failure("Bad file descriptor")
    line, ended = "", False
    while chunk := to_text(source.line()):
        ended = chunk.endswith("\n")
        line += chunk.removesuffix("\n")
        if raw or len(line) - len(line.rstrip("\\")) & 1 == 0 or not ended:
            break
        line, ended = line[:-1], False
    shell.budget.spend(len(line) >> 8)
    separators = shell.state.variables.get("IFS", BLANKS)
    line = line.strip("".join(c for c in separators if c in BLANKS))
    line = line if raw else re.sub(r"\\(.?)", r"\1", line)
    cuts = len(names) - 1
    fields = re.split(field_separator(separators), line, maxsplit=cuts) if separators and cuts else [line]
    for name, value in zip_longest(names, fields, fillvalue=""):
        if not re.fullmatch(NAME, name):
            raise Failure(f"{name}: is not an identifier")
        shell.state.assign(name, value)
    return 0 if ended else 1


def eval_(shell: Interpreter, words: list[str]) -> int:
    return shell.script(" ".join(words))


def source(shell: Interpreter, words: list[str]) -> int:
    if not words:
        raise ShellFault(".: missing argument")
    try:
        text = to_text(reading(shell, words[0]).read())
    except Failure as failure:
        raise ShellFault(f".: {words[0]}: {failure.reason}") from None
    return shell.returning(lambda: shell.script(text), words[1:] or shell.state.parameters)


def exec_(shell: Interpreter, words: list[str]) -> int:
    """Without a command, the redirections of this line stay in force."""
    if not words:
        shell.keeping = True
        return 0
    raise Leave("exit", shell.command(words, functions=False))


def command(shell: Interpreter, words: list[str]) -> int:
    if words[:1] == ["-v"]:
        return max([_describe(shell, word) for word in words[1:]], default=0)
    return shell.command(words, functions=False) if words else 0


def _describe(shell: Interpreter, name: str) -> int:
    own = name in RESERVED or name in shell.state.functions or name in BUILTINS
    shown = name if own else shell.find(name)
    return say(shell, f"{shown}\n") if shown else 1


BUILTINS: dict[str, Builtin] = {
    **{"echo": echo, "cd": cd, "read": read, "test": test, "[": bracket},
    "pwd": lambda shell, words: say(shell, f"{shell.state.cwd}\n"),
    **dict.fromkeys((":", "true", "wait"), lambda shell, words: 0),
    "false": lambda shell, words: 1,
    **{"exit": exit_, "return": return_, "break": _leave_loop("break"), "continue": _leave_loop("continue")},
    **{"local": local, "typeset": local, "export": export, "unset": unset, "set": set_, "shift": shift},
    **{"eval": eval_, ".": source, "source": source, "exec": exec_, "command": command},
}
