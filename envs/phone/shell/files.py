"""Files: `ls`, `cat`, `rm`, `mkdir`, `mv`, `cp`, `echo`, `test`, `stat`, `df`, `true`, `false`.

A phone's files are `path -> bytes`. A folder exists while something is in it, or after `mkdir`, which leaves a
marker: the path with a trailing slash. `/storage/emulated/0` is `/sdcard`.
"""

from __future__ import annotations

import posixpath

from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler

BOOT_ID = "/proc/sys/kernel/random/boot_id"
DISK_KB = 6 << 20
READ_ONLY = ("/system", "/proc", "/vendor", "/dev")
STANDARD = ("Alarms", "DCIM", "Documents", "Download", "Movies", "Music", "Pictures", "Ringtones")
ROOTS = {"/", "/sdcard", "/data", "/data/local", "/data/local/tmp", *READ_ONLY, *(f"/sdcard/{n}" for n in STANDARD)}
"""Folders that exist on every phone."""


def normal(path: str) -> str:
    """The canonical spelling of a path, without a trailing slash."""
    clean = "/" + posixpath.normpath("/" + path).lstrip("/")
    for alias in ("/storage/emulated/0", "/mnt/sdcard", "/storage/self/primary"):
        if clean == alias or clean.startswith(alias + "/"):
            return "/sdcard" + clean[len(alias) :]
    return clean


def is_folder(phone: Phone, path: str) -> bool:
    inside = path.rstrip("/") + "/"
    return path in ROOTS or any(name.startswith(inside) for name in phone.files)


def write(phone: Phone, path: str, data: bytes, append: bool = False) -> None:
    """Writes a file; its folders come into being with it. `Failure` where nothing can be written."""
    path = normal(path)
    if is_folder(phone, path):
        raise Failure(f"{path}: Is a directory")
    if path.startswith(READ_ONLY):
        raise Failure(f"{path}: Read-only file system")
    phone.files[path] = (phone.files.get(path, b"") if append else b"") + data
    phone.changed()


def read(phone: Phone, path: str) -> bytes:
    path = normal(path)
    if path == BOOT_ID:
        return f"{phone.boot_id}\n".encode()
    if path not in phone.files:
        raise Failure(f"{path}: {'Is a directory' if is_folder(phone, path) else 'No such file or directory'}")
    return phone.files[path]


def entries(phone: Phone, folder: str) -> list[str]:
    """Names in a folder, sorted; [] for an empty one."""
    inside = folder.rstrip("/") + "/"
    names = {name[len(inside) :].split("/")[0] for name in phone.files if name.startswith(inside)}
    names |= {root[len(inside) :].split("/")[0] for root in ROOTS if root.startswith(inside)}
    return sorted(names - {""})


# --- commands --------------------------------------------------------------------------------------------------


def ls(phone: Phone, words: list[str]) -> str:
    flags, paths = _flags(words)
    lines = []
    for given in paths or ["/"]:
        path = normal(given)
        if path in phone.files or "d" in flags and is_folder(phone, path):
            lines.append(_listed(phone, path, given, flags))
        elif is_folder(phone, path):
            if len(paths) > 1:
                lines.append(f"{given}:\n")
            lines.extend(_listed(phone, posixpath.join(path, n), n, flags) for n in entries(phone, path))
        else:
            raise Failure(f"ls: {given}: No such file or directory", 1, "".join(lines))
    return "".join(lines)


def _listed(phone: Phone, path: str, name: str, flags: str) -> str:
    if "l" not in flags:
        return f"{name}\n"
    folder = is_folder(phone, path)
    mode, size = ("drwxrwx---", 4096) if folder else ("-rw-rw----", len(phone.files[path]))
    return f"{mode} 1 root sdcard_rw {size:8d} {phone.now:%Y-%m-%d %H:%M} {name}\n"


def cat(phone: Phone, words: list[str]) -> bytes:
    try:
        return b"".join(read(phone, w) for w in words)
    except Failure as failure:
        raise Failure(f"cat: {failure}") from None


def rm(phone: Phone, words: list[str]) -> str:
    flags, paths = _flags(words)
    for given in paths:
        path = normal(given)
        if path in phone.files:
            del phone.files[path]
        elif is_folder(phone, path):
            if "r" not in flags and "R" not in flags:
                raise Failure(f"rm: {given}: is directory")
            _drop(phone, path)
        elif "f" not in flags:
            raise Failure(f"rm: {given}: No such file or directory")
    phone.changed()
    return ""


