"""`sed` with the commands `s`, `d`, `p` and `q`, addressed by line numbers, `$` and regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.streams import to_bytes
from envs.phone.shell.regex import MAX_LINE, Pattern, RegexFault, compiled
from envs.phone.shell.toybox.call import Call, Program, lines_of

Address = int | str | Pattern
"""A line number, "$" for the last line, or a pattern."""
_NUMBER = re.compile(r"\d{1,9}|\$")
_NEGATION = re.compile(r"\s*(!?)\s*")
_FLAGS = re.compile(r"[gpIi\d]*")
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


class Parser:
    def __init__(self, text: str, extended: bool) -> None:
        self._text, self._at, self._extended = text, 0, extended

    def commands(self) -> list[Command]:
        found = []
        while self._skip(" \t\n;"):
            addresses = []
            if (first := self._address()) is not None:
                addresses.append(first)
                if self._skip(" \t") and self._text[self._at] == ",":
                    self._at += 1
                    self._skip(" \t")
                    if (second := self._address()) is None:
                        raise self._fault()
                    addresses.append(second)
            negation = _NEGATION.match(self._text, self._at)
            assert negation is not None
            self._at = negation.end()
            command = Command(self._next(), addresses, bool(negation[1]))
            if command.name == "s":
                self._substitution(command)
            elif command.name not in "dpq":
                raise self._fault()
            if self._skip(" \t") and self._text[self._at] not in ";\n":
                raise self._fault()
            found.append(command)
        return found

    def _fault(self) -> Failure:
        return Failure(f"sed: bad pattern '{self._text[:60]}'@{self._at}")

    def _skip(self, chars: str) -> bool:
        """Skips these; whether anything follows."""
        while self._at < len(self._text) and self._text[self._at] in chars:
            self._at += 1
        return self._at < len(self._text)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._fault()
        self._at += 1
        return self._text[self._at - 1]

    def _address(self) -> Address | None:
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return number[0] if number[0] == "$" else int(number[0])
        if self._text[self._at] not in "/\\":
            return None
        delimiter = self._next()
        return self._compiled(self._until(self._next() if delimiter == "\\" else delimiter), False)

    def _compiled(self, source: str, fold: bool) -> Pattern:
        try:
            return compiled(source, self._extended, fold)
        except RegexFault as fault:
            raise Failure(f"sed: bad REGEX '{source}': {fault}") from None

    def _until(self, delimiter: str, brackets: bool = True) -> str:
        """Up to the next delimiter that no backslash or bracket hides; it is taken."""
        out, inside = "", False
        while (char := self._next()) != delimiter or inside:
            if char == "\\" and not inside:
                following = self._next()
                out += following if following == delimiter else char + following
                continue
            if brackets:
                inside = char == "[" if not inside else char != "]" or out.endswith(("[", "[^"))
            out += char
        return out

    def _substitution(self, command: Command) -> None:
        delimiter = self._next()
        source, replacement = self._until(delimiter), self._until(delimiter, brackets=False)
        flags = _FLAGS.match(self._text, self._at)
        assert flags is not None
        command.flags, self._at = flags[0][:20], flags.end()
        command.pattern = self._compiled(source, "i" in command.flags.lower())
        for letter, whole, text in _REPLACEMENT.findall(replacement):
            part = {"n": "\n", "t": "\t"}.get(letter, letter) or text
            command.replacement.append(0 if whole else int(letter) if letter.isdecimal() else part)
        if any(isinstance(p, int) and p > command.pattern.groups for p in command.replacement):
            raise Failure(f"sed: bad group in '{replacement}'")


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
        commands = Parser(flags["e"], "E" in flags or "r" in flags).commands()
        edited = _edited(call, commands, "n" in flags, data)
        if name:
            call.write(name, edited)
        else:
            call.out(edited)


PROGRAMS: dict[str, Program] = {"sed": sed}
