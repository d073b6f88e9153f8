"""`sed` with the commands `s`, `d`, `p` and `q`, addressed by line numbers, `$` and regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import to_bytes
from envs.phone.shell.regex import MAX_LINE, Pattern, RegexFault, compiled
from envs.phone.shell.toybox.call import Call, Program, lines_of

MAX_SCRIPT = 10_000
_ADDRESS = r"(\d{1,9}|\$|/(?:\\.|[^/\\])*+/)"
_TEXT = r"((?:\\.|(?!(?P=end)).)*+)(?P=end)"
_PATTERN = r"((?:\\.|\[\^?+\]?+[^]]*+\]|(?!(?P=end)).)*+)(?P=end)"
_COMMAND = re.compile(
    rf"[;\s]*(?:{_ADDRESS}(?:\s*,\s*{_ADDRESS})?)?\s*(!?)\s*"
    rf"(?:([dpq])|s(?P<end>[^\\\n]){_PATTERN}{_TEXT}([gpIi\d]{{0,20}}))[ \t]*(?:[;\n][;\s]*|$)",
    re.DOTALL,
)
_REPLACEMENT = re.compile(r"\\(.)|(&)|([^\\&]+)", re.DOTALL)


@dataclass
class _Command:
    """`addresses` are line numbers, "$" for the last line, and patterns; `inside` a range that has not ended."""

    name: str
    addresses: list[int | str | Pattern]
    negated: bool
    pattern: Pattern
    replacement: list[str | int]
    flags: str
    inside: bool = False

    def selects(self, number: int, line: str, last: bool) -> bool:
        return self._addressed(number, line, last) != self.negated

    def _addressed(self, number: int, line: str, last: bool) -> bool:
        def at(address: int | str | Pattern) -> bool:
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
        wanted = int("".join(c for c in self.flags if c.isdigit()) or 1)
        count = size = 0
        end = -1

        def replace(found: re.Match[str]) -> str:
            nonlocal count, size, end
            before, end = end, found.end()
            if found.start() == end == before:  # an empty match right behind another one does not count
                return ""
            count += 1
            if count < wanted or count > wanted and "g" not in self.flags:
                return found[0]
            text = "".join(part if isinstance(part, str) else found[part] or "" for part in self.replacement)
            size += len(text)
            if size > MAX_LINE:
                raise Failure("sed: line too long")
            return text

        return self.pattern.sub(replace, line), count >= wanted


def _parsed(script: str, extended: bool) -> list[_Command]:
    found: list[_Command] = []
    if len(script) > MAX_SCRIPT:
        raise Failure("sed: the script is too long")
    while script:
        match = _COMMAND.match(script)
        if match is None:
            raise Failure(f"sed: bad pattern '{script[:60]}'")
        first, second, negation, name, delimiter, source, replacement, flags = match.groups()
        addresses = [_address(text, extended) for text in (first, second) if text]
        source = (source or "").replace(f"\\{delimiter}", delimiter or "")
        pattern = _compiled(source, extended, "i" in (flags or "").lower())
        parts: list[str | int] = []
        for letter, whole, text in _REPLACEMENT.findall(replacement or ""):
            escaped = {"n": "\n", "t": "\t"}.get(letter, letter) or text
            parts.append(0 if whole else int(letter) if letter.isdecimal() else escaped)
        if any(isinstance(part, int) and part > pattern.groups for part in parts):
            raise Failure(f"sed: bad group in '{replacement[:60]}'")
        found.append(_Command(name or "s", addresses, bool(negation), pattern, parts, flags or ""))
        script = script[match.end() :]
    return found


def _address(text: str, extended: bool) -> int | str | Pattern:
    if text == "$":
        return text
    return int(text) if text.isdecimal() else _compiled(text[1:-1].replace("\\/", "/"), extended, False)


def _compiled(source: str, extended: bool, fold: bool) -> Pattern:
    try:
        return compiled(source, extended, fold)
    except RegexFault as fault:
        raise Failure(f"sed: bad REGEX '{source[:60]}': {fault}") from None


def _edited(call: Call, commands: list[_Command], quiet: bool, data: bytes) -> bytes:
    """The output of a script for a file; a last line without a newline stays so."""
    lines, out, ended = lines_of(data), [], False
    for number, line in enumerate(lines, 1):
        call.spend(len(commands))
        printed = not quiet
        for command in commands:
            if len(line) > MAX_LINE:
                raise Failure("sed: line too long")
            if not command.selects(number, line, number == len(lines)):
                continue
            replaced = False
            if command.name == "s":
                line, replaced = command.substituted(line)
            if command.name == "p" or replaced and "p" in command.flags:
                out.append(line)
            printed = printed and command.name != "d"
            ended = command.name == "q"
            if command.name in ("d", "q"):
                break
        if printed:
            out.append(line)
        if ended:
            break
    text = "".join(f"{line}\n" for line in out)
    return to_bytes(text.removesuffix("\n") if not ended and data and not data.endswith(b"\n") else text)


def sed(call: Call) -> None:
    flags, operands = call.options("nErie:")
    if "e" not in flags:
        if not operands:
            raise Failure("sed: no pattern")
        flags["e"], operands = operands[0], operands[1:]
    found = list(call.inputs(operands))
    if "i" not in flags:
        parts = [d if d.endswith(b"\n") or not d else d + b"\n" for _, d in found[:-1]] + [d for _, d in found[-1:]]
        found = [("", b"".join(parts))]
    for name, data in found:
        edited = _edited(call, _parsed(flags["e"], "E" in flags or "r" in flags), "n" in flags, data)
        if name:
            call.write(name, edited)
        else:
            call.out(edited)


PROGRAMS: dict[str, Program] = {"sed": sed}