def _drop(phone: Phone, folder: str) -> None:
    for name in [n for n in phone.files if n.startswith(folder.rstrip("/") + "/")]:
        del phone.files[name]


def mkdir(phone: Phone, words: list[str]) -> str:
    flags, paths = _flags(words)
    for given in paths:
        path = normal(given)
        if (path in phone.files or is_folder(phone, path)) and "p" not in flags:
            raise Failure(f"mkdir: '{given}': File exists")
        if not is_folder(phone, path):
            phone.files[path + "/"] = b""
    phone.changed()
    return ""


def rmdir(phone: Phone, words: list[str]) -> str:
    for given in words:
        path = normal(given)
        if entries(phone, path) or not is_folder(phone, path):
            what = "Directory not empty" if is_folder(phone, path) else "No such file or directory"
            raise Failure(f"rmdir: '{given}': {what}")
        phone.files.pop(path + "/", None)
    phone.changed()
    return ""


def mv(phone: Phone, words: list[str]) -> str:
    return _transfer(phone, words, "mv", keep=False)


def cp(phone: Phone, words: list[str]) -> str:
    return _transfer(phone, words, "cp", keep=True)


def _transfer(phone: Phone, words: list[str], command: str, keep: bool) -> str:
    flags, paths = _flags(words)
    if len(paths) < 2:
        raise Failure(f"{command}: Needs 2 arguments")
    *sources, target = paths
    folder = is_folder(phone, normal(target))
    for given in sources:
        source = normal(given)
        to = posixpath.join(normal(target), posixpath.basename(source)) if folder else normal(target)
        if source in phone.files:
            moved = {source: to}
        elif is_folder(phone, source) and (not keep or "r" in flags or "R" in flags):
            moved = {n: to + n[len(source) :] for n in phone.files if n.startswith(source + "/")}
        else:
            raise Failure(f"{command}: bad '{given}': No such file or directory")
        contents = {new: phone.files[old] for old, new in moved.items()}
        if not keep:
            for old in moved:
                del phone.files[old]
        phone.files.update(contents)
    phone.changed()
    return ""


def echo(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["-n"]:
        return " ".join(words[1:])
    return " ".join(words) + "\n"


def test(phone: Phone, words: list[str]) -> str:
    if words[-1:] == ["]"]:
        words = words[:-1]
    flag, word = (["-n", *words] if len(words) == 1 else words + ["", ""])[:2]
    path = normal(word)
    file, folder = path in phone.files, is_folder(phone, path)
    checks = {"-e": file or folder, "-f": file, "-d": folder, "-s": file and phone.files[path] != b"",
              "-n": word != "", "-z": word == ""}  # fmt: skip
    if not checks.get(flag, False):
        raise Failure("", 1)
    return ""


def stat(phone: Phone, words: list[str]) -> str:
    form = words[1] if words[:1] == ["-c"] and len(words) > 2 else "%n %s"
    given = words[-1] if words else ""
    path = normal(given)
    if path not in phone.files and not is_folder(phone, path):
        raise Failure(f"stat: '{given}': No such file or directory")
    folder = path not in phone.files
    size = 4096 if folder else len(phone.files[path])
    kind = "directory" if folder else "regular file"
    return form.replace("%s", str(size)).replace("%F", kind).replace("%n", given) + "\n"


def df(phone: Phone, words: list[str]) -> str:
    used = sum(map(len, phone.files.values())) >> 10
    share = -(-100 * used // DISK_KB)
    return ("Filesystem       1K-blocks    Used Available Use% Mounted on\n"
            f"/dev/block/dm-40 {DISK_KB:9} {used:7} {DISK_KB - used:9} {share:3}% /data\n")  # fmt: skip


def true(phone: Phone, words: list[str]) -> str:
    return ""


def false(phone: Phone, words: list[str]) -> str:
    raise Failure("", 1)


def _flags(words: list[str]) -> tuple[str, list[str]]:
    flags = "".join(w[1:] for w in words if w.startswith("-") and w != "-")
    return flags, [w for w in words if not w.startswith("-") or w == "-"]


COMMANDS: dict[str, Handler] = {
    "ls": ls, "cat": cat, "rm": rm, "mkdir": mkdir, "rmdir": rmdir, "mv": mv, "cp": cp, "echo": echo, "test": test,
    "[": test, "stat": stat, "df": df, "true": true, ":": true, "false": false, "sync": true,
}  # fmt: skip
