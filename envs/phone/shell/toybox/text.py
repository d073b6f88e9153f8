"""Programs for lines and bytes: `cat`, `head`, `tail`, `wc` and `sort`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mobilerl.envs.phone.shell.lang.escapes import to_bytes
from mobilerl.envs.phone.shell.toybox.call import Call, Program, lines_of

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def cat(call: Call) -> None:
    for _, data in call.inputs(call.options("u")[1]):
        call.out(data)


def head(call: Call) -> None:
    _end(call, lambda data, count: data[:count])


def tail(call: Call) -> None:
    _end(call, lambda data, count: data[max(len(data) - count, 0) :])


def _end(call: Call, part: Callable[[Any, int], Any]) -> None:
    """Prints a part of the bytes or lines of every file."""
    call.words = [f"-n{w[1:]}" if re.fullmatch(r"-\d+", w) else w for w in call.words]
    flags, names = call.options("n:c:")
    count = abs(call.number(flags.get("c", flags.get("n", "10"))))
    for _, data in call.inputs(names):
        call.out(part(data, count) if "c" in flags else b"".join(part(_LINE.findall(data), count)))


def wc(call: Call) -> None:
    flags, names = call.options("clw")
    for name, data in call.inputs(names):
        counts = {"l": data.count(b"\n"), "w": len(data.split()), "c": len(data)}
        shown = [str(counts[f]) for f in "lwc" if f in flags or not flags]
        call.out(" ".join([*shown, name] if names else shown) + "\n")


def sort(call: Call) -> None:
    flags, names = call.options("rnu")
    lines = [line for _, data in call.inputs(names) for line in lines_of(data)]
    call.spend(len(lines) >> 3)

    def key(line: str) -> tuple[float, bytes]:
        number = re.match(r"\s*(-?\d{1,300}(?:\.\d{0,300})?)", line) if "n" in flags else None
        return float(number[1]) if number else 0.0, to_bytes(line)

    lines = sorted(set(lines) if "u" in flags else lines, key=key, reverse="r" in flags)
    call.out("".join(f"{line}\n" for line in lines))


PROGRAMS: dict[str, Program] = {f.__name__: f for f in (cat, head, tail, wc, sort)}
