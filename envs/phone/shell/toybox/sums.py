"""Checksums and dumps: `md5sum`, `sha1sum`, `sha256sum`, `sha512sum`, `base64`, `xxd`, `od`, `cmp`."""

from __future__ import annotations

import base64 as base64_codec
import binascii
import hashlib
import zlib

from envs.phone.shell.command import Failure
from envs.phone.shell.toybox.call import Call, Program


def digest(call: Call) -> None:
    flags, names = call.options("bc")
    algorithm = call.name.removesuffix("sum")
    for name, data in call.inputs(names):
        found = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
        call.out(f"{found}\n" if "b" in flags else f"{found}  {name}\n")


def crc32(call: Call) -> None:
    _, names = call.options("")
    for name, data in call.inputs(names):
        call.out(f"{zlib.crc32(data):08x}{'' if len(names) < 2 else ' ' + name}\n")


def base64(call: Call) -> None:
    flags, names = call.options("diw:")
    width = call.number(flags.get("w", "76"))
    for _, data in call.inputs(names):
        if "d" in flags:
            try:
                call.out(base64_codec.b64decode(b"".join(data.split()), validate="i" not in flags))
            except binascii.Error:
                raise Failure("base64: bad input") from None
            continue
        text = base64_codec.b64encode(data).decode()
        step = width if width > 0 else max(1, len(text))
        lines = [text[i : i + step] for i in range(0, len(text), step)]
        call.out("\n".join(lines) + "\n" * (width > 0 and bool(lines)))


def xxd(call: Call) -> None:
    flags, names = call.options("c:g:l:o:prsu")
    data = call.read(names[0] if names else "-")
    if "r" in flags:
        try:
            call.out(bytes.fromhex("".join(data.decode("latin1").split())))
        except ValueError:
            raise Failure("xxd: bad input") from None
        return
    if "l" in flags:
        data = data[: call.number(flags["l"])]
    plain = "p" in flags
    columns = max(1, min(call.number(flags.get("c", "30" if plain else "16")), 256))
    for at in range(0, len(data), columns):
        row = data[at : at + columns]
        if plain:
            call.out(f"{row.hex()}\n")
            continue
        pairs = " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        shown = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        call.out(f"{at:08x}: {pairs:{columns * 2 + (columns + 1) // 2 - 1}}  {shown}\n")


_OD = {
    "x1": (1, "02x", 3),
    "x2": (2, "04x", 5),
    "x4": (4, "08x", 9),
    "o2": (2, "06o", 8),
    "o1": (1, "03o", 4),
    "d1": (1, "d", 5),
    "u1": (1, "d", 4),
    "d2": (2, "d", 7),
    "u2": (2, "d", 6),
    "c": (1, "c", 4),
}
_OD_LETTERS = {0: "\\0", 7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def od(call: Call) -> None:
    """One format at a time; equal lines are not left out."""
    flags, names = call.options("A:N:cxdbj:vt:")
    short = {"c": "c", "x": "x2", "d": "u2", "b": "o1"}
    kind = flags.get("t") or next((kind for flag, kind in short.items() if flag in flags), "o2")
    if kind not in _OD:
        raise Failure(f"od: bad -t '{kind}'")
    size, form, width = _OD[kind]
    data = b"".join(found for _, found in call.inputs(names))[call.number(flags.get("j", "0")) :]
    data = data[: call.number(flags["N"])] if "N" in flags else data
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        cells = [row[i : i + size] for i in range(0, len(row), size)]
        call.out(_od_address(flags, at) + "".join(_od_cell(cell, form, kind).rjust(width) for cell in cells) + "\n")
    if address := _od_address(flags, len(data)):
        call.out(f"{address}\n")


def _od_address(flags: dict[str, str], at: int) -> str:
    base = flags.get("A", "o")
    return "" if base == "n" else f"{at:07{base}}" if base in "odx" else ""


def _od_cell(cell: bytes, form: str, kind: str) -> str:
    value = int.from_bytes(cell, "little", signed=kind.startswith("d"))
    if form == "c":
        return _OD_LETTERS.get(value) or (chr(value) if 32 <= value < 127 else f"{value:03o}")
    return format(value, form)


def cmp(call: Call) -> None:
    flags, names = call.options("lsn:", least=2)
    one, two = call.read(names[0]), call.read(names[1])
    if one == two:
        return
    call.code = 1
    at = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
    if "s" in flags:
        return
    if at is None:
        call.wrong(f"EOF on {names[0] if len(one) < len(two) else names[1]}")
    else:
        call.out(f"{names[0]} {names[1]} differ: char {at + 1}, line {one[:at].count(10) + 1}\n")


PROGRAMS: dict[str, Program] = {
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"), digest),
    "crc32": crc32,
    "base64": base64,
    "xxd": xxd,
    "od": od,
    "cmp": cmp,
}
