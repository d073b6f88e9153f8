"""Programs that look at files: `ls`, `stat`, `realpath`, `du` and `df`."""

from __future__ import annotations

import posixpath
import re
import stat as modes
from datetime import UTC, datetime, timedelta

from envs.phone.shell import files
from envs.phone.shell.toybox.call import MISSING, Call, Flags, Program


def _moment(mtime: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=mtime)


def _user_id(name: str) -> int:
    return files.USERS.get(name, int(name) if name.isdecimal() and len(name) < 9 else 0)


def _blocks(call: Call, path: str) -> int:
    """Kilobytes on the disk."""
    return -(-files.size(call.phone, path) // 4096) * 4


def _human(size: int) -> str:
    """A size in bytes as `-h` prints it."""
    value, units = float(size), "BKMGTP"
    while value >= 1000 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return str(size) if units[0] == "B" else f"{value:.{1 if value < 10 else 0}f}{units[0]}"


# --- ls ------------------------------------------------------------------------------------------------------------


def ls(call: Call) -> None:
    flags, names = call.options("aAldR1trShpCcum")
    if sum(word.count("l") for word in call.words if word.startswith("-")) > 1:
        flags["l"] = "full time"
    tree = files.folders(call.phone)
    single, folders = [], []
    for name, path in call.existing(names or ["."]):
        (folders if path in tree and "d" not in flags else single).append((name, path))
    _entries(call, flags, single)
    separator = "\n" if single else ""
    while folders:
        name, path = folders.pop(0)
        call.spend(1)
        if "R" in flags or len(names) > 1:
            call.out(f"{separator}{name}:\n")
        separator = "\n"
        inside = [(n, posixpath.join(path, n)) for n in tree[path] if "a" in flags or "A" in flags or n[0] != "."]
        if "a" in flags:
            inside = [(".", path), ("..", posixpath.dirname(path)), *inside]
        if "l" in flags:
            total = sum(_blocks(call, p) for _, p in inside)
            call.out(f"total {_human(total << 10) if 'h' in flags else total}\n")
        _entries(call, flags, inside)
        if "R" in flags:
            start = name if "/" in name or name == "." else f"./{name}"
            folders[:0] = [(posixpath.join(start, n), p) for n, p in inside if p in tree and n not in (".", "..")]


def _entries(call: Call, flags: Flags, found: list[tuple[str, str]]) -> None:
    call.spend(len(found) >> 3)
    phone = call.phone
    found = sorted(found, key=lambda e: e[0].encode(errors="surrogateescape"))
    if "t" in flags or "S" in flags:
        found.sort(key=lambda e: -(files.attributes(phone, e[1]).mtime if "t" in flags else files.size(phone, e[1])))
    rows: list[tuple[str, ...]] = []
    for name, path in found[::-1] if "r" in flags else found:
        known, size = files.attributes(phone, path), files.size(phone, path)
        if modes.S_ISDIR(known.mode) and "p" in flags:
            name += "/"
        if "l" not in flags:
            call.out(f"{name}\n")
            continue
        shown = _human(size) if "h" in flags else str(size)
        time = _moment(known.mtime).strftime("%Y-%m-%d %H:%M" + ":%S.000000000 +0000" * bool(flags["l"]))
        mode, links = modes.filemode(known.mode), str(_links(call, path))
        rows.append((mode, links, known.owner, known.group, shown, f"{time} {name}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for mode, links, owner, group, shown, rest in rows:
        call.out(f"{mode} {links:>{widths[1]}} {owner:{widths[2]}} {group:{widths[3]}} {shown:>{widths[4]}} {rest}\n")


def _links(call: Call, path: str) -> int:
    if not modes.S_ISDIR(files.attributes(call.phone, path).mode):
        return 1
    inside = files.entries(call.phone, path)
    call.spend(1 + (len(call.phone.files) * (1 + len(inside)) >> 4))
    return 2 + sum(files.is_folder(call.phone, posixpath.join(path, name)) for name in inside)


# --- stat, realpath, du, df ------------------------------------------------------------------------------------------

_STAT = (
    "  File: %n\n  Size: %s\t Blocks: %b\t IO Blocks: 512\t %F\n"
    "Device: fd02h/64770d\t Inode: %i\t Links: %h\t Device type: 0,0\n"
    "Access: (0%a/%A)\tUid: (%u/%U)\tGid: (%g/%G)\nAccess: %x\nModify: %y\nChange: %z"
)


def stat(call: Call) -> None:
    flags, names = call.options("c:tL", least=1)
    for name, path in call.existing(names):
        known, size = files.attributes(call.phone, path), files.size(call.phone, path)
        kinds = {modes.S_IFDIR: "directory", modes.S_IFCHR: "character device"}
        kind = kinds.get(modes.S_IFMT(known.mode), "regular file" if size else "regular empty file")
        values = {
            **{"n": name, "N": name, "s": size, "b": 2 * _blocks(call, path), "B": 512, "F": kind, "%": "%"},
            **{"a": f"{modes.S_IMODE(known.mode):o}", "A": modes.filemode(known.mode), "f": f"{known.mode:x}"},
            **{"u": _user_id(known.owner), "U": known.owner, "g": _user_id(known.group), "G": known.group},
            **{"h": _links(call, path), "i": 8192 + sum(map(ord, path))},
            **dict.fromkeys("XYZ", known.mtime),
            **dict.fromkeys("xyz", f"{_moment(known.mtime):%Y-%m-%d %H:%M:%S}.000000000 +0000"),
        }
        form = flags.get("c", _STAT)
        call.out(re.sub(r"%([a-zA-Z%])", lambda found, v=values: str(v.get(found[1], "?")), form) + "\n")


def realpath(call: Call) -> None:
    """There are no links: `readlink` prints a path with `-f` only."""
    flags, names = call.options("femqs", least=1)
    for name in names:
        path = call.path(name)
        if files.exists(call.phone, path) or "f" in flags and files.exists(call.phone, posixpath.dirname(path)):
            call.out(f"{path}\n")
        else:
            call.fail(f"{name}: {MISSING}")


def du(call: Call) -> None:
    flags, names = call.options("ahksm")
    tree = files.folders(call.phone)

    def measure(name: str, path: str, depth: int = 0) -> int:
        call.spend(1)
        size = _blocks(call, path)
        for inside in tree.get(path, ()) if depth < 60 else ():
            size += measure(posixpath.join(name, inside), posixpath.join(path, inside), depth + 1)
        if depth == 0 or "s" not in flags and (path in tree or "a" in flags):
            number = _human(size << 10) if "h" in flags else -(-size // 1024) if "m" in flags else size
            call.out(f"{number}\t{name}\n")
        return size

    for name, path in call.existing(names or ["."]):
        measure(name, path)


def df(call: Call) -> None:
    flags, names = call.options("hPka")
    if len(list(call.existing(names))) < len(names):
        return
    used = files.used(call.phone) >> 10
    sizes = [files.DISK_KB, used, files.DISK_KB - used]
    total, taken, free = [_human(size << 10) if "h" in flags else str(size) for size in sizes]
    call.out(f"Filesystem       {'Size' if 'h' in flags else '1K-blocks'} Used Available Use% Mounted on\n")
    call.out(f"/dev/block/dm-40 {total:>9} {taken:>7} {free:>9} {-(-100 * used // files.DISK_KB):3}% /data\n")


PROGRAMS: dict[str, Program] = {**{f.__name__: f for f in (ls, stat, realpath, du, df)}, "readlink": realpath}
