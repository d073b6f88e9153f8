"""The phone's file system.

Files are stored as `path -> bytes`. A folder exists while it is not empty, or after `mkdir`, which leaves a marker: the
path with a trailing slash. `/storage/emulated/0` is `/sdcard`. Modes and owners follow from the path, which suffices
because all commands run as root.
"""

from __future__ import annotations

import posixpath
import stat
from datetime import datetime

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.system import EPOCH, UNIX_EPOCH

BOOT_ID = "/proc/sys/kernel/random/boot_id"
DISK_KB = 6 << 20
MAX_STORAGE = 1 << 30
"""Total bytes of files at which the phone is full, since they are kept in the host's memory."""
FOLDER_SIZE = 4096
READ_ONLY = ("/system", "/proc", "/vendor", "/dev")
STANDARD = ("Alarms", "DCIM", "Documents", "Download", "Movies", "Music", "Pictures", "Ringtones")
_SYSTEM_FOLDERS = "/ /sdcard /data /data/data /data/local /data/local/tmp /data/misc /data/misc/adb /system /system/bin"
ROOTS = {*_SYSTEM_FOLDERS.split(), "/proc", "/vendor", "/dev", *(f"/sdcard/{n}" for n in STANDARD)}
"""Folders that exist on every phone."""
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
    """Writes a file, and creates its folders. Raises `Failure` if the path cannot be written."""
    path = normal(path)
    if path not in phone.files:
        if is_folder(phone, path):
            raise Failure(f"{path}: Is a directory")
        if read_only(path):
            raise Failure(f"{path}: Read-only file system")
    if len(data) > 1 << 16 and count_used(phone) + len(data) > MAX_STORAGE:
        raise Failure(f"{path}: No space left on device")
    phone.files[path] = (phone.files.get(path, b"") if append else b"") + data
    touch(phone, path)
    phone.invalidate()


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
        phone.mtimes.pop(name, None)
    phone.mtimes.pop(path, None)
    if not is_folder(phone, parent):
        phone.files[f"{parent}/"] = b""


def make_folder(phone: Phone, path: str) -> None:
    """Creates a folder. One that exists is kept even when its last file is removed."""
    if path not in ROOTS:
        phone.files.setdefault(f"{path}/", b"")


def entries(phone: Phone, folder: str) -> list[str]:
    """Names in a folder, sorted; [] for an empty one."""
    return folders(phone).get(folder, [])


def folders(phone: Phone) -> dict[str, list[str]]:
    """All folders with the sorted names in them, collected in one pass."""
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
    """Converts a time of the phone's clock to Unix time."""
    return round((moment - UNIX_EPOCH).total_seconds())


def touch(phone: Phone, path: str) -> None:
    """Sets the modification time to the phone's current time."""
    phone.mtimes[path] = seconds(phone.now)


def mtime(phone: Phone, path: str) -> int:
    return phone.mtimes.get(path, seconds(EPOCH))


def mode(phone: Phone, path: str) -> int:
    """Type and permissions of a file or folder."""
    if path in DEVICES:
        return stat.S_IFCHR | 0o666
    folder = path not in phone.files
    kind = stat.S_IFDIR if folder else stat.S_IFREG
    if is_shared(path):
        return kind | (0o2770 if folder else 0o660)
    if read_only(path) or path in ROOTS:
        return kind | (0o755 if folder else 0o444)
    return kind | (0o777 if folder else 0o666)


def is_shared(path: str) -> bool:
    """Whether a path is in the shared storage, which has its own owner."""
    return path == "/sdcard" or path.startswith("/sdcard/")


def size(phone: Phone, path: str) -> int:
    return len(phone.files[path]) if path in phone.files else FOLDER_SIZE if path not in DEVICES else 0


def count_used(phone: Phone) -> int:
    return sum(map(len, phone.files.values()))
