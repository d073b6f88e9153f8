"""The shell's own commands. Each gets the interpreter and its words and gives its exit code; a `Failure`'s message is
printed behind the command's name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.conditions import bracket, test
from envs.phone.shell.lang.escapes import echoed
from envs.phone.shell.lang.interpret import Interpreter, KeepStreams
from envs.phone.shell.lang.parser import RESERVED
from envs.phone.shell.lang.state import OPTIONS, Leave, ShellFault
from envs.phone.shell.lang.streams import Sink, Source, reading, to_bytes, to_text

Builtin = Callable[[Interpreter, list[str]], int]
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def say(shell: Interpreter, text: str) -> int:
    if not isinstance(shell.streams.get(1), Sink):
        raise Failure("write error: Bad file descriptor")
    shell.write(1, to_bytes(text))
    return 0


def cd(shell: Interpreter, words: list[str]) -> int:
    state = shell.state
    words = [w for w in words if w not in ("-L", "-P", "--")]
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
    shell.flush()
    real = files.normal(path)
    if not files.is_folder(shell.phone, real):
        what = "Not a directory" if real in shell.phone.files else "No such file or directory"
        raise Failure(f"{target}: {what}", 2)
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
    shell.state.exported.update(_assign(shell, word, "export") for word in words if word not in ("--", "-p"))
    return 0 if words else say(shell, "".join(f"{name}\n" for name in sorted(shell.state.exported)))


def readonly(shell: Interpreter, words: list[str]) -> int:
    shell.state.readonly.update(_assign(shell, word, "readonly") for word in words if word not in ("--", "-p"))
    return 0


def _assign(shell: Interpreter, word: str, command: str) -> str:
    """Carries out `name` or `name=value`; the name."""
    name, equals, value = word.partition("=")
    append = name.endswith("+") and equals
    name = name[:-1] if append else name
    if not _NAME.fullmatch(name):
        raise ShellFault(f"{command}: {word}: is not an identifier")
    if equals:
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
                shell.state.unset(name)
        _assign(shell, word, "typeset")
    return 0


def unset(shell: Interpreter, words: list[str]) -> int:
    functions = words[:1] == ["-f"]
    for name in words[1:] if words[:1] in (["-f"], ["-v"]) else words:
        if not _NAME.fullmatch(name):
            raise ShellFault(f"unset: {name}: is not an identifier")
        if functions:
            shell.state.functions.pop(name, None)
        else:
            shell.state.unset(name)
    return 0


def set_(shell: Interpreter, words: list[str]) -> int:
    state = shell.state
    if not words:
        return say(shell, "".join(f"{n}={_quoted(v)}\n" for n, v in sorted(state.variables.items())))
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
            elif letter not in "hmbo":
                raise ShellFault(f"set: -{letter}: unknown option")
    if at < len(words) or words[-1] == "--":
        state.parameters = words[at:]
    return 0


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w@%+=:,./-]+", value, re.ASCII) else "'" + value.replace("'", "'\\''") + "'"


def shift(shell: Interpreter, words: list[str]) -> int:
    count = _number(words, "shift", 1)
    if not 0 <= count <= len(shell.state.parameters):
        raise ShellFault("shift: nothing to shift")
    del shell.state.parameters[:count]
    return 0


def read(shell: Interpreter, words: list[str]) -> int:
    raw = False
    while words and words[0].startswith("-") and len(words[0]) > 1:
        raw = raw or "r" in words[0]
        option, words = words[0], words[1:]
        if option.endswith(("p", "n", "N", "t", "u", "d")):
            words = words[1:]
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
    names = words or ["REPLY"]
    fields = _read_fields(line, len(names), shell.state.variables.get("IFS", " \t\n"), raw)
    for name, value in zip(names, fields, strict=True):
        if not _NAME.fullmatch(name):
            raise Failure(f"{name}: is not an identifier")
        shell.state.assign(name, value)
    return 0 if ended else 1


def _read_fields(line: str, count: int, separators: str, raw: bool) -> list[str]:
    """The line cut at IFS; the last name gets the rest."""
    white = "".join(c for c in separators if c in " \t\n")
    line = line.strip(white)
    white = re.escape(white)
    other = re.escape("".join(c for c in separators if c not in " \t\n"))
    space = f"[{white}]*" if white else ""
    char = f"[^{white}{other}]" if separators else "."
    text = f"((?:{char})*)" if raw else rf"((?:\\.|(?!\\){char})*)"
    field = re.compile(f"{text}{space}[{other}]{space}|{text}{space}" if other else text + space, re.DOTALL)
    found: list[str] = []
    while len(found) < count - 1:
        cut = field.match(line)
        assert cut is not None
        found.append(cut[cut.lastindex or 1])
        line = line[cut.end() :]
    if other and (whole := field.fullmatch(line)):
        line = whole[whole.lastindex or 1]
    return [*found, line] if raw else [re.sub(r"\\(.?)", r"\1", one) for one in [*found, line]]


def eval_(shell: Interpreter, words: list[str]) -> int:
    with shell.deeper():
        return shell.script(" ".join(words))


def source(shell: Interpreter, words: list[str]) -> int:
    if not words:
        raise ShellFault(".: missing argument")
    try:
        text = to_text(reading(shell, words[0]).read())
    except Failure as failure:
        raise ShellFault(f".: {words[0]}: {str(failure).rpartition(': ')[2]}") from None
    outer = shell.state.parameters
    if words[1:]:
        shell.state.parameters = words[1:]
    shell.functions += 1
    try:
        with shell.deeper():
            return shell.script(text)
    except Leave as leave:
        if leave.kind != "return":
            raise
        return leave.value
    finally:
        shell.functions -= 1
        shell.state.parameters = outer


def exec_(shell: Interpreter, words: list[str]) -> int:
    """Without a command, the redirections of this line stay."""
    if not words:
        raise KeepStreams
    raise Leave("exit", shell.command(words, functions=False))


def command(shell: Interpreter, words: list[str]) -> int:
    if words[:1] in (["-v"], ["-V"]):
        return max([_describe(shell, word) for word in words[1:]], default=0)
    words = words[1:] if words[:1] in (["-p"], ["--"]) else words
    return shell.command(words, functions=False) if words else 0


def _describe(shell: Interpreter, name: str) -> int:
    own = name in RESERVED or name in shell.state.functions or name in BUILTINS
    shown = name if own else shell.commands.find(shell, name)
    return say(shell, f"{shown}\n") if shown else 1


BUILTINS: dict[str, Builtin] = {
    "echo": lambda shell, words: say(shell, echoed(words)),
    "pwd": lambda shell, words: say(shell, f"{shell.state.cwd}\n"),
    **dict.fromkeys((":", "true", "wait"), lambda shell, words: 0),
    "false": lambda shell, words: 1,
    **{"cd": cd, "read": read, "test": test, "[": bracket},
    **{"exit": exit_, "return": return_, "break": _leave_loop("break"), "continue": _leave_loop("continue")},
    **dict.fromkeys(("local", "typeset", "declare"), local),
    **{"export": export, "readonly": readonly, "unset": unset, "set": set_, "shift": shift},
    **{"eval": eval_, ".": source, "source": source, "exec": exec_, "command": command},
}
