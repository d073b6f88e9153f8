"""`grep`, `egrep` and `fgrep`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.regex import Pattern, compiled
from envs.phone.shell.regex_parser import RegexFault
from envs.phone.shell.toybox.call import Call, Flags, Program, lines_of


def grep(call: Call) -> None:
    """Exit code 0 when a line was selected, 1 when none was, 2 after an error."""
    flags, operands = call.options("EFHLabce*f:hilm:noqrsvwxzA:B:C:RI" if call.name == "grep" else "Hce*hilnoqrsvwx")
    if "e" in flags or "f" in flags:
        source = flags["e"] if "e" in flags else "\n".join(lines_of(call.read(flags["f"])))
    elif operands:
        source, operands = operands[0], operands[1:]
    else:
        raise Failure(f"{call.name}: no REGEX", 2)
    extended = "E" in flags or call.name == "egrep"
    try:
        patterns = [
            compiled(one, extended, "i" in flags, fixed="F" in flags or call.name == "fgrep")
            for one in source.split("\n")
        ]
    except RegexFault as fault:
        raise Failure(f"{call.name}: bad REGEX: {fault}", 2) from None
    recursive = "r" in flags or "R" in flags
    titled = "H" in flags or (len(operands) > 1 or recursive) and "h" not in flags
    selected = False
    for name, data in call.inputs(list(_files(call, operands or ["."])) if recursive else operands):
        selected |= _one(call, flags, patterns, "(standard input)" if name == "-" else name, data, titled)
        if selected and "q" in flags:
            break
    call.code = 0 if selected and ("q" in flags or not call.code) else 2 if call.code else 1


def _files(call: Call, names: list[str]) -> Iterator[str]:
    tree = files.folders(call.phone)
    stack = names[::-1]
    while stack:
        name = stack.pop()
        call.spend(1)
        inside = tree.get(call.path(name))
        if inside is None:
            yield name
        else:
            stack += [posixpath.join(name, one) for one in inside[::-1]]


def _one(call: Call, flags: Flags, patterns: list[Pattern], name: str, data: bytes, titled: bool) -> bool:
    """Prints what is selected in one file; whether something was."""
    most = call.number(flags["m"]) if "m" in flags else 1 << 60
    before, after = (call.number(flags.get(f, flags.get("C", "0"))) for f in "BA")
    count, shown, lines = 0, -1, lines_of(data)
    quiet = any(f in flags for f in "qclL")
    prefix = f"{name}:" if titled else ""
    for i, line in enumerate(lines):
        if count >= most:
            break
        if selects(call, flags, patterns, line) == ("v" in flags):
            continue
        count += 1
        if quiet:
            if "c" not in flags:
                break
            continue
        for j in range(max(shown + 1, i - before), i):
            call.out(_label(flags, prefix.replace(":", "-"), j, "-") + lines[j] + "\n")
        if "o" in flags and "v" not in flags:
            for text in _matches(call, flags, patterns, line):
                call.out(f"{_label(flags, prefix, i, ':')}{text}\n")
        else:
            call.out(f"{_label(flags, prefix, i, ':')}{line}\n")
        shown = i
        for j in range(i + 1, min(len(lines), i + 1 + after)):
            if selects(call, flags, patterns, lines[j]) != ("v" in flags):
                break
            call.out(_label(flags, prefix.replace(":", "-"), j, "-") + lines[j] + "\n")
            shown = j
    if "c" in flags and "q" not in flags:
        call.out(f"{prefix}{count}\n")
    elif ("l" in flags and count or "L" in flags and not count) and "q" not in flags:
        call.out(f"{name}\n")
    return count > 0


def _label(flags: Flags, prefix: str, index: int, mark: str) -> str:
    return f"{prefix}{index + 1}{mark}" if "n" in flags else prefix


def selects(call: Call, flags: Flags, patterns: list[Pattern], line: str) -> bool:
    if "x" in flags:
        return any(p.full(line, call.spend) for p in patterns)
    if "w" in flags:
        return next(_matches(call, flags, patterns, line), None) is not None
    return any(p.matches(line, call.spend) for p in patterns)


def _matches(call: Call, flags: Flags, patterns: list[Pattern], line: str) -> Iterator[str]:
    at = 0
    while at <= len(line):
        found = [span for p in patterns if (span := p.search(line, call.spend, at))]
        if not found:
            return
        begin, end = min(found, key=lambda span: (span[0], -span[1]))
        if "w" in flags and not (_edge(line, begin) and _edge(line, end)):
            at = begin + 1
            continue
        if end > begin and ("x" not in flags or (begin, end) == (0, len(line))):
            yield line[begin:end]
        at = max(end, begin + 1)


def _edge(line: str, at: int) -> bool:
    """Whether a word may begin or end here: not between two letters."""
    return not (0 < at < len(line) and all(c.isalnum() or c == "_" for c in line[at - 1 : at + 1]))


PROGRAMS: dict[str, Program] = {"grep": grep, "egrep": grep, "fgrep": grep}
