"""Programs that change files: `rm`, `mkdir`, `rmdir`, `mv`, `cp`, `touch` and `chmod`."""

from __future__ import annotations

import posixpath
import re
import stat

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.toybox.call import MISSING, Call, Program


def rm(call: Call) -> None:
    flags, names = call.options("fRr")
    recursive = "r" in flags or "R" in flags
    if not names and "f" not in flags:
        raise call.usage("Needs 1 argument")
    for name in names:
        path = call.path(name)
        if posixpath.basename(name.rstrip("/")) in (".", ".."):
            call.fail(f"bad path {name}")
        elif files.read_only(path) or path in files.ROOTS and recursive:
            call.fail(f"{name}: Permission denied")
        elif path in call.phone.files or recursive and files.is_folder(call.phone, path):
            files.remove(call.phone, path)
        elif files.is_folder(call.phone, path):
            call.fail(f"{name}: Is a directory")
        elif "f" not in flags:
            call.fail(f"{name}: {MISSING}")
    call.phone.changed()


def mkdir(call: Call) -> None:
    flags, names = call.options("p", least=1)
    for name in names:
        path = call.path(name)
        if files.exists(call.phone, path):
            if "p" not in flags or path in call.phone.files:
                call.fail(f"'{name}': File exists")
        elif fault := _obstacle(call, path, "p" in flags):
            call.fail(f"'{name}': {fault}")
        else:
            files.make_folder(call.phone, path)
            _stamp(call, path)
    call.phone.changed()


def _obstacle(call: Call, path: str, parents: bool = False) -> str:
    """Why nothing can be made at a path; "" where it can."""
    if files.read_only(path):
        return "Read-only file system"
    parent = posixpath.dirname(path)
    while parents and not files.exists(call.phone, parent):
        parent = posixpath.dirname(parent)
    if parent in call.phone.files:
        return "Not a directory"
    return "" if files.is_folder(call.phone, parent) else MISSING


def rmdir(call: Call) -> None:
    for name, path in call.existing(call.options("", least=1)[1]):
        if path in call.phone.files:
            call.fail(f"{name}: Not a directory")
        elif path in files.ROOTS or files.entries(call.phone, path):
            call.fail(f"{name}: Directory not empty")
        else:
            files.remove(call.phone, path)
    call.phone.changed()


def mv(call: Call) -> None:
    _transfer(call, call.options("f", least=2)[1], keep=False, folders=True)


def cp(call: Call) -> None:
    flags, operands = call.options("rRapf", least=2)
    _transfer(call, operands, keep=True, folders=any(f in flags for f in "rRa"))


def _transfer(call: Call, operands: list[str], keep: bool, folders: bool) -> None:
    *sources, target = operands
    into = files.is_folder(call.phone, call.path(target))
    if len(sources) > 1 and not into:
        raise Failure(f"{call.name}: '{target}' not directory")
    for name in sources:
        source, to = call.path(name), call.path(target)
        contents = name.rstrip("/").endswith("/.") or name in (".", "./")  # `DIR/.`: everything in it
        if into and not contents:
            to = posixpath.join(to, posixpath.basename(source))
        folder = files.is_folder(call.phone, source)
        if source not in call.phone.files and not folder:
            call.fail(f"bad '{name}': {MISSING}")
        elif folder and not folders:
            call.fail(f"Skipped dir '{name}'")
        elif source == to or to.startswith(f"{source}/"):
            call.fail(f"'{name}' -> '{target}': Invalid argument")
        elif fault := _obstacle(call, to):
            call.fail(f"'{to if into else target}': {fault}")
        elif not keep and (source in files.ROOTS or files.read_only(source)):
            call.fail(f"bad '{name}': Permission denied")
        elif folder and to in call.phone.files or not folder and files.is_folder(call.phone, to):
            call.fail(f"bad '{name}': {'Not' if folder else 'Is'} a directory")
        else:
            _carry(call, source, to, keep)
    call.phone.changed()


def _carry(call: Call, source: str, to: str, keep: bool) -> None:
    """Copies or moves a file or a folder to a path that is free for it."""
    phone = call.phone
    moved = {n: to + n[len(source) :] for n in phone.files if n == source or n.startswith(f"{source}/")}
    contents = {new: phone.files[old] for old, new in moved.items()}
    size = sum(map(len, contents.values()))
    if keep:
        call.shell.budget.take(size)
        if files.used(phone) + size > files.MAX_STORAGE:
            raise Failure(f"{call.name}: No space left on device")
    known = {new: phone.attributes[old] for old, new in [*moved.items(), (source, to)] if old in phone.attributes}
    if not keep:
        files.remove(phone, source)
    if f"{source}/" in moved or source not in moved:
        contents.setdefault(f"{to}/", b"")
    phone.files.update(contents)
    phone.attributes.update(known)
    for new in moved.values() if keep else ():
        _stamp(call, new)


def touch(call: Call) -> None:
    """The time is always the phone's present time."""
    flags, names = call.options("cm", least=1)
    for name in names:
        path = call.path(name)
        if not files.exists(call.phone, path):
            if "c" in flags:
                continue
            if fault := _obstacle(call, path):
                call.fail(f"'{name}': {fault}")
                continue
            files.write(call.phone, path, b"")
        _stamp(call, path)
    call.phone.changed()


def _stamp(call: Call, path: str) -> None:
    """Sets the time of change."""
    path = path.rstrip("/")
    known = files.attributes(call.phone, path)
    call.phone.attributes[path] = known._replace(mtime=files.seconds(call.phone.now))


def chmod(call: Call) -> None:
    """`chmod [-R] MODE FILE ...`; the mode is octal, or adds or takes bits from everybody (`+x`, `a-w`)."""
    call.words = [f"./{w}" if re.fullmatch(r"-[rwx]+", w) else w for w in call.words]  # a mode, not an option
    flags, (text, *names) = call.options("R", least=2)
    mode = re.fullmatch(r"(?:\./)?(?:([0-7]{1,5})|a?([-+])([rwx]+))", text)
    if mode is None:
        raise Failure(f"chmod: bad mode '{text}'")
    for name, path in call.existing(names):
        if files.read_only(path):
            call.fail(f"'{name}': Read-only file system")
            continue
        inside = {n.rstrip("/") for n in call.phone.files if n.startswith(f"{path}/")} if "R" in flags else set()
        for target in {path, *inside}:
            known = files.attributes(call.phone, target)
            call.phone.attributes[target] = known._replace(mode=_changed(stat.S_IMODE(known.mode), *mode.groups()))


def _changed(old: int, octal: str | None, sign: str, letters: str) -> int:
    if octal:
        return int(octal, 8) & 0o7777
    bits = 0o111 * sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(letters))
    return old | bits if sign == "+" else old & ~bits


PROGRAMS: dict[str, Program] = {f.__name__: f for f in (rm, mkdir, rmdir, mv, cp, touch, chmod)}
