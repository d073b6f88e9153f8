"""Programs that look at files: `ls`, `stat`, `du`, `df`."""

from __future__ import annotations

import posixpath
import stat as modes
from datetime import UTC, datetime, timedelta

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.toybox.call import Call, Flags, Program

_IDS = {"root": 0, "system": 1000, "shell": 2000, "sdcard_rw": 1015, "media_rw": 1023, "u0_a139": 10139}
_UNITS = "BKMGTP"


def moment(mtime: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=mtime)


def user_id(name: str) -> int:
    return _IDS.get(name, int(name) if name.isdecimal() and len(name) < 9 else 0)


def blocks(call: Call, path: str) -> int:
    """Kilobytes on the disk."""
    return -(-files.size(call.phone, path) // 4096) * 4


def human(size: int) -> str:
    """A size as `-h` prints it."""
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return str(size)
    return f"{value:.1f}{_UNITS[unit]}" if value < 10 else f"{value:.0f}{_UNITS[unit]}"


def ls(call: Call) -> None:
    flags, names = call.options("aAldR1trShFpinCcmxgokqsuZL")
    call.spend(len(call.phone.files) >> 4)
    tree = files.folders(call.phone)
    single, folders = [], []
    for name in names or ["."]:
        path = call.path(name)
        if path in tree and "d" not in flags:
            folders.append((name, path))
        elif path in tree or files.exists(call.phone, path):
            single.append((name, path))
        else:
            call.wrong(f"{name}: No such file or directory")
    _entries(call, flags, single)
    titled = "R" in flags or len(names) > 1
    first = not single
    while folders:
        name, path = folders.pop(0)
        call.spend(1)
        if titled:
            call.out(f"{'' if first else chr(10)}{name}:\n")
        first = False
        inside = [(n, posixpath.join(path, n)) for n in tree[path] if "a" in flags or "A" in flags or n[0] != "."]
        if "a" in flags:
            inside = [(".", path), ("..", posixpath.dirname(path)), *inside]
        if "l" in flags or "s" in flags:
            total = sum(blocks(call, p) for _, p in inside)
            call.out(f"total {human(total << 10) if 'h' in flags else total}\n")
        _entries(call, flags, inside)
        if "R" in flags:
            start = name if "/" in name or name == "." else f"./{name}"
            folders[:0] = [(posixpath.join(start, n), p) for n, p in inside if p in tree and n not in (".", "..")]


def _entries(call: Call, flags: Flags, found: list[tuple[str, str]]) -> None:
    call.spend(len(found) >> 3)
    if "t" in flags:
        found = sorted(found, key=lambda e: -files.attributes(call.phone, e[1]).mtime)
    elif "S" in flags:
        found = sorted(found, key=lambda e: -files.size(call.phone, e[1]))
    else:
        found = sorted(found, key=lambda e: e[0].encode(errors="surrogateescape")) if "f" not in flags else found
    if "r" in flags:
        found = found[::-1]
    if "l" not in flags:
        for name, path in found:
            number = f"{_inode(path)} " if "i" in flags else ""
            call.out(f"{number}{f'{blocks(call, path)} ' if 's' in flags else ''}{name}{_mark(call, flags, path)}\n")
        return
    rows = [_long(call, flags, name, path) for name, path in found]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(5)]
    for mode, links, owner, group, size, rest in rows:
        call.out(
            f"{mode:{widths[0]}} {links:>{widths[1]}} {owner:{widths[2]}} {group:{widths[3]}} "
            f"{size:>{widths[4]}} {rest}\n"
        )


def _mark(call: Call, flags: Flags, path: str) -> str:
    mode = files.attributes(call.phone, path).mode if "F" in flags or "p" in flags else 0
    if modes.S_ISDIR(mode):
        return "/"
    return "*" if "F" in flags and modes.S_ISREG(mode) and mode & 0o111 else ""


def _long(call: Call, flags: Flags, name: str, path: str) -> tuple[str, ...]:
    known = files.attributes(call.phone, path)
    size = files.size(call.phone, path)
    owner, group = known.owner, known.group
    time = "%Y-%m-%d %H:%M:%S.000000000 +0000" if flags["l"] == "ll" else "%Y-%m-%d %H:%M"
    if "n" in flags:
        owner, group = str(user_id(owner)), str(user_id(group))
    return (modes.filemode(known.mode), str(_links(call, path)), owner, group,
            human(size) if "h" in flags else str(size),
            f"{moment(known.mtime):{time}} {name}{_mark(call, flags, path)}")  # fmt: skip


def _links(call: Call, path: str) -> int:
    if not modes.S_ISDIR(files.attributes(call.phone, path).mode):
        return 1
    call.spend(1 + (len(call.phone.files) >> 4))
    inside = path.rstrip("/") + "/"
    below = {
        name[len(inside) :].partition("/")[0]
        for name in [*call.phone.files, *(f"{r}/" for r in files.ROOTS)]
        if name.startswith(inside) and "/" in name[len(inside) :]
    }
    return 2 + len(below - {""})


