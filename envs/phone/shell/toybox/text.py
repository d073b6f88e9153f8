"""Programs that work on lines and bytes: `cat`, `head`, `tail`, `wc`, `sort`, `uniq`, `cut`, `tr`, `tee`, `printf`,
`seq`, `base64` and the checksums."""

from __future__ import annotations

import base64 as base64_codec
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import groupby

from envs.phone.shell.command import Failure
from envs.phone.shell.lang.escapes import to_bytes, to_text, unescaped
from envs.phone.shell.lang.state import writing
from envs.phone.shell.regex import CLASSES
from envs.phone.shell.toybox.call import Call, Flags, Program, lines_of

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def cat(call: Call) -> None:
    for _, data in call.inputs(call.options("uetv")[1]):
        call.out(data)


def head(call: Call) -> None:
    for data, count, _ in _ends(call, "n:c:qv"):
        call.out(data[:count] if isinstance(data, bytes) else b"".join(data[:count]))


def tail(call: Call) -> None:
    for data, count, given in _ends(call, "n:c:qvf"):
        start = max(count - 1, 0) if given.startswith("+") else max(len(data) - abs(count), 0)
        call.out(data[start:] if isinstance(data, bytes) else b"".join(data[start:]))


def _ends(call: Call, spec: str) -> Iterator[tuple[bytes | list[bytes], int, str]]:
    """Bytes or lines of every file, how many of them are wanted, and the number as it was given.

    Prints a title before each file when there are several.
    """
    call.words = [f"-n{w[1:]}" if re.fullmatch(r"-\d+", w) else w for w in call.words]
    flags, names = call.options(spec)
    given = flags.get("c", flags.get("n", "10"))
    for i, (name, data) in enumerate(call.inputs(names)):
        if ("v" in flags or len(names) > 1) and "q" not in flags:
            call.out(f"{chr(10) * (i > 0)}==> {name} <==\n")
        yield data if "c" in flags else _LINE.findall(data), call.number(given), given


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
        text = _sort_key(line, flags)
        text = text.upper() if "f" in modifiers else text
        number = re.match(r"\s*(-?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300}))", text)
        return (float(number[1]) if number else 0.0) if "n" in modifiers else to_bytes(text)

    lines.sort(key=key if "u" in flags else lambda line: (key(line), to_bytes(line)), reverse="r" in modifiers)
    if "u" in flags:
        lines = [next(equal) for _, equal in groupby(lines, key)]
    data = to_bytes("".join(f"{line}\n" for line in lines))
    if "o" in flags:
        call.write(flags["o"], data)
    else:
        call.out(data)


def _sort_key(line: str, flags: Flags) -> str:
    found = re.match(r"(\d{1,6})[a-zA-Z]*(?:,(\d{1,6}))?", flags.get("k", ""))
    if not found:
        return line
    separator = flags.get("t", "")
    fields = line.split(separator) if separator else re.findall(r"\s*\S+", line)
    return separator.join(fields[int(found[1]) - 1 : int(found[2] or 10**6)])


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
        raise call.usage("Needs -CFfcb")
    ranges = [_range(part) for part in flags[chosen].split(",")]
    delimiter = flags.get("d", "\t") if chosen == "f" else ""
    for _, data in call.inputs(names):
        for line in lines_of(data):
            if delimiter and delimiter not in line:
                call.out("" if "s" in flags else f"{line}\n")
                continue
            items = enumerate(line.split(delimiter) if delimiter else line)
            kept = [item for i, item in items if any(low <= i < high for low, high in ranges)]
            call.out(delimiter.join(kept) + "\n")


def _range(part: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{0,9})(-?)(\d{0,9})", part)
    first = int(found[1] or 1) if found else 0
    last = (int(found[3] or 10**9) if found[2] else first) if found else 0
    if first < 1 or last < first or part in ("", "-"):
        raise Failure(f"cut: bad list '{part}'")
    return first - 1, last


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
    if squeezed := bytes(set(second or first)) if "s" in flags else b"":
        data = re.sub(b"([" + re.escape(squeezed) + b"])\\1+", rb"\1", data)
    call.out(data)


