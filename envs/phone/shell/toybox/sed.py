"""`sed`: the commands s y p d D q = a i c n N g G h H x b t and groups, with number, `$` and regex addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.streams import to_bytes, to_text
from envs.phone.shell.regex import Pattern, compiled
from envs.phone.shell.regex_parser import RegexFault
from envs.phone.shell.toybox.call import Call, Program, lines_of

LONGEST = 1 << 20
MAX_COMMANDS = 1000
Address = int | str | Pattern
"""A line number, "$" for the last line, or a pattern."""


@dataclass
class Command:
    """`inside` says whether a range that began is still going on; `end_line` where a numbered one ends."""

    name: str
    addresses: tuple[Address, ...] = ()
    negated: bool = False
    text: str = ""
    pattern: Pattern | None = None
    replacement: list[str | int] = field(default_factory=list)
    flags: str = ""
    number: int = 1
    inside: bool = False
    target: int = -1


class ScriptParser:
    def __init__(self, call: Call, text: str, extended: bool) -> None:
        self._call, self._text, self._at, self._extended = call, text, 0, extended
        self._last: Pattern | None = None

    def parse(self) -> list[Command]:
        commands: list[Command] = []
        groups: list[int] = []
        labels: dict[str, int] = {}
        while True:
            self._skip(" \t\n;")
            if self._at >= len(self._text):
                break
            command = self._command()
            if command.name == "}":
                if not groups:
                    raise Failure("sed: unexpected '}'")
                commands[groups.pop()].target = len(commands)
                continue
            if command.name == "{":
                groups.append(len(commands))
            if command.name == ":":
                labels[command.text] = len(commands)
            commands.append(command)
            if len(commands) > MAX_COMMANDS:
                raise Failure("sed: the script is too long")
        if groups:
            raise Failure("sed: unmatched '{'")
        for command in commands:
            if command.name in ("b", "t"):
                command.target = labels.get(command.text, -2) if command.text else len(commands)
                if command.target == -2:
                    raise Failure(f"sed: no ':{command.text}'")
        return commands

    def _skip(self, chars: str) -> None:
        while self._at < len(self._text) and self._text[self._at] in chars:
            self._at += 1

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise Failure(f"sed: bad pattern '{self._text[:60]}'")
        self._at += 1
        return self._text[self._at - 1]

    def _command(self) -> Command:
        addresses = []
        if (first := self._address()) is not None:
            addresses.append(first)
            self._skip(" \t")
            if self._text[self._at : self._at + 1] == ",":
                self._at += 1
                self._skip(" \t")
                if (second := self._address()) is None:
                    raise Failure(f"sed: bad pattern '{self._text[:60]}'")
                addresses.append(second)
        self._skip(" \t")
        negated = self._text[self._at : self._at + 1] == "!"
        while self._text[self._at : self._at + 1] in ("!", " ") and self._at < len(self._text):
            self._at += 1
        command = Command(self._take(), tuple(addresses), negated)
        if command.name == "s":
            self._substitution(command)
        elif command.name == "y":
            self._transliteration(command)
        elif command.name in "aic":
            self._text_argument(command)
        elif command.name in ":bt":
            found = re.compile(r"[ \t]*([^;\n}]*)").match(self._text, self._at)
            assert found is not None
            command.text, self._at = found[1].strip(), found.end()
        elif command.name in "qQ":
            found = re.compile(r"[ \t]*(\d{0,4})").match(self._text, self._at)
            assert found is not None
            command.text, self._at = found[1], found.end()
        elif command.name not in "pPdD=nNgGhHx{}":
            raise Failure(f"sed: bad pattern '{self._text[:60]}'@{self._at} ({command.name})")
        return command

    def _address(self) -> Address | None:
        char = self._text[self._at : self._at + 1]
        if found := re.compile(r"\d{1,9}").match(self._text, self._at):
            self._at = found.end()
            return int(found[0])
        if char == "$":
            self._at += 1
            return "$"
        if char not in ("/", "\\"):
            return None
        self._at += 1
        delimiter = self._take() if char == "\\" else "/"
        source = self._until(delimiter)
        fold = self._text[self._at : self._at + 1] == "I"
        self._at += fold
        return self._compiled(source, fold)

    def _compiled(self, source: str, fold: bool) -> Pattern:
        if not source and self._last is not None:
            return self._last
        try:
            self._last = compiled(source, self._extended, fold)
        except RegexFault as fault:
            raise Failure(f"sed: bad REGEX '{source}': {fault}") from None
        return self._last

    def _until(self, delimiter: str) -> str:
        """Up to the next delimiter that no backslash or bracket hides; it is taken."""
        out, bracket = "", False
        while True:
            char = self._take()
            if char == "\\":
                following = self._take()
                out += following if following == delimiter else char + following
            elif char == delimiter and not bracket:
                return out
            else:
                bracket = char == "[" if not bracket else char != "]" or out.endswith(("[", "[^"))
                out += char

    def _substitution(self, command: Command) -> None:
        delimiter = self._take()
        source = self._until(delimiter)
        out = ""
        while (char := self._take()) != delimiter:
            out += char + self._take() if char == "\\" else char
        found = re.compile(r"[gpIi\d]*").match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        command.flags = found[0]
        if number := re.search(r"\d{1,6}", found[0]):
            command.number = max(1, int(number[0]))
        command.pattern = self._compiled(source, "i" in found[0].lower())
        command.replacement = _replacement(out, delimiter)

    def _transliteration(self, command: Command) -> None:
        delimiter = self._take()
        one, two = (self._until(delimiter).replace("\\n", "\n").replace("\\\\", "\\") for _ in range(2))
        if len(one) != len(two):
            raise Failure("sed: y strings of different length")
        command.text = one + two

    def _text_argument(self, command: Command) -> None:
        found = re.compile(r"[ \t]*(?:\\\n?)?[ \t]*((?:\\.|[^\\\n])*)(?:\n|$)", re.DOTALL).match(self._text, self._at)
        if found is None:
            raise Failure(f"sed: bad pattern '{self._text[:60]}'")
        self._at = found.end()
        command.text = re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)


def _replacement(text: str, delimiter: str) -> list[str | int]:
    """Texts and numbers of groups."""
    out: list[str | int] = []
    for found in re.finditer(r"\\(.)|(&)|([^\\&]+)", text, re.DOTALL):
        if found[2]:
            out.append(0)
        elif found[3]:
            out.append(found[3])
        elif found[1].isdecimal():
            out.append(int(found[1]))
        else:
            out.append({"n": "\n", "t": "\t"}.get(found[1], found[1]))
    return out


class Editor:
    """Runs a script over lines."""

    def __init__(self, call: Call, commands: list[Command], quiet: bool) -> None:
        self._call, self._commands, self._quiet = call, commands, quiet
        self._hold = ""
        self.finished = False

    def edit(self, lines: list[str]) -> str:
        self._lines, self._at, self._out = lines, 0, []
        while self._at < len(lines) and not self.finished:
            self._space = lines[self._at]
            self._at += 1
            self._behind: list[str] = []
            self._changed = False
            if self._cycle() and not self._quiet:
                self._put(self._space)
            self._out += self._behind
        return "".join(f"{line}\n" for line in self._out)

    def _put(self, text: str) -> None:
        self._call.spend(1 + (len(text) >> 6))
        self._call.shell.budget.take(len(text))
        self._out.append(text)

    def _cycle(self) -> bool:
        """Runs the commands on the pattern space; whether it is to be printed."""
        place = 0
        while place < len(self._commands):
            command = self._commands[place]
            place += 1
            self._call.spend(1)
            if not self._selected(command):
                if command.name == "{":
                    place = command.target
                continue
            name = command.name
            if name == "s":
                self._substitute(command)
            elif name in ("b", "t"):
                if name == "b" or self._changed:
                    self._changed, place = False, command.target
            elif name == "d" or name == "c":
                if name == "c" and not command.inside:
                    self._put(command.text)
                return False
            elif name == "D":
                self._space = self._space.partition("\n")[2]
                if not self._space:
                    return False
                place = 0
            elif name in ("q", "Q"):
                self.finished, self._call.code = True, int(command.text or 0) & 0xFF
                return name == "q"
            elif name in ("n", "N"):
                if self._at >= len(self._lines):
                    self.finished = True
                    return True
                if name == "n" and not self._quiet:
                    self._put(self._space)
                self._space = (self._space + "\n" if name == "N" else "") + self._lines[self._at]
                self._at += 1
            else:
                self._simple(command)
            if max(len(self._space), len(self._hold)) > LONGEST:
                raise Failure("sed: line too long")
        return True

    def _simple(self, command: Command) -> None:
        name = command.name
        if name == "p":
            self._put(self._space)
        elif name == "P":
            self._put(self._space.partition("\n")[0])
        elif name == "=":
            self._put(str(self._at))
        elif name == "a":
            self._behind.append(command.text)
        elif name == "i":
            self._put(command.text)
        elif name == "y":
            half = len(command.text) // 2
            self._space = self._space.translate(str.maketrans(command.text[:half], command.text[half:]))
        elif name == "g":
            self._space = self._hold
        elif name == "G":
            self._space += "\n" + self._hold
        elif name == "h":
            self._hold = self._space
        elif name == "H":
            self._hold += "\n" + self._space
        elif name == "x":
            self._space, self._hold = self._hold, self._space

    def _selected(self, command: Command) -> bool:
        return self._in_addresses(command) != command.negated

    def _in_addresses(self, command: Command) -> bool:
        addresses = command.addresses
        if not addresses:
            return True
        if len(addresses) == 1:
            return self._at_address(addresses[0])
        if command.inside:
            end = addresses[1]
            command.inside = not (self._at >= end if isinstance(end, int) else self._at_address(end))
            return True if not isinstance(end, int) else self._at <= end
        if self._at_address(addresses[0]):
            command.inside = not isinstance(addresses[1], int) or self._at < addresses[1]
            return True
        return False

    def _at_address(self, address: Address) -> bool:
        if isinstance(address, int):
            return self._at == address
        if isinstance(address, str):
            return self._at == len(self._lines)
        return address.matches(self._space, self._call.spend)

    def _substitute(self, command: Command) -> None:
        assert command.pattern is not None
        text, spend = self._space, self._call.spend
        out: list[str] = []
        at = count = 0
        behind = -1
        while at <= len(text) and (found := command.pattern.search(text, spend, at)):
            begin, end = found
            if begin == end == behind:
                out.append(text[at : at + 1])
                at, behind = at + 1, -1
                continue
            out.append(text[at:begin])
            count += 1
            if count < command.number:
                out.append(text[begin:end])
            else:
                self._changed = True
                groups = [text[begin:end]]
                if any(isinstance(p, int) and p for p in command.replacement):
                    groups = command.pattern.groups(text, begin, end, spend)
                out += [groups[p] if isinstance(p, int) else p for p in command.replacement]
            if begin == end:
                out.append(text[end : end + 1])
                end += 1
            else:
                behind = end
            at = end
            spend(1)
            if count >= command.number and "g" not in command.flags:
                break
        if count >= command.number:
            self._space = "".join(out) + text[at:]
            if "p" in command.flags:
                self._put(self._space)


def sed(call: Call) -> None:
    flags, operands = call.options("nErie*f:sz")
    scripts = [flags["e"]] if "e" in flags else []
    if "f" in flags:
        scripts.append(to_text(call.read(flags["f"])))
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts:
        raise Failure("sed: no pattern")
    script = "\n".join(scripts)
    extended = "E" in flags or "r" in flags
    if "i" not in flags:
        data = b"".join(
            found if found.endswith(b"\n") or not found else found + b"\n" if more else found
            for found, more in _followed(list(call.inputs(operands)))
        )
        call.out(_edited(call, script, extended, "n" in flags, data))
        return
    for name, data in call.inputs(operands):
        call.write(name, _edited(call, script, extended, "n" in flags, data))


def _followed(found: list[tuple[str, bytes]]) -> list[tuple[bytes, bool]]:
    """Contents, and whether another follows."""
    return [(data, i < len(found) - 1) for i, (_, data) in enumerate(found)]


def _edited(call: Call, script: str, extended: bool, quiet: bool, data: bytes) -> bytes:
    """What a script makes of a file; a last line without a newline stays so."""
    text = Editor(call, ScriptParser(call, script, extended).parse(), quiet).edit(lines_of(data))
    return to_bytes(text.removesuffix("\n") if data and not data.endswith(b"\n") else text)


PROGRAMS: dict[str, Program] = {"sed": sed}
