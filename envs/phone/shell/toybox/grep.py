"""`grep`, `egrep` and `fgrep`."""

from __future__ import annotations

from envs.phone.shell.command import Failure
from envs.phone.shell.regex import MAX_LINE, Pattern, compiled
from envs.phone.shell.toybox.call import Call, Flags, Program, lines_of


def grep(call: Call) -> None:
    """Exit code 0 if a line was selected, 1 if none was, 2 after an error."""
    flags, operands = call.options("EFHce:hilnoqvw")
    if "e" not in flags:
        if not operands:
            raise Failure(f"{call.name}: no REGEX", 2)
        flags["e"], operands = operands[0], operands[1:]
    extended, fixed = "E" in flags or call.name == "egrep", "F" in flags or call.name == "fgrep"
    pattern = compiled(flags["e"], extended, "i" in flags, fixed, "w" in flags)
    titled = "H" in flags or len(operands) > 1 and "h" not in flags
    selected = False
    for name, data in call.inputs(operands):
        selected |= _search(call, flags, pattern, "(standard input)" if name == "-" else name, data, titled)
    call.code = 2 if call.code else int(not selected)


def _search(call: Call, flags: Flags, pattern: Pattern, name: str, data: bytes, titled: bool) -> bool:
    """Prints the selected lines of one file. Returns whether there were any."""
    count, title = 0, f"{name}:" if titled else ""
    for number, line in enumerate(lines_of(data), 1):
        call.spend(1 + (len(line) >> 8))
        if len(line) > MAX_LINE:
            raise Failure("grep: line too long", 2)
        if (pattern.search(line) is None) != ("v" in flags):
            continue
        count += 1
        if any(f in flags for f in "qcl"):
            continue
        shown = [m[0] for m in pattern.finditer(line) if m[0]] if "o" in flags else [line]
        call.out("".join(f"{title}{f'{number}:' if 'n' in flags else ''}{text}\n" for text in shown))
    if "c" in flags:
        call.out(f"{title}{count}\n")
    elif "l" in flags and count:
        call.out(f"{name}\n")
    return count > 0


PROGRAMS: dict[str, Program] = {"grep": grep, "egrep": grep, "fgrep": grep}
