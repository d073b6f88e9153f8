"""Programs that look at files: `ls`, `stat`, `du`, `df`."""

from __future__ import annotations

import posixpath
import re
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
    call.walk()
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
        if "l" in flags:
            total = sum(blocks(call, p) for _, p in inside)
            call.out(f"total {human(total << 10) if 'h' in flags else total}\n")
        _entries(call, flags, inside)
        if "R" in flags:
            start = name if "/" in name or name == "." else f"./{name}"
            folders[:0] = [(posixpath.join(start, n), p) for n, p in inside if p in tree and n not in (".", "..")]


def _entries(call: Call, flags: Flags, found: list[tuple[str, str]]) -> None:
    call.spend(len(found) >> 3)
    phone = call.phone
    if "t" in flags:
        found = sorted(found, key=lambda e: -files.attributes(phone, e[1]).mtime)
    elif "S" in flags:
        found = sorted(found, key=lambda e: -files.size(phone, e[1]))
    else:
        found = sorted(found, key=lambda e: e[0].encode(errors="surrogateescape"))
    rows: list[tuple[str, ...]] = []
    for name, path in found[::-1] if "r" in flags else found:
        known, size = files.attributes(phone, path), files.size(phone, path)
        if modes.S_ISDIR(known.mode) and ("F" in flags or "p" in flags):
            name += "/"
        elif "F" in flags and modes.S_ISREG(known.mode) and known.mode & 0o111:
            name += "*"
        if "l" not in flags:
            call.out(f"{f'{_inode(path)} ' if 'i' in flags else ''}{name}\n")
            continue
        owner, group = known.owner, known.group
        if "n" in flags:
            owner, group = str(user_id(owner)), str(user_id(group))
        time = moment(known.mtime).strftime("%Y-%m-%d %H:%M" + ":%S.000000000 +0000" * (flags["l"] == "ll"))
        shown = human(size) if "h" in flags else str(size)
        rows.append((modes.filemode(known.mode), str(_links(call, path)), owner, group, shown, f"{time} {name}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for mode, links, owner, group, shown, rest in rows:
        call.out(f"{mode} {links:>{widths[1]}} {owner:{widths[2]}} {group:{widths[3]}} {shown:>{widths[4]}} {rest}\n")


def _links(call: Call, path: str) -> int:
    if not modes.S_ISDIR(files.attributes(call.phone, path).mode):
        return 1
    inside = files.entries(call.phone, path)
    call.spend(1 + (len(call.phone.files) * (1 + len(inside)) >> 4))
    return 2 + sum(files.is_folder(call.phone, posixpath.join(path, name)) for name in inside)


def _inode(path: str) -> int:
    """Made up from the path, so that it stays."""
    return 8192 + sum(ord(c) * 31 ** (i % 4) for i, c in enumerate(path)) % 1_000_003


_STAT = (
    "  File: %n\n  Size: %s\t Blocks: %b\t IO Blocks: 512\t %F\n"
    "Device: fd02h/64770d\t Inode: %i\t Links: %h\t Device type: 0,0\n"
    "Access: (0%a/%A)\tUid: (%5u/%8U)\tGid: (%5g/%8G)\nAccess: %x\nModify: %y\nChange: %z\n"
)


def stat(call: Call) -> None:
    flags, names = call.options("c:tL", least=1)
    for name in names:
        path = call.path(name)
        if not files.exists(call.phone, path):
            call.wrong(f"'{name}': No such file or directory")
            continue
        values = _stat_values(call, name, path)
        call.out(
            re.sub(
                r"%(\d{0,2})([a-zA-Z%])",
                lambda found, values=values: str(values.get(found[2], "?")).rjust(int(found[1] or 0)),
                flags.get("c", _STAT),
            )
            + "\n"
        )


def _stat_values(call: Call, name: str, path: str) -> dict[str, object]:
    known, size = files.attributes(call.phone, path), files.size(call.phone, path)
    kinds = {modes.S_IFDIR: "directory", modes.S_IFCHR: "character device"}
    kind = kinds.get(modes.S_IFMT(known.mode), "regular file" if size else "regular empty file")
    time = f"{moment(known.mtime):%Y-%m-%d %H:%M:%S}.000000000 +0000"
    return {
        **{"n": name, "N": name, "s": size, "b": 2 * blocks(call, path), "B": 512, "F": kind, "%": "%"},
        **{"a": f"{modes.S_IMODE(known.mode):o}", "A": modes.filemode(known.mode), "f": f"{known.mode:x}"},
        **{"u": user_id(known.owner), "U": known.owner, "g": user_id(known.group), "G": known.group},
        **{"h": _links(call, path), "i": _inode(path)},
        **dict.fromkeys("XYZ", known.mtime),
        **dict.fromkeys("xyz", time),
    }


def du(call: Call) -> None:
    flags, names = call.options("ahksm")
    call.walk()
    tree = files.folders(call.phone)

    def measure(name: str, path: str, depth: int = 0) -> int:
        call.spend(1)
        size = blocks(call, path)
        for inside in tree.get(path, ()) if depth < 60 else ():
            size += measure(posixpath.join(name, inside), posixpath.join(path, inside), depth + 1)
        if depth == 0 or "s" not in flags and (path in tree or "a" in flags):
            number = human(size << 10) if "h" in flags else -(-size // 1024) if "m" in flags else size
            call.out(f"{number}\t{name}\n")
        return size

    for name in names or ["."]:
        path = call.path(name)
        if path in tree or files.exists(call.phone, path):
            measure(name, path)
        else:
            call.wrong(f"{name}: No such file or directory")


def df(call: Call) -> None:
    flags, names = call.options("hPkaiHtT")
    for name in names:
        if not files.exists(call.phone, call.path(name)):
            raise Failure(f"df: {name}: No such file or directory")
    used = files.used(call.phone) >> 10
    sizes = (files.DISK_KB, used, files.DISK_KB - used)
    share = -(-100 * used // files.DISK_KB)
    if "h" in flags:
        total, taken, free = (human(size << 10) for size in sizes)
        call.out("Filesystem       Size Used Avail Use% Mounted on\n")
        call.out(f"/dev/block/dm-40 {total:>4} {taken:>4} {free:>5} {share:3}% /data\n")
    else:
        call.out("Filesystem       1K-blocks    Used Available Use% Mounted on\n")
        call.out(f"/dev/block/dm-40 {sizes[0]:9} {sizes[1]:7} {sizes[2]:9} {share:3}% /data\n")


PROGRAMS: dict[str, Program] = {"ls": ls, "stat": stat, "du": du, "df": df}
