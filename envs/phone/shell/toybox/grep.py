"""`grep`, `egrep` and `fgrep`."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterator, Sequence

from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.regex import MAX_LINE, Pattern, compile_patterns
from mobilerl.envs.phone.shell.toybox.call import Call, Flags, Program, lines_of

_OPTIONS = "A:B:C:EFHILRace:f:hilm:noqrsvwx"


def grep(call: Call) -> None:
    """Exit code 0 if a line was selected, 1 if none was, 2 after an error."""
    try:
        given, operands = call.parse_repeated(_OPTIONS)
        flags = dict(given)
        sources = [line for name, value in given for line in _sources(call, name, value)]
        if not {"e", "f"} & flags.keys():
            if not operands:
                raise Failure(f"{call.name}: no REGEX")
            sources, operands = operands[0].split("\n"), operands[1:]
        extended, fixed = "E" in flags or call.name == "egrep", "F" in flags or call.name == "fgrep"
        different = tuple(dict.fromkeys(sources))
        pattern = compile_patterns(different, extended, "i" in flags, fixed, "w" in flags, "x" in flags)
        _grep(call, flags, pattern, operands)
    except Failure as failure:
        raise Failure(str(failure), 2) from None


def _sources(call: Call, name: str, value: str) -> Sequence[str]:
    """The expressions of an option `-e` or `-f`, one a line."""
    return value.split("\n") if name == "e" else lines_of(call.read(value)) if name == "f" else ()


def _grep(call: Call, flags: Flags, pattern: Pattern, operands: list[str]) -> None:
    recursive = "r" in flags or "R" in flags
    several = len(operands) > 1 or recursive and any(_is_folder(call, word) for word in operands or ["."])
    titled = "H" in flags or several and "h" not in flags
    selected = False
    for name, data in _inputs(call, flags, _files(call, operands) if recursive else operands):
        selected |= _search(call, flags, pattern, "(standard input)" if name == "-" else name, data, titled)
        if selected and "q" in flags:
            call.code = 0  # whatever could not be read
            return
    call.code = 2 if call.code else int(not selected)


def _is_folder(call: Call, word: str) -> bool:
    return word != "-" and files.is_folder(call.phone, call.path(word))


def _files(call: Call, operands: list[str]) -> list[str]:
    """The operands, folders replaced by the names of all files in them."""
    found: list[str] = []
    for word in operands or ["."]:
        inside = call.path(word).rstrip("/") + "/"
        names = [n for n in call.phone.files if n.startswith(inside) and not n.endswith("/")]
        is_folder = _is_folder(call, word)
        found += (posixpath.join(word, name.removeprefix(inside)) for name in sorted(names)) if is_folder else [word]
    return found


def _inputs(call: Call, flags: Flags, operands: list[str]) -> Iterator[tuple[str, bytes]]:
    """As `Call.inputs`; with `-s` files that cannot be read are not reported."""
    if not operands and ("r" in flags or "R" in flags):
        return
    for word in operands or ["-"]:
        if "s" not in flags:
            yield from call.inputs([word])
            continue
        try:
            yield word, call.read(word)
        except Failure:
            call.code = 1


def _search(call: Call, flags: Flags, pattern: Pattern, name: str, data: bytes, titled: bool) -> bool:
    """Prints the selected lines of one file, or what the options ask for. Returns whether there were any."""
    title, count, most = f"{name}:" if titled else "", 0, call.number(flags.get("m", "-1"))
    silent = any(f in flags for f in "qclL")
    printer = None if silent else _Printer(call, flags, pattern, name if titled else "")
    for number, line in enumerate(lines_of(data), 1):
        call.spend(1 + (len(line) >> 8))
        if len(line) > MAX_LINE:
            raise Failure("grep: line too long")
        selected = (pattern.search(line) is None) == ("v" in flags)
        if printer:
            printer.line(number, line, selected)
        count += selected
        if selected and (0 <= most <= count or "q" in flags):
            break
    if "q" in flags:
        return count > 0
    if "c" in flags:
        call.out(f"{title}{count}\n")
    elif "l" in flags and count or "L" in flags and not count:
        call.out(f"{name}\n")
    return count > 0


class _Printer:
    """Prints the selected lines of one file, and with `-A`, `-B` and `-C` the lines around them."""

    def __init__(self, call: Call, flags: Flags, pattern: Pattern, title: str) -> None:
        self._call, self._numbered, self._title = call, "n" in flags, title
        self._parts = pattern if "o" in flags and "v" not in flags else None
        before, after = (max(call.number(flags.get(f, flags.get("C", "0"))), 0) for f in "BA")
        self._after = 0 if self._parts else after
        self._earlier: deque[tuple[int, str]] = deque(maxlen=0 if self._parts else before)
        self._last = self._left = 0
        """Number of the line printed last, and how many more follow a selected one."""

    def line(self, number: int, text: str, selected: bool) -> None:
        if selected:
            first = self._earlier[0][0] if self._earlier else number
            if (self._after or self._earlier.maxlen) and 0 < self._last < first - 1:
                self._call.out("--\n")
            for at, context in self._earlier:
                self._print(at, context, "-")
            self._earlier.clear()
            for part in [m[0] for m in self._parts.finditer(text) if m[0]] if self._parts else [text]:
                self._print(number, part, ":")
            self._left = self._after
        elif self._left:
            self._print(number, text, "-")
            self._left -= 1
        else:
            self._earlier.append((number, text))

    def _print(self, number: int, text: str, sign: str) -> None:
        title = f"{self._title}{sign}" if self._title else ""
        self._call.out(f"{title}{f'{number}{sign}' if self._numbered else ''}{text}\n")
        self._last = number


PROGRAMS: dict[str, Program] = {"grep": grep, "egrep": grep, "fgrep": grep}
