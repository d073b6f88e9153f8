"""Programs that work on lines and bytes: `cat`, `head`, `tail`, `wc`, `sort`, `uniq`, `cut`, `tr` and `tee`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import unescaped
from envs.phone.shell.lang.streams import to_bytes, to_text, writing
from envs.phone.shell.regex import CLASSES
from envs.phone.shell.toybox.call import Call, Program, lines_of

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def cat(call: Call) -> None:
    _, names = call.options("uetv")
    for _, data in call.inputs(names):
        call.out(data)


def _count_option(call: Call, spec: str) -> tuple[dict[str, str], list[str]]:
    """Reads `-5` as `-n 5`."""
    call.words = [f"-n{w[1:]}" if re.fullmatch(r"-\d+", w) else w for w in call.words]
    return call.options(spec)


def head(call: Call) -> None:
    flags, names = _count_option(call, "n:c:qv")
    for data in _titled(call, flags, names):
        count = call.number(flags.get("c", flags.get("n", "10")))
        call.out(data[:count] if "c" in flags else b"".join(_LINE.findall(data)[:count]))


def tail(call: Call) -> None:
    flags, names = _count_option(call, "n:c:qvf")
    given = flags.get("c", flags.get("n", "10"))
    count = call.number(given)
    for data in _titled(call, flags, names):
        parts = data if "c" in flags else _LINE.findall(data)
        start = max(count - 1, 0) if given.startswith("+") else max(len(parts) - abs(count), 0)
        call.out(data[start:] if "c" in flags else b"".join(parts[start:]))


def _titled(call: Call, flags: dict[str, str], names: list[str]) -> Iterator[bytes]:
    """The contents, with a title before each when there are several."""
    for i, (name, data) in enumerate(call.inputs(names)):
        if ("v" in flags or len(names) > 1) and "q" not in flags:
            call.out(f"{chr(10) * (i > 0)}==> {name} <==\n")
        yield data


def wc(call: Call) -> None:
    flags, names = call.options("clwm")
    chosen = [f for f in "lwmc" if f in flags] or ["l", "w", "c"]
    rows: list[tuple[str, dict[str, int]]] = []
    for name, data in call.inputs(names):
        counts = {"l": data.count(b"\n"), "w": len(data.split()), "m": len(to_text(data)), "c": len(data)}
        rows.append((name if names else "", counts))
    if len(names) > 1:
        rows.append(("total", {f: sum(counts[f] for _, counts in rows) for f in chosen}))
    for name, counts in rows:
        shown = " ".join(f"{counts[f]:7d}" if len(names) > 1 else str(counts[f]) for f in chosen)
        call.out(f"{shown}{' ' * bool(name)}{name}\n")


def sort(call: Call) -> None:
    flags, names = call.options("rnufk:t:o:b")
    lines = [line for _, data in call.inputs(names) for line in lines_of(data)]
    call.spend(len(lines) >> 3)
    modifiers = "".join(flags) + flags.get("k", "")

    def key(line: str) -> object:
        text = _sort_key(line, flags.get("k", ""), flags.get("t"))
        text = text.upper() if "f" in modifiers else text
        return _leading_number(text) if "n" in modifiers else to_bytes(text)

    lines.sort(key=key if "u" in flags else lambda line: (key(line), to_bytes(line)), reverse="r" in modifiers)
    if "u" in flags:
        lines = [line for i, line in enumerate(lines) if i == 0 or key(line) != key(lines[i - 1])]
    data = to_bytes("".join(f"{line}\n" for line in lines))
    if "o" in flags:
        call.write(flags["o"], data)
    else:
        call.out(data)


def _sort_key(line: str, key: str, separator: str | None) -> str:
    found = re.match(r"(\d{1,6})[a-zA-Z]*(?:,(\d{1,6}))?", key)
    if not found:
        return line
    first, last = int(found[1]), int(found[2] or 10**6)
    fields = line.split(separator) if separator else re.findall(r"\s*\S+", line)
    return (separator or "").join(fields[first - 1 : last])


def _leading_number(text: str) -> float:
    found = re.match(r"\s*(-?\d{0,300}(?:\.\d{0,300})?)", text)
    try:
        return float(found[1]) if found else 0.0
    except ValueError:
        return 0.0


def uniq(call: Call) -> None:
    flags, names = call.options("cdiu")
    lines = lines_of(call.read(names[0] if names else "-"))
    for _, equal in groupby(lines, str.lower if "i" in flags else None):
        group = list(equal)
        if "d" in flags and len(group) == 1 or "u" in flags and len(group) > 1:
            continue
        call.out(f"{len(group):7d} {group[0]}\n" if "c" in flags else f"{group[0]}\n")


def cut(call: Call) -> None:
    flags, names = call.options("b:c:f:d:sn")
    chosen = next((f for f in "bcf" if f in flags), None)
    if chosen is None:
        raise Failure('cut: Needs -CFfcb (see "cut --help")')
    ranges = [_range(call, part) for part in flags[chosen].split(",")]
    delimiter = flags.get("d", "\t")
    for _, data in call.inputs(names):
        for line in lines_of(data):
            if chosen != "f":
                call.out("".join(_cut(list(line), ranges)) + "\n")
            elif delimiter in line:
                call.out(delimiter.join(_cut(line.split(delimiter), ranges)) + "\n")
            elif "s" not in flags:
                call.out(f"{line}\n")


def _range(call: Call, part: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{0,9})(-?)(\d{0,9})", part)
    if not found or part in ("", "-"):
        raise Failure(f"cut: bad list '{part}'")
    first = int(found[1] or 1)
    last = int(found[3] or 10**9) if found[2] else first
    if first < 1 or last < first:
        raise Failure(f"cut: bad list '{part}'")
    return first - 1, last


def _cut(items: list[str], ranges: list[tuple[int, int]]) -> list[str]:
    return [item for i, item in enumerate(items) if any(low <= i < high for low, high in ranges)]


def tr(call: Call) -> None:
    flags, sets = call.options("+cCdst", least=1)
    first, second = _tr_set(sets[0]), _tr_set(sets[1]) if len(sets) > 1 else []
    data = call.stdin()
    if "c" in flags or "C" in flags:
        first = [c for c in range(256) if c not in set(first)]
    if "d" in flags:
        data = data.translate(None, bytes(set(first)))
    elif second:
        table = bytearray(range(256))
        for i, char in enumerate(first):
            table[char] = second[min(i, len(second) - 1)]
        data = data.translate(bytes(table))
    elif "s" not in flags:
        raise Failure("tr: Needs 2 arguments")
    if "s" in flags:
        squeezed = bytes(set(second or first))
        data = re.sub(b"([" + re.escape(squeezed) + b"])\\1+", rb"\1", data) if squeezed else data
    call.out(data)


def _tr_set(text: str) -> list[int]:
    """The bytes of a set; classes and escapes are resolved first."""

    def expand(found: re.Match[str]) -> str:
        pattern = re.compile(f"[{CLASSES.get(found[1], '')}]" if found[1] in CLASSES else "(?!)", re.ASCII)
        return "".join(chr(c) for c in range(128) if pattern.match(chr(c)))

    data, out, at = to_bytes(unescaped(re.sub(r"\[:(\w+):\]", expand, text))[0]), [], 0
    while at < len(data):
        if data[at + 1 : at + 2] == b"-" and at + 2 < len(data):
            out += range(data[at], data[at + 2] + 1)
            at += 3
        else:
            out.append(data[at])
            at += 1
    return out


def tee(call: Call) -> None:
    flags, names = call.options("ai")
    data = call.stdin()
    for name in names:
        try:
            writing(call.shell, name, "a" in flags).write(data)
        except Failure as failure:
            call.wrong(f"{name}: {str(failure).rpartition(': ')[2]}")
    call.out(data)
    call.shell.flush()


PROGRAMS: dict[str, Program] = {f.__name__: f for f in (cat, head, tail, wc, sort, uniq, cut, tr, tee)}