def _tr_set(text: str) -> list[int]:
    """The bytes of a set; classes and escapes are resolved first."""

    def expand(found: re.Match[str]) -> str:
        pattern = re.compile(f"[{CLASSES[found[1]]}]" if found[1] in CLASSES else "(?!)", re.ASCII)
        return "".join(chr(c) for c in range(128) if pattern.match(chr(c)))

    data = to_bytes(unescaped(re.sub(r"\[:(\w+):\]", expand, text))[0])
    out: list[int] = []
    for found in re.finditer(rb"(.)-(.)|(.)", data, re.DOTALL):
        out += range(found[1][0], found[2][0] + 1) if found[1] else found[3]
    return out


def tee(call: Call) -> None:
    flags, names = call.options("ai")
    data = call.stdin()
    for name in names:
        try:
            writing(call.shell, name, "a" in flags).write(data)
        except Failure as failure:
            call.fail(f"{name}: {failure.reason}")
    call.out(data)


def seq(call: Call) -> None:
    call.words = [f"./{w}" if re.match(r"-[\d.]", w) else w for w in call.words]  # a number, not an option
    flags, words = call.options("s:", least=1)
    words = [w.removeprefix("./") for w in words]
    if len(words) > 3 or not all(re.fullmatch(r"-?\d{1,15}(?:\.\d{1,9})?", word) for word in words):
        raise Failure("seq: bad number")
    first, step, last = map(Decimal, [words[0] if words[1:] else "1", words[1] if words[2:] else "1", words[-1]])
    if step == 0:
        raise Failure("seq: bad increment")
    count = max(0, int((last - first) / step) + 1 if (last - first) / step >= 0 else 0)
    call.spend(count >> 1)
    shown = [str(first + i * step) for i in range(count)]
    call.out(flags.get("s", "\n").join(shown) + "\n" * bool(shown))


# --- checksums -----------------------------------------------------------------------------------------------------


def digest(call: Call) -> None:
    flags, names = call.options("b")
    for name, data in call.inputs(names):
        found = hashlib.new(call.name.removesuffix("sum"), data, usedforsecurity=False).hexdigest()
        call.out(f"{found}\n" if "b" in flags else f"{found}  {name}\n")


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
        lines = [text[i : i + width] for i in range(0, len(text), width)] if width > 0 else [text]
        call.out("\n".join(lines) + "\n" * (width > 0 and bool(text)))


# --- printf --------------------------------------------------------------------------------------------------------

_DIRECTIVE = re.compile(r"(%)(?:(%)|([-+ #0]*)(\d{0,6})(?:\.(\d{0,6}))?([a-zA-Z]?))")
WIDEST = 100_000


def printf(call: Call) -> None:
    words = call.words[1:] if call.words[:1] == ["--"] else call.words
    if not words:
        raise call.usage("Needs 1 argument")
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
    """One directive, which consumes an argument; a missing one is empty."""
    letter = found[6]
    if letter == "" or letter not in "sbcdiouxXeEfFgG":
        raise Failure(f"printf: bad '{found[0]}'")
    if max(int(found[4] or 0), int(found[5] or 0)) > WIDEST:
        raise Failure("printf: the output is too wide")
    word = arguments.pop(0) if arguments else ""
    if letter in "sbc":
        text = {"s": word, "b": unescaped(word, echo=True)[0], "c": word[:1]}[letter]
        return (found[0][:-1] + "s") % text
    if letter in "eEfFgG":
        return found[0] % _number(call, word, float)
    value = int(_number(call, word, lambda digits: int(digits, 16 if "x" in digits.lower() else 10)))
    return found[0] % (value if letter in "di" else value & (1 << 64) - 1)


def _number(call: Call, word: str, convert: Callable[[str], float]) -> float:
    """A number, or the code of the character behind a quote."""
    if word[:1] in ("'", '"') and len(word) > 1:
        return ord(word[1])
    try:
        return convert(word.strip()[:400] or "0")
    except ValueError:
        call.fail(f"bad number '{word}'")
        return 0


PROGRAMS: dict[str, Program] = {
    **{f.__name__: f for f in (cat, head, tail, wc, sort, uniq, cut, tr, tee, seq, base64, printf)},
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum"), digest),
}
