"""Programs that show information about files: `ls`, `stat` and `df`."""

from __future__ import annotations

import posixpath
import re
import stat as modes
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.toybox.call import Call, Flags, Program
from mobilerl.envs.phone.system import UNIX_EPOCH


def _moment(mtime: int, form: str) -> str:
    return (UNIX_EPOCH + timedelta(seconds=mtime)).strftime(form)


def _blocks(call: Call, path: str) -> int:
    """Disk usage in kilobytes."""
    return -(-files.size(call.phone, path) // 4096) * 4


# --- ls ------------------------------------------------------------------------------------------------------------


def ls(call: Call) -> None:
    flags, names = call.options("aAl1dtruc")
    if sum(word.count("l") for word in call.words if word.startswith("-")) > 1:
        flags["l"] = "full time"
    tree = files.folders(call.phone)
    single: list[tuple[str, str]] = []
    folders: list[tuple[str, str]] = []
    for name, path in call.existing(names or ["."]):
        (folders if path in tree and "d" not in flags else single).append((name, path))
    _entries(call, flags, single)
    for i, (name, path) in enumerate(folders):
        if len(names) > 1:
            call.out(f"{chr(10) * bool(i or single)}{name}:\n")
        inside = [(n, posixpath.join(path, n)) for n in tree[path] if "a" in flags or "A" in flags or n[0] != "."]
        if "a" in flags:
            inside = [(".", path), ("..", posixpath.dirname(path)), *inside]
        if "l" in flags:
            call.out(f"total {sum(_blocks(call, p) for _, p in inside)}\n")
        _entries(call, flags, inside)


def _entries(call: Call, flags: Flags, found: list[tuple[str, str]]) -> None:
    call.spend(len(found) >> 3)
    found = sorted(found, key=lambda e: e[0].encode(errors="surrogateescape"))
    if "t" in flags:
        found.sort(key=lambda e: -files.mtime(call.phone, e[1]))
    rows: list[tuple[str, ...]] = []
    for name, path in found[::-1] if "r" in flags else found:
        if "l" not in flags:
            call.out(f"{name}\n")
            continue
        time = _moment(files.mtime(call.phone, path), "%Y-%m-%d %H:%M" + ":%S.000000000 +0000" * bool(flags["l"]))
        mode, size = modes.filemode(files.mode(call.phone, path)), files.size(call.phone, path)
        owner, group = ("u0_a139", "media_rw") if files.is_shared(path) else ("root", "root")
        rows.append((mode, str(_links(call, path)), owner, group, str(size), f"{time} {name}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        mode, links, owner, group, length, rest = row
        call.out(f"{mode} {links:>{widths[1]}} {owner:{widths[2]}} {group:{widths[3]}} {length:>{widths[4]}} {rest}\n")


def _links(call: Call, path: str) -> int:
    if not modes.S_ISDIR(files.mode(call.phone, path)):
        return 1
    inside = files.entries(call.phone, path)
    call.spend(1 + (len(call.phone.files) * (1 + len(inside)) >> 4))
    return 2 + sum(files.is_folder(call.phone, posixpath.join(path, name)) for name in inside)


# --- stat and df -----------------------------------------------------------------------------------------------------


def stat(call: Call) -> None:
    """`stat -c FORMAT FILE ...`: name, size, permissions, type and modification time."""
    flags, names = call.options("c:", least=1)
    for name, path in call.existing(names):
        mode, size, mtime = files.mode(call.phone, path), files.size(call.phone, path), files.mtime(call.phone, path)
        kinds = {modes.S_IFDIR: "directory", modes.S_IFCHR: "character device"}
        values = {
            **{"n": name, "s": size, "a": f"{modes.S_IMODE(mode):o}", "A": modes.filemode(mode), "Y": mtime, "%": "%"},
            "y": _moment(mtime, "%Y-%m-%d %H:%M:%S.000000000 +0000"),
            "F": kinds.get(modes.S_IFMT(mode), "regular file" if size else "regular empty file"),
        }
        form = flags.get("c", "  File: %n\n  Size: %s\t %F\nAccess: (0%a/%A)\nModify: %y")
        call.out(re.sub(r"%([a-zA-Z%])", partial(_fill, values), form) + "\n")


def _fill(values: Mapping[str, object], found: re.Match[str]) -> str:
    return str(values.get(found[1], "?"))


def df(call: Call) -> None:
    _, names = call.options("k")
    if len(list(call.existing(names))) < len(names):
        return
    used = files.count_used(call.phone) >> 10
    call.out("Filesystem       1K-blocks Used Available Use% Mounted on\n")
    free = files.DISK_KB - used
    call.out(f"/dev/block/dm-40 {files.DISK_KB:>9} {used:>7} {free:>9} {-(-100 * used // files.DISK_KB):3}% /data\n")


PROGRAMS: dict[str, Program] = {f.__name__: f for f in (ls, stat, df)}
