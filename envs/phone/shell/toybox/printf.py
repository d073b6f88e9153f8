"""`printf`."""

from __future__ import annotations

import re

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import LETTERS, byte, unescaped
from envs.phone.shell.toybox.call import Call, Program

_DIRECTIVE = re.compile(r"%([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?[hlLqjzt]*([%a-zA-Z]?)")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|(.))", re.DOTALL)
WIDEST = 100_000


class _Stop(Exception):
    r"""`\c`: no more output."""


def printf(call: Call) -> None:
    words = call.words[1:] if call.words[:1] == ["--"] else call.words
    if not words:
        raise Failure('printf: Needs 1 argument (see "printf --help")')
    arguments = _Arguments(call, words[1:])
    form = re.split(r"(%[-+ #0]*(?:\*|\d*)(?:\.(?:\*|\d*))?[hlLqjzt]*[%a-zA-Z]?)", words[0])
    try:
        while True:
            for i, part in enumerate(form):
                call.out(_directive(call, part, arguments) if i % 2 else _text(call, part))
            call.spend(1)
            if arguments.done() or not arguments.used:
                return
    except _Stop:
        return


class _Arguments:
    """The words behind the format, used one after the other; missing ones are empty."""

    def __init__(self, call: Call, words: list[str]) -> None:
        self._call, self._words, self._at = call, words, 0
        self.used = False

    def done(self) -> bool:
        return self._at >= len(self._words)

    def text(self) -> str:
        self.used = True
        self._at += 1
        return self._words[self._at - 1] if self._at <= len(self._words) else ""

    def integer(self) -> int:
        word = self.text().strip()
        if word[:1] in ("'", '"') and len(word) > 1:
            return ord(word[1])
        try:
            sign, digits = (-1, word[1:]) if word[:1] == "-" else (1, word.removeprefix("+"))
            base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[:1] == "0" else 10
            return sign * int(digits or "0", base) if len(digits) < 40 else 0
        except ValueError:
            self._call.wrong(f"bad integer '{word}'" if word else "missing argument")
            return 0

    def real(self) -> float:
        word = self.text().strip()
        try:
            return float(word or 0)
        except ValueError:
            self._call.wrong(f"bad number '{word}'")
            return 0.0


def _text(call: Call, text: str) -> str:
    at, out = 0, []
    for found in _ESCAPE.finditer(text):
        out.append(text[at : found.start()])
        at = found.end()
        if found[4] == "c":
            call.out("".join(out))
            raise _Stop
        if found[4]:
            out.append({**LETTERS, '"': '"', "'": "'"}.get(found[4], found[0]))
        elif found[3]:
            out.append(chr(int(found[3], 16)))
        else:
            out.append(byte(int(found[1], 8) if found[1] else int(found[2], 16)))
    return "".join(out) + text[at:]


def _directive(call: Call, part: str, arguments: _Arguments) -> str:
    found = _DIRECTIVE.fullmatch(part)
    assert found is not None
    flags, width, precision, letter = found.groups()
    if letter == "%":
        return "%"
    if letter == "" or letter not in "sbcdiouxXeEfFgGq":
        raise Failure(f"printf: bad '{part}'")
    wide = arguments.integer() if width == "*" else int(width or 0) if len(width) < 7 else WIDEST + 1
    if wide < 0:
        flags, wide = flags + "-", -wide
    exact = arguments.integer() if precision == "*" else int(precision or 0) if precision is not None else None
    if wide > WIDEST or (exact or 0) > WIDEST:
        raise Failure("printf: the output is too wide")
    text = _value(call, letter, flags, exact, arguments)
    if "-" in flags:
        return text.ljust(wide)
    if "0" in flags and letter not in "sbcq" and (exact is None or letter in "eEfFgG"):
        sign = text[:1] if text[:1] in "+- " else ""
        return sign + text[len(sign) :].rjust(wide - len(sign), "0")
    return text.rjust(wide)


def _value(call: Call, letter: str, flags: str, exact: int | None, arguments: _Arguments) -> str:
    if letter in "sq":
        return arguments.text()[:exact]
    if letter == "b":
        text, stopped = unescaped(arguments.text())
        if stopped:
            call.out(text)
            raise _Stop
        return text[:exact]
    if letter == "c":
        return arguments.text()[:1]
    plus = "+" if "+" in flags else " " if " " in flags else ""
    if letter in "eEfFgG":
        form = ("#" if "#" in flags else "") + f".{6 if exact is None else exact}{letter}"
        value = arguments.real()
        return (plus if value >= 0 else "") + format(value, form)
    value = arguments.integer()
    if letter in "di":
        digits = str(abs(value)).rjust(exact or 0, "0")
        return ("-" if value < 0 else plus) + digits
    digits = format(value & (1 << 64) - 1, {"u": "d"}.get(letter, letter)).rjust(exact or 0, "0")
    return {"x": "0x", "X": "0X", "o": "0"}.get(letter, "") + digits if "#" in flags and value else digits


PROGRAMS: dict[str, Program] = {"printf": printf}
