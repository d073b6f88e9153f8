"""`grep`, `egrep` and `fgrep`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.regex import MAX_LINE, Pattern, RegexFault, compiled
from envs.phone.shell.toybox.call import Call, Flags, Program, lines_of


def grep(call: Call) -> None:
    """Exit code 0 when a line was selected, 1 when none was, 2 after an error."""
    flags, operands = call.options("EFHLabce:hilm:noqrsvwxA:B:C:RI")
    if "e" not in flags:
        if not operands:
            raise Failure(f"{call.name}: no REGEX", 2)
        flags["e"], operands = operands[0], operands[1:]
    extended, fixed = "E" in flags or call.name == "egrep", "F" in flags or call.name == "fgrep"
    try:
        patterns = [compiled(one, extended, "i" in flags, fixed) for one in flags["e"].split("\n")]
    except RegexFault as fault:
        raise Failure(f"{call.name}: bad REGEX: {fault}", 2) from None
    recursive = "r" in flags or "R" in flags
    titled = "H" in flags or (len(operands) > 1 or recursive) and "h" not in flags
    selected = False
    for name, data in call.inputs(list(_files(call, operands or ["."])) if recursive else operands):
        selected |= _search(call, flags, patterns, "(standard input)" if name == "-" else name, data, titled)
        if selected and "q" in flags:
            break
    call.code = 0 if selected and ("q" in flags or not call.code) else 2 if call.code else 1


def _files(call: Call, names: list[str]) -> Iterator[str]:
    """The files at and below the names."""
    tree = files.folders(call.phone)
    stack = names[::-1]
    while stack:
        name = stack.pop()
        inside = tree.get(call.path(name))
        if inside is None:
            yield name
        else:
            stack += [posixpath.join(name, one) for one in inside[::-1]]


def _search(call: Call, flags: Flags, patterns: list[Pattern], name: str, data: bytes, titled: bool) -> bool:
    """Prints the selected lines of one file; whether there were any."""
    most = call.number(flags["m"]) if "m" in flags else 1 << 60
    before, after = (call.number(flags.get(f, flags.get("C", "0"))) for f in "BA")
    count, shown, until, lines = 0, -1, -1, lines_of(data)
    quiet = any(f in flags for f in "qclL")

    def out(index: int, text: str, mark: str) -> None:
        number = f"{index + 1}{mark}" if "n" in flags else ""
        call.out(f"{f'{name}{mark}' if titled else ''}{number}{text}\n")

    for i, line in enumerate(lines):
        call.spend(1 + (len(line) >> 8))
        found = list(_matches(flags, patterns, line))
        if count < most and bool(found) != ("v" in flags):
            count += 1
            if quiet:
                continue
            for j in range(max(shown + 1, i - before), i):
                out(j, lines[j], "-")
            for text in [t for t in found if t] if "o" in flags else [line]:
                out(i, text, ":")
            shown, until = i, i + after
        elif i <= until:
            out(i, line, "-")
            shown = i
        elif count >= most:
            break
    if "q" in flags:
        return count > 0
    if "c" in flags:
        call.out(f"{f'{name}:' if titled else ''}{count}\n")
    elif "l" in flags and count or "L" in flags and not count:
        call.out(f"{name}\n")
    return count > 0


def _matches(flags: Flags, patterns: list[Pattern], line: str) -> Iterator[str]:
    """The matching texts of a line: all of them with `-o`, else one."""
    if len(line) > MAX_LINE:
        raise Failure("grep: line too long", 2)
    at = 0
    while at <= len(line):
        found = [m for p in patterns if (m := p.fullmatch(line) if "x" in flags else p.search(line, at))]
        if not found:
            return
        begin, end = min((m.span() for m in found), key=lambda span: (span[0], -span[1]))
        if "w" in flags and not (_edge(line, begin) and _edge(line, end)):
            at = begin + 1
            continue
        yield line[begin:end]
        if "o" not in flags or "x" in flags:
            return
        at = max(end, begin + 1)


def _edge(line: str, at: int) -> bool:
    """Whether a word may begin or end here: not between two letters."""
    return not (0 < at < len(line) and all(c.isalnum() or c == "_" for c in line[at - 1 : at + 1]))


PROGRAMS: dict[str, Program] = {"grep": grep, "egrep": grep, "fgrep": grep}
