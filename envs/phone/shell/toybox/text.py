"""Programs that work on lines and bytes: `cat`, `head`, `tail`, `wc`, `sort`, `base64` and the checksums."""

from __future__ import annotations

import base64 as base64_codec
import binascii
import hashlib
import re
from collections.abc import Iterator

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import to_bytes
from envs.phone.shell.toybox.call import Call, Program, lines_of

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def cat(call: Call) -> None:
    for _, data in call.inputs(call.options("u")[1]):
        call.out(data)


def head(call: Call) -> None:
    for data, count, _ in _ends(call):
        call.out(data[:count] if isinstance(data, bytes) else b"".join(data[:count]))


def tail(call: Call) -> None:
    for data, count, given in _ends(call):
        start = max(count - 1, 0) if given.startswith("+") else max(len(data) - abs(count), 0)
        call.out(data[start:] if isinstance(data, bytes) else b"".join(data[start:]))


def _ends(call: Call) -> Iterator[tuple[bytes | list[bytes], int, str]]:
    """Bytes or lines of every file, how many of them are wanted, and the number as it was given.

    Prints a title before each file when there are several.
    """
    call.words = [f"-n{w[1:]}" if re.fullmatch(r"-\d+", w) else w for w in call.words]
    flags, names = call.options("n:c:")
    given = flags.get("c", flags.get("n", "10"))
    for i, (name, data) in enumerate(call.inputs(names)):
        if len(names) > 1:
            call.out(f"{chr(10) * (i > 0)}==> {name} <==\n")
        yield data if "c" in flags else _LINE.findall(data), call.number(given), given


def wc(call: Call) -> None:
    flags, names = call.options("clw")
    chosen = [f for f in "lwc" if f in flags] or ["l", "w", "c"]
    rows: list[tuple[str, dict[str, int]]] = []
    for name, data in call.inputs(names):
        rows.append((name if names else "", {"l": data.count(b"\n"), "w": len(data.split()), "c": len(data)}))
    if len(names) > 1:
        rows.append(("total", {f: sum(counts[f] for _, counts in rows) for f in chosen}))
    for name, counts in rows:
        shown = " ".join(f"{counts[f]:7d}" if len(names) > 1 else str(counts[f]) for f in chosen)
        call.out(f"{shown}{' ' * bool(name)}{name}\n")


def sort(call: Call) -> None:
    flags, names = call.options("rnu")
    lines = [line for _, data in call.inputs(names) for line in lines_of(data)]
    call.spend(len(lines) >> 3)

    def key(line: str) -> tuple[float, bytes]:
        number = re.match(r"\s*(-?\d{1,300}(?:\.\d{0,300})?)", line) if "n" in flags else None
        return float(number[1]) if number else 0.0, to_bytes(line)

    lines = sorted(set(lines) if "u" in flags else lines, key=key, reverse="r" in flags)
    call.out("".join(f"{line}\n" for line in lines))


def digest(call: Call) -> None:
    for name, data in call.inputs(call.options("")[1]):
        found = hashlib.new(call.name.removesuffix("sum"), data, usedforsecurity=False).hexdigest()
        call.out(f"{found}  {name}\n")


def base64(call: Call) -> None:
    flags, names = call.options("dw:")
    width = call.number(flags.get("w", "76"))
    for _, data in call.inputs(names):
        if "d" in flags:
            try:
                call.out(base64_codec.b64decode(b"".join(data.split()), validate=True))
            except binascii.Error:
                raise Failure("base64: bad input") from None
            continue
        text = base64_codec.b64encode(data).decode()
        lines = [text[i : i + width] for i in range(0, len(text), width)] if width > 0 else [text]
        call.out("\n".join(lines) + "\n" * (width > 0 and bool(text)))


PROGRAMS: dict[str, Program] = {
    **{f.__name__: f for f in (cat, head, tail, wc, sort, base64)},
    **dict.fromkeys(("md5sum", "sha256sum"), digest),
}
