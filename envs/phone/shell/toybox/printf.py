"""`printf`."""

from __future__ import annotations

import re

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import unescaped
from envs.phone.shell.toybox.call import Call, Program

_DIRECTIVE = re.compile(r"(%)(?:(%)|([-+ #0]*)(\d{0,6})(?:\.(\d{0,6}))?([a-zA-Z]?))")
WIDEST = 100_000


def printf(call: Call) -> None:
    words = call.words[1:] if call.words[:1] == ["--"] else call.words
    if not words:
        raise Failure('printf: Needs 1 argument (see "printf --help")')
    form, arguments = words[0], words[1:]
    while True:
        left, at = len(arguments), 0
        for found in _DIRECTIVE.finditer(form):
            text, _ = unescaped(form[at : found.start()])
            call.out(text + ("%" if found[2] else _directive(call, found, arguments)))
            at = found.end()
        call.out(unescaped(form[at:])[0])
        call.spend(1)
        if not arguments or len(arguments) == left:
            return


def _directive(call: Call, found: re.Match[str], arguments: list[str]) -> str:
    """One directive, which uses up an argument; a missing one is empty."""
    flags, letter, wide = found[3], found[6], int(found[4] or 0)
    exact = None if found[5] is None else int(found[5] or 0)
    if letter == "" or letter not in "sbcdiouxXeEfFgG":
        raise Failure(f"printf: bad '{found[0]}'")
    if max(wide, exact or 0) > WIDEST:
        raise Failure("printf: the output is too wide")
    word = arguments.pop(0) if arguments else ""
    if letter in "sbc":
        text = unescaped(word, echo=True)[0] if letter == "b" else word
        text = text[:1] if letter == "c" else text[:exact]
    else:
        sign = "+" if "+" in flags else " " if " " in flags else ""
        if letter in "eEfFgG":
            text = format(_number(call, word, float), f"{sign}.{6 if exact is None else exact}{letter}")
        else:
            value = int(_number(call, word, lambda digits: int(digits, 16 if "x" in digits.lower() else 10)))
            value = value if letter in "di" else value & (1 << 64) - 1
            prefix = {"x": "0x", "X": "0X", "o": "0"}.get(letter, "") if "#" in flags and value else ""
            digits = format(abs(value), {"u": "d", "i": "d"}.get(letter, letter)).rjust(exact or 0, "0")
            text = ("-" if value < 0 else sign if letter in "di" else "") + prefix + digits
        if "0" in flags and "-" not in flags and (exact is None or letter in "eEfFgG"):
            text = text.zfill(wide)
    return text.ljust(wide) if "-" in flags else text.rjust(wide)


def _number(call: Call, word: str, read) -> float:
    """A number, or the code of the character behind a quote."""
    if word[:1] in ("'", '"') and len(word) > 1:
        return ord(word[1])
    try:
        return read(word.strip()[:400] or "0")
    except ValueError:
        call.wrong(f"bad number '{word}'")
        return 0


PROGRAMS: dict[str, Program] = {"printf": printf}
