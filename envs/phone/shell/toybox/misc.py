"""Small programs: `basename`, `dirname`, `realpath`, `seq`, `expr`, `id`, `uname`, `which` and others."""

from __future__ import annotations

import posixpath
import re
from fractions import Fraction

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.regex import compiled
from envs.phone.shell.regex_parser import RegexFault
from envs.phone.shell.toybox.call import Call, Program

_IDENTITY = (
    "uid=0(root) gid=0(root) groups=0(root),1004(input),1007(log),1011(adb),1015(sdcard_rw),1028(sdcard_r),"
    "1078(ext_data_rw),1079(ext_obb_rw),3001(net_bt_admin),3002(net_bt),3003(inet),3006(net_bw_stats),"
    "3009(readproc),3011(uhid),3012(readtracefs) context=u:r:su:s0\n"
)
_SYSTEM = {
    "s": "Linux",
    "n": "localhost",
    "r": "5.15.41-android13-8-00055-g4f5025129fe8-ab8949913",
    "v": "#1 SMP PREEMPT Mon Aug 15 18:33:14 UTC 2022",
    "m": "x86_64",
    "o": "Toybox",
}


def basename(call: Call) -> None:
    flags, names = call.options("as:", least=1)
    suffix = flags.get("s", "" if "a" in flags or len(names) < 2 else names[1])
    for name in names if "a" in flags or "s" in flags else names[:1]:
        base = posixpath.basename(name.rstrip("/")) or name[:1]
        call.out(f"{base.removesuffix(suffix) if base != suffix else base}\n")


def dirname(call: Call) -> None:
    for name in call.options("", least=1)[1]:
        stem = name.rstrip("/")
        folder = stem.rpartition("/")[0].rstrip("/")
        call.out(f"{folder or ('/' if name.startswith('/') else '.')}\n")


def realpath(call: Call) -> None:
    _, names = call.options("fenqmsz", least=1)
    for name in names:
        path = call.path(name)
        if files.exists(call.phone, path) or "f" in call.words[0] and files.exists(call.phone, posixpath.dirname(path)):
            call.out(f"{path}\n")
        else:
            call.wrong(f"{name}: No such file or directory")


def seq(call: Call) -> None:
    words, form = list(call.words), ""
    separator = "\n"
    while words and words[0][:2] in ("-w", "-s"):
        option = words.pop(0)
        if option == "-w":
            form = "w"
        else:
            separator = option[2:] or (words.pop(0) if words else separator)
    if not 1 <= len(words) <= 3:
        raise Failure(f'seq: Needs {1 if not words else "at most 3"} argument (see "seq --help")')
    numbers = []
    for word in words:
        if not re.fullmatch(r"-?\d{1,15}(?:\.\d{1,9})?", word):
            raise Failure(f"seq: bad number '{word}'")
        numbers.append(Fraction(word))
    first, step, last = {
        1: (Fraction(1), Fraction(1), *numbers),
        2: (numbers[0], Fraction(1), numbers[-1]),
        3: tuple(numbers),
    }[len(numbers)]
    places = max(len(w.partition(".")[2]) for w in words[:2] if len(words) > 1) if len(words) > 1 else 0
    width = max(len(f"{float(n):.{places}f}") for n in (first, last)) if form else 0
    if step == 0:
        raise Failure("seq: bad increment")
    count = int((last - first) / step) + 1 if (last - first) / step >= 0 else 0
    call.spend(count >> 1)
    shown = [
        f"{float(first + i * step):0{width}.{places}f}" if places else f"{int(first + i * step):0{width}d}"
        for i in range(count)
    ]
    call.out(separator.join(shown) + "\n" * bool(shown))


def identity(call: Call) -> None:
    flags, names = call.options("unGgrZ")
    if names and names[0] not in ("root", "0"):
        raise Failure(f"id: no user '{names[0]}'")
    if not flags:
        call.out(_IDENTITY)
    elif "Z" in flags:
        call.out("u:r:su:s0\n")
    else:
        call.out("root\n" if "n" in flags else "0\n")


def whoami(call: Call) -> None:
    call.out("root\n")


