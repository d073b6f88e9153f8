"""Programs that work on lines and bytes: `cat`, `head`, `tail`, `wc`, `sort`, `uniq`, `cut`, `tr`, `tee` and others."""

from __future__ import annotations

import re

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import unescaped
from envs.phone.shell.lang.streams import to_bytes, to_text, writing
from envs.phone.shell.regex import CLASSES
from envs.phone.shell.toybox.call import Call, Program, lines_of


def cat(call: Call) -> None:
    _, names = call.options("uetv")
    for _, data in call.inputs(names):
        call.out(data)


def tac(call: Call) -> None:
    for _, data in call.inputs(call.options("")[1]):
        call.out("".join(f"{line}\n" for line in lines_of(data)[::-1]))


def rev(call: Call) -> None:
    for _, data in call.inputs(call.options("")[1]):
        call.out("".join(f"{line[::-1]}\n" for line in lines_of(data)))


def _count_option(call: Call, spec: str) -> tuple[dict[str, str], list[str]]:
    """Reads `-5` as `-n 5`."""
    call.words = [f"-n{w[1:]}" if re.fullmatch(r"-\d+", w) else w for w in call.words]
    return call.options(spec)


def head(call: Call) -> None:
    flags, names = _count_option(call, "n:c:qv")
    for data in _titled(call, flags, names):
        if "c" in flags:
            call.out(data[: call.number(flags["c"])])
            continue
        count = call.number(flags.get("n", "10"))
        call.out(b"".join(_newlined(data)[:count]))


def tail(call: Call) -> None:
    flags, names = _count_option(call, "n:c:qvf")
    for data in _titled(call, flags, names):
        unit = "c" if "c" in flags else "n"
        given = flags.get(unit, "10")
        count = call.number(given)
        parts = data if unit == "c" else _newlined(data)
        start = max(count - 1, 0) if given.startswith("+") else max(len(parts) - abs(count), 0)
        call.out(parts[start:] if isinstance(parts, bytes) else b"".join(parts[start:]))


def _newlined(data: bytes) -> list[bytes]:
    """The lines with their newlines; the last may lack it."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _titled(call: Call, flags: dict[str, str], names: list[str]):
    first = True
    for name, data in call.inputs(names):
        if ("v" in flags or len(names) > 1) and "q" not in flags:
            call.out(f"{'' if first else chr(10)}==> {name} <==\n")
        first = False
        yield data


def wc(call: Call) -> None:
    flags, names = call.options("clwm")
    chosen = [f for f in "lwmc" if f in flags] or ["l", "w", "c"]
    total, wide = dict.fromkeys("lwmc", 0), len(names) > 1
    for name, data in call.inputs(names):
        numbers = {"l": data.count(b"\n"), "w": len(data.split()), "m": len(to_text(data)), "c": len(data)}
        total = {k: total[k] + n for k, n in numbers.items()}
        _counted(call, numbers, chosen, name if names else "", wide)
    if wide:
        _counted(call, total, chosen, "total", wide)


def _counted(call: Call, numbers: dict[str, int], chosen: list[str], name: str, wide: bool) -> None:
    shown = " ".join(f"{numbers[f]:7d}" if wide else str(numbers[f]) for f in chosen)
    call.out(f"{shown}{' ' * bool(name)}{name}\n")


def sort(call: Call) -> None:
    flags, names = call.options("rnufk:t:o:bdigMVsxcz")
    lines: list[str] = []
    for _, data in call.inputs(names):
        lines += lines_of(data)
    call.spend(len(lines) >> 3)

    def key(line: str) -> object:
        text = _sort_key(line, flags.get("k", ""), flags.get("t"))
        modifiers = "".join(flags) + flags.get("k", "")
        if "f" in modifiers:
            text = text.upper()
        if "V" in modifiers:
            return [(int(p), "") if p.isdecimal() else (-1, p) for p in re.findall(r"\d{1,18}|\D+", text)]
        return _leading_number(text) if "n" in modifiers or "g" in modifiers else to_bytes(text)

    last = (lambda line: (key(line), to_bytes(line))) if "u" not in flags and "s" not in flags else key
    backwards = "r" in flags or "r" in flags.get("k", "")
    if "c" in flags:
        call.code = int(lines != sorted(lines, key=last, reverse=backwards))
        return
    lines.sort(key=last, reverse=backwards)
    if "u" in flags:
        kept: list[str] = []
        for line in lines:
            if not kept or key(kept[-1]) != key(line):
                kept.append(line)
        lines = kept
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
    flags, names = call.options("cdiuf:s:w:z")
    groups: list[list[str]] = []
    for line in lines_of(call.read(names[0] if names else "-")):
        if groups and _uniq_key(call, groups[-1][0], flags) == _uniq_key(call, line, flags):
            groups[-1].append(line)
        else:
            groups.append([line])
    for group in groups:
        if ("d" in flags and len(group) == 1) or ("u" in flags and len(group) > 1):
            continue
        call.out(f"{len(group):7d} {group[0]}\n" if "c" in flags else f"{group[0]}\n")


def _uniq_key(call: Call, line: str, flags: dict[str, str]) -> str:
    if "f" in flags:
        line = re.sub(rf"^(?:\s*\S+){{0,{min(call.number(flags['f']), 1000)}}}", "", line)
    line = line[call.number(flags.get("s", "0")) :]
    line = line[: call.number(flags["w"])] if "w" in flags else line
    return line.lower() if "i" in flags else line


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


def nl(call: Call) -> None:
    _, names = call.options("b:n:s:w:v:")
    number = 0
    for _, data in call.inputs(names):
        for line in lines_of(data):
            number += bool(line)
            call.out(f"{number:6d}\t{line}\n" if line else f"{'':6} {line}\n")


def paste(call: Call) -> None:
    flags, names = call.options("d:s")
    columns = [lines_of(data) for _, data in call.inputs(names)]
    delimiter = flags.get("d", "\t").replace("\\n", "\n").replace("\\t", "\t")[:1]
    if "s" in flags:
        call.out("".join(delimiter.join(lines) + "\n" for lines in columns))
        return
    for i in range(max(map(len, columns), default=0)):
        call.out(delimiter.join(lines[i] if i < len(lines) else "" for lines in columns) + "\n")


def strings(call: Call) -> None:
    flags, names = call.options("n:af")
    least = max(1, min(call.number(flags.get("n", "4")), 10_000))
    for _, data in call.inputs(names):
        for run in re.findall(rb"[\t -~]{%d,}" % least, data):
            call.out(run + b"\n")


def truncate(call: Call) -> None:
    flags, names = call.options("s:c", least=1)
    size = call.number(flags.get("s", "0"))
    for name in names:
        old = call.phone.files.get(call.path(name), b"")
        if size > files.MAX_STORAGE:
            raise Failure(f"truncate: '{name}': File too large")
        call.shell.budget.take(max(0, size))
        call.write(name, old[:size].ljust(size, b"\0"))


PROGRAMS: dict[str, Program] = {
    "cat": cat,
    "tac": tac,
    "rev": rev,
    "head": head,
    "tail": tail,
    "wc": wc,
    "sort": sort,
    "uniq": uniq,
    "cut": cut,
    "tr": tr,
    "tee": tee,
    "nl": nl,
    "paste": paste,
    "strings": strings,
    "truncate": truncate,
}