def _inode(path: str) -> int:
    """Made up from the path, so that it stays."""
    return 8192 + sum(ord(c) * 31 ** (i % 4) for i, c in enumerate(path)) % 1_000_003


def stat(call: Call) -> None:
    flags, names = call.options("c:ftL", least=1)
    for name in names:
        path = call.path(name)
        if not files.exists(call.phone, path):
            call.wrong(f"'{name}': No such file or directory")
        elif "c" in flags:
            call.out(_stat_format(call, flags["c"], name, path) + "\n")
        else:
            call.out(
                _stat_format(
                    call,
                    "  File: %n\n  Size: %s\t Blocks: %b\t IO Blocks: 512\t %F\n"
                    "Device: fd02h/64770d\t Inode: %i\t Links: %h\t Device type: 0,0\n"
                    "Access: (0%a/%A)\tUid: (%5u/%8U)\tGid: (%5g/%8G)\n"
                    "Access: %x\nModify: %y\nChange: %z\n",
                    name,
                    path,
                )
            )


def _stat_format(call: Call, form: str, name: str, path: str) -> str:
    known, size = files.attributes(call.phone, path), files.size(call.phone, path)
    kind = {modes.S_IFDIR: "directory", modes.S_IFCHR: "character device"}.get(
        modes.S_IFMT(known.mode), "regular file" if size else "regular empty file"
    )
    time = f"{moment(known.mtime):%Y-%m-%d %H:%M:%S}.000000000 +0000"
    values: dict[str, object] = {
        "n": name,
        "N": name,
        "s": size,
        "b": 2 * blocks(call, path),
        "B": 512,
        "F": kind,
        "a": f"{modes.S_IMODE(known.mode):o}",
        "A": modes.filemode(known.mode),
        "f": f"{known.mode:x}",
        "u": user_id(known.owner),
        "U": known.owner,
        "g": user_id(known.group),
        "G": known.group,
        "h": _links(call, path),
        "i": _inode(path),
        "X": known.mtime,
        "Y": known.mtime,
        "Z": known.mtime,
        "x": time,
        "y": time,
        "z": time,
        "d": 64770,
        "D": "fd02",
        "o": 4096,
        "m": "/",
        "%": "%",
    }
    out, at = [], 0
    while at < len(form):
        char = form[at]
        at += 1
        if char != "%":
            out.append(char)
            continue
        width = ""
        while at < len(form) and form[at].isdecimal() and len(width) < 3:
            width += form[at]
            at += 1
        letter = form[at : at + 1]
        at += 1
        out.append(str(values.get(letter, "?")).rjust(int(width or 0)))
    return "".join(out)


def du(call: Call) -> None:
    flags, names = call.options("ahksmcd:LHxlK")
    deepest = call.number(flags["d"]) if "d" in flags else 10**6
    call.spend(len(call.phone.files) >> 4)
    tree = files.folders(call.phone)
    total = 0
    for name in names or ["."]:
        path = call.path(name)
        if path not in tree and not files.exists(call.phone, path):
            call.wrong(f"{name}: No such file or directory")
            continue
        total += _du(call, tree, flags, name, path, 0, deepest)
    if "c" in flags:
        call.out(f"{_du_size(flags, total)}\ttotal\n")


def _du(call: Call, tree: dict[str, list[str]], flags: Flags, name: str, path: str, depth: int, deepest: int) -> int:
    call.spend(1)
    total = blocks(call, path)
    for inside in tree.get(path, ()) if depth < 60 else ():
        total += _du(call, tree, flags, posixpath.join(name, inside), posixpath.join(path, inside), depth + 1, deepest)
    shown = depth == 0 or "s" not in flags and (path in tree or "a" in flags) and depth <= deepest
    if shown:
        call.out(f"{_du_size(flags, total)}\t{name}\n")
    return total


def _du_size(flags: Flags, size: int) -> str:
    if "h" in flags:
        return human(size << 10)
    return str(-(-size // 1024) if "m" in flags else size)


def df(call: Call) -> None:
    flags, names = call.options("hPkaiHtT")
    for name in names:
        if not files.exists(call.phone, call.path(name)):
            raise Failure(f"df: {name}: No such file or directory")
    used = files.used(call.phone) >> 10
    numbers = [files.DISK_KB, used, files.DISK_KB - used]
    share = -(-100 * used // files.DISK_KB)
    if "h" in flags:
        call.out(
            "Filesystem       Size Used Avail Use% Mounted on\n"
            f"/dev/block/dm-40 {human(numbers[0] << 10):>4} {human(numbers[1] << 10):>4} "
            f"{human(numbers[2] << 10):>5} {share:3}% /data\n"
        )
        return
    call.out(
        "Filesystem       1K-blocks    Used Available Use% Mounted on\n"
        f"/dev/block/dm-40 {numbers[0]:9} {numbers[1]:7} {numbers[2]:9} {share:3}% /data\n"
    )


PROGRAMS: dict[str, Program] = {"ls": ls, "stat": stat, "du": du, "df": df}
