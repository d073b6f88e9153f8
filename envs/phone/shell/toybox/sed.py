"""`sed` with the commands `s`, `d`, `p` and `q`, addressed by line numbers, `$` and regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.streams import to_bytes
from envs.phone.shell.regex import MAX_LINE, Pattern, RegexFault, compiled
from envs.phone.shell.toybox.call import Call, Program, lines_of

MAX_SCRIPT = 10_000
Address = int | str | Pattern
"""A line number, "$" for the last line, or a pattern."""
_ADDRESS = r"(\d{1,9}|\$|/(?:\\.|[^/\\])*+/)"
_TEXT = r"((?:\\.|(?!(?P=end)).)*+)(?P=end)"
_PATTERN = r"((?:\\.|\[\^?+\]?+[^]]*+\]|(?!(?P=end)).)*+)(?P=end)"
_COMMAND = re.compile(
    rf"(?:{_ADDRESS}(?:\s*,\s*{_ADDRESS})?)?\s*(!?)\s*"
    rf"(?:([dpq])|s(?P<end>[^\\\n]){_PATTERN}{_TEXT}([gpIi\d]{{0,20}}))[ \t]*(?:[;\n]\s*|$)",
    re.DOTALL,
)
_REPLACEMENT = re.compile(r"\\(.)|(&)|([^\\&]+)", re.DOTALL)


@dataclass
class Command:
    """`inside` says whether a range that began is still going on."""

    name: str
    addresses: list[Address]
    negated: bool
    pattern: Pattern | None = None
    replacement: list[str | int] = field(default_factory=list)
    flags: str = ""
    inside: bool = False

    def selects(self, number: int, line: str, last: bool) -> bool:
        return self._addressed(number, line, last) != self.negated

    def _addressed(self, number: int, line: str, last: bool) -> bool:
        def at(address: Address) -> bool:
            if isinstance(address, int):
                return number == address
            return last if isinstance(address, str) else address.search(line) is not None

        if len(self.addresses) < 2:
            return not self.addresses or at(self.addresses[0])
        first, end = self.addresses
        if self.inside:
            self.inside = number < end if isinstance(end, int) else not at(end)
            return not isinstance(end, int) or number <= end
        if not at(first):
            return False
        self.inside = not isinstance(end, int) or number < end
        return True

    def substituted(self, line: str) -> tuple[str, bool]:
        """The line after `s`, and whether anything was replaced."""
        assert self.pattern is not None
        wanted = int("".join(c for c in self.flags if c.isdigit()) or 1)
        count = size = 0
        end = -1

        def replace(found: re.Match[str]) -> str:
            nonlocal count, size, end
            before, end = end, found.end()
            if found.start() == end == before:  # nothing, right behind the match before: POSIX does not count it
                return ""
            count += 1
            if count < wanted or count > wanted and "g" not in self.flags:
                return found[0]
            parts = [part if isinstance(part, str) else found[part] or "" for part in self.replacement]
            size += sum(map(len, parts))
            if size > MAX_LINE:
                raise Failure("sed: line too long")
            return "".join(parts)

        line = self.pattern.sub(replace, line)
        return line, count >= wanted


def _parsed(script: str, extended: bool) -> list[Command]:
    found: list[Command] = []
    if len(script) > MAX_SCRIPT:
        raise Failure("sed: the script is too long")
    script = script.lstrip("; \t\n")
    while script:
        match = _COMMAND.match(script)
        if match is None:
            raise Failure(f"sed: bad pattern '{script[:60]}'")
        first, second, negation, name, delimiter, source, replacement, flags = match.groups()
        addresses = [_address(text, extended) for text in (first, second) if text]
        command = Command(name or "s", addresses, bool(negation), flags=flags or "")
        if not name:
            command.pattern = _compiled(source.replace(f"\\{delimiter}", delimiter), extended, "i" in flags.lower())
            for letter, whole, text in _REPLACEMENT.findall(replacement):
                part = {"n": "\n", "t": "\t"}.get(letter, letter) or text
                command.replacement.append(0 if whole else int(letter) if letter.isdecimal() else part)
            if any(isinstance(part, int) and part > command.pattern.groups for part in command.replacement):
                raise Failure(f"sed: bad group in '{replacement[:60]}'")
        found.append(command)
        script = script[match.end() :].lstrip("; \t\n")
    return found


def _address(text: str, extended: bool) -> Address:
    if text == "$":
        return text
    return int(text) if text.isdecimal() else _compiled(text[1:-1].replace("\\/", "/"), extended, False)


def _compiled(source: str, extended: bool, fold: bool) -> Pattern:
    try:
        return compiled(source, extended, fold)
    except RegexFault as fault:
        raise Failure(f"sed: bad REGEX '{source[:60]}': {fault}") from None


def _edited(call: Call, commands: list[Command], quiet: bool, data: bytes) -> bytes:
    """What a script makes of a file; a last line without a newline stays so."""
    lines, out, ended = lines_of(data), [], False
    for number, line in enumerate(lines, 1):
        call.spend(len(commands))
        printed = not quiet
        for command in commands:
            if len(line) > MAX_LINE:
                raise Failure("sed: line too long")
            if not command.selects(number, line, number == len(lines)):
                continue
            changed = command.name == "p"
            if command.name == "s":
                line, replaced = command.substituted(line)
                changed = replaced and "p" in command.flags
            if changed:
                out.append(line)
            if command.name == "d":
                printed = False
                break
            if command.name == "q":
                ended = True
                break
        if printed:
            out.append(line)
        if ended:
            break
    text = "".join(f"{line}\n" for line in out)
    return to_bytes(text.removesuffix("\n") if not ended and data and not data.endswith(b"\n") else text)


def sed(call: Call) -> None:
    flags, operands = call.options("nErie*")
    if "e" not in flags:
        if not operands:
            raise Failure("sed: no pattern")
        flags["e"], operands = operands[0], operands[1:]
    found = list(call.inputs(operands))
    if "i" not in flags:
        joined = [d if d.endswith(b"\n") or not d else d + b"\n" for _, d in found[:-1]] + [d for _, d in found[-1:]]
        found = [("", b"".join(joined))]
    for name, data in found:
        commands = _parsed(flags["e"], "E" in flags or "r" in flags)
        edited = _edited(call, commands, "n" in flags, data)
        if name:
            call.write(name, edited)
        else:
            call.out(edited)


PROGRAMS: dict[str, Program] = {"sed": sed}