def uname(call: Call) -> None:
    flags, _ = call.options("asnrvmo")
    chosen = "snrvmo" if "a" in flags else [f for f in "snrvmo" if f in flags] or "s"
    call.out(" ".join(_SYSTEM[f] for f in chosen) + "\n")


def which(call: Call) -> None:
    call.code = 0
    for name in call.options("a", least=1)[1]:
        path = call.shell.commands.find(call.shell, name)
        if path:
            call.out(f"{path}\n")
        else:
            call.code = 1


def hostname(call: Call) -> None:
    call.out("localhost\n")


def printenv(call: Call) -> None:
    state = call.shell.state
    for name in call.words or sorted(state.exported):
        if name in state.exported and name in state.variables:
            call.out(f"{state.variables[name]}\n" if call.words else f"{name}={state.variables[name]}\n")
        else:
            call.code = 1


def nothing(call: Call) -> None:
    """`sync` and `clear`."""


class _Expr:
    """`expr`: one word is one token."""

    _LEVELS = (("|",), ("&",), ("=", "==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"), (":",))

    def __init__(self, call: Call) -> None:
        self._call, self._at, self._depth = call, 0, 0

    def value(self, level: int = 0) -> str:
        if level == len(self._LEVELS):
            return self._primary()
        left = self.value(level + 1)
        while self._at < len(self._call.words) and self._call.words[self._at] in self._LEVELS[level]:
            operator = self._call.words[self._at]
            self._at += 1
            left = self._apply(operator, left, self.value(level + 1))
        return left

    def finished(self) -> bool:
        return self._at == len(self._call.words)

    def _primary(self) -> str:
        words = self._call.words
        if self._at >= len(words):
            raise Failure("expr: syntax error", 2)
        word = words[self._at]
        self._at += 1
        if word != "(":
            return word
        self._depth += 1
        if self._depth > 20:
            raise Failure("expr: expression too complex", 2)
        inner = self.value()
        self._depth -= 1
        if self._at >= len(words) or words[self._at] != ")":
            raise Failure("expr: need )", 2)
        self._at += 1
        return inner

    def _apply(self, operator: str, left: str, right: str) -> str:
        if operator == "|":
            return left if left not in ("", "0") else right
        if operator == "&":
            return left if left not in ("", "0") and right not in ("", "0") else "0"
        if operator == ":":
            return self._matched(left, right)
        numbers = [int(v) for v in (left, right) if re.fullmatch(r"-?\d{1,18}", v)]
        if operator in ("=", "==", "!=", "<", "<=", ">", ">="):
            one, two = numbers if len(numbers) == 2 else (left, right)
            return str(
                int(
                    {
                        "=": one == two,
                        "==": one == two,
                        "!=": one != two,
                        "<": one < two,
                        "<=": one <= two,
                        ">": one > two,
                        ">=": one >= two,
                    }[operator]
                )
            )
        if len(numbers) < 2:
            raise Failure("expr: not an integer", 2)
        one, two = numbers
        if operator in "/%" and two == 0:
            raise Failure("expr: division by zero", 2)
        quotient = abs(one) // abs(two or 1) * (1 if (one < 0) == (two < 0) else -1)
        return str({"+": one + two, "-": one - two, "*": one * two, "/": quotient, "%": one - quotient * two}[operator])

    def _matched(self, text: str, source: str) -> str:
        try:
            pattern = compiled(source)
        except RegexFault as fault:
            raise Failure(f"expr: bad regexp: {fault}", 2) from None
        grouped = "\\(" in source
        ends = pattern.ends(text, self._call.spend)
        if not ends:
            return "" if grouped else "0"
        return pattern.groups(text, 0, ends[-1], self._call.spend)[1] if grouped else str(ends[-1])


def expr(call: Call) -> None:
    reader = _Expr(call)
    value = reader.value()
    if not reader.finished():
        raise Failure("expr: syntax error", 2)
    call.out(f"{value}\n")
    call.code = int(value in ("", "0"))


PROGRAMS: dict[str, Program] = {
    "basename": basename,
    "dirname": dirname,
    "realpath": realpath,
    "readlink": realpath,
    "seq": seq,
    "id": identity,
    "whoami": whoami,
    "uname": uname,
    "which": which,
    "hostname": hostname,
    "printenv": printenv,
    "expr": expr,
    "sync": nothing,
    "clear": nothing,
}
