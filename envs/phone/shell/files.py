"""The phone's file system.

A phone's files are `path -> bytes`. A folder exists while something is in it, or after `mkdir`, which leaves a
marker: the path with a trailing slash. `/storage/emulated/0` is `/sdcard`. Modes, owners and times that `chmod`,
`chown` and `touch` change are kept in `Phone.attributes`.
"""

from __future__ import annotations

import posixpath
import stat
from datetime import datetime

from envs.phone.phone import EPOCH, UNIX_EPOCH, Attributes, Phone
from envs.phone.shell.command import Failure

BOOT_ID = "/proc/sys/kernel/random/boot_id"
DISK_KB = 6 << 20
MAX_STORAGE = 1 << 30
"""Bytes of all files at which the phone is full: they are memory of the host."""
FOLDER_SIZE = 4096
READ_ONLY = ("/system", "/proc", "/vendor", "/dev")
STANDARD = ("Alarms", "DCIM", "Documents", "Download", "Movies", "Music", "Pictures", "Ringtones")
_SYSTEM_FOLDERS = "/ /sdcard /data /data/data /data/local /data/local/tmp /data/misc /data/misc/adb /system /system/bin"
ROOTS = {*_SYSTEM_FOLDERS.split(), "/proc", "/vendor", "/dev", *(f"/sdcard/{n}" for n in STANDARD)}
"""Folders that exist on every phone."""
USERS = {"root": 0, "system": 1000, "shell": 2000, "sdcard_rw": 1015, "media_rw": 1023, "u0_a139": 10139}
DEVICES = ("/dev/null", "/dev/zero", "/dev/tty")
ALIASES = {
    "/storage/emulated/0": "/sdcard",
    "/storage/self/primary": "/sdcard",
    "/mnt/sdcard": "/sdcard",
    "/data/media/0": "/sdcard",
    "/data/user/0": "/data/data",
}


def normal(path: str) -> str:
    """The canonical spelling of an absolute path, without a trailing slash."""
    clean = "/" + posixpath.normpath("/" + path).lstrip("/")
    for alias, real in ALIASES.items():
        if clean == alias or clean.startswith(alias + "/"):
            return real + clean[len(alias) :]
    return clean


def is_folder(phone: Phone, path: str) -> bool:
    inside = path.rstrip("/") + "/"
    return path in ROOTS or any(name.startswith(inside) for name in phone.files)


def exists(phone: Phone, path: str) -> bool:
    return path in phone.files or path in DEVICES or path == BOOT_ID or is_folder(phone, path)


def read_only(path: str) -> bool:
    return path.startswith(tuple(f"{root}/" for root in READ_ONLY))


def write(phone: Phone, path: str, data: bytes, append: bool = False) -> None:
    """Writes a file; its folders come into being with it. `Failure` where nothing can be written."""
    path = normal(path)
    if path not in phone.files:
        if is_folder(phone, path):
            raise Failure(f"{path}: Is a directory")
        if read_only(path):
            raise Failure(f"{path}: Read-only file system")
        phone.attributes.pop(path, None)
    if len(data) > 1 << 16 and used(phone) + len(data) > MAX_STORAGE:
        raise Failure(f"{path}: No space left on device")
    phone.files[path] = (phone.files.get(path, b"") if append else b"") + data
    phone.attributes[path] = attributes(phone, path)._replace(mtime=seconds(phone.now))
    phone.changed()


def read(phone: Phone, path: str) -> bytes:
    path = normal(path)
    if path == BOOT_ID:
        return f"{phone.boot_id}\n".encode()
    if path in ("/dev/null", "/dev/tty"):
        return b""
    if path not in phone.files:
        raise Failure(f"{path}: {'Is a directory' if is_folder(phone, path) else 'No such file or directory'}")
    return phone.files[path]


def remove(phone: Phone, path: str) -> None:
    """Removes a file, or a folder with everything in it. The folder around it stays."""
    parent = posixpath.dirname(path)
    for name in [n for n in phone.files if n == path or n.startswith(path + "/")]:
        del phone.files[name]
        phone.attributes.pop(name, None)
    phone.attributes.pop(path, None)
    if not is_folder(phone, parent):
        phone.files[f"{parent}/"] = b""


def make_folder(phone: Phone, path: str) -> None:
    """Also keeps a folder that is there from vanishing with its last file."""
    if path not in ROOTS:
        phone.files.setdefault(f"{path}/", b"")


def entries(phone: Phone, folder: str) -> list[str]:
    """Names in a folder, sorted; [] for an empty one."""
    return folders(phone).get(folder, [])


def folders(phone: Phone) -> dict[str, list[str]]:
    """Every folder with the sorted names in it, collected in one pass."""
    found: dict[str, set[str]] = {root: set() for root in ROOTS}
    for path in [*phone.files, *(root for root in ROOTS if root != "/")]:
        if path.endswith("/"):
            path = path.rstrip("/")
            found.setdefault(path, set())
        while path != "/":
            parent, _, name = path.rpartition("/")
            path = parent or "/"
            inside = found.setdefault(path, set())
            if name in inside:
                break
            inside.add(name)
    return {path: sorted(names) for path, names in found.items()}


# --- attributes --------------------------------------------------------------------------------------------------


def seconds(moment: datetime) -> int:
    """Unix time of a moment in the phone's clock."""
    return round((moment - UNIX_EPOCH).total_seconds())


def attributes(phone: Phone, path: str) -> Attributes:
    """Mode (with the file's type), owner, group and time of change of a file or folder."""
    known = phone.attributes.get(path)
    folder = path not in phone.files and path not in DEVICES
    kind = stat.S_IFCHR if path in DEVICES else stat.S_IFDIR if folder else stat.S_IFREG
    if known is not None:
        return known._replace(mode=kind | stat.S_IMODE(known.mode))
    mtime = seconds(EPOCH)
    if path == "/sdcard" or path.startswith("/sdcard/"):
        return Attributes(kind | (0o2770 if folder else 0o660), "u0_a139", "media_rw", mtime)
    if read_only(path) or path in ROOTS:
        mode = 0o755 if folder else 0o666 if path in DEVICES else 0o444
        return Attributes(kind | mode, "root", "root", mtime)
    return Attributes(kind | (0o777 if folder else 0o666), "root", "root", mtime)


def size(phone: Phone, path: str) -> int:
    return len(phone.files[path]) if path in phone.files else FOLDER_SIZE if path not in DEVICES else 0


def used(phone: Phone) -> int:
    return sum(map(len, phone.files.values()))
