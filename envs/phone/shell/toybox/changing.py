"""Programs that change files: `rm`, `mkdir`, `mv`, `cp`, `touch` and `chmod`."""

from __future__ import annotations

import posixpath

from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.toybox.call import MISSING, Call, Program


def rm(call: Call) -> None:
    flags, names = call.options("fRr")
    recursive = "r" in flags or "R" in flags
    if not names and "f" not in flags:
        raise Failure("rm: Needs 1 argument")
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
    call.phone.invalidate()


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
            files.touch(call.phone, path)
    call.phone.invalidate()


def _obstacle(call: Call, path: str, parents: bool = False) -> str:
    """Why nothing can be created at a path; "" if it can."""
    if files.read_only(path):
        return "Read-only file system"
    parent = posixpath.dirname(path)
    while parents and not files.exists(call.phone, parent):
        parent = posixpath.dirname(parent)
    if parent in call.phone.files:
        return "Not a directory"
    return "" if files.is_folder(call.phone, parent) else MISSING


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
    for name, source in call.existing(sources):
        to = call.path(target)
        contents = name.rstrip("/").endswith("/.") or name in (".", "./")  # `DIR/.`: everything in it
        if into and not contents:
            to = posixpath.join(to, posixpath.basename(source))
        folder = files.is_folder(call.phone, source)
        fault = _obstacle(call, to)
        if folder and not folders:
            fault = "Is a directory"
        elif source == to or to.startswith(f"{source}/"):
            fault = "Invalid argument"
        elif not keep and (source in files.ROOTS or files.read_only(source)):
            fault = "Permission denied"
        elif folder and to in call.phone.files or not folder and files.is_folder(call.phone, to):
            fault = f"{'Not' if folder else 'Is'} a directory"
        if fault:
            call.fail(f"'{name}': {fault}")
        else:
            _carry(call, source, to, keep)
    call.phone.invalidate()


def _carry(call: Call, source: str, to: str, keep: bool) -> None:
    """Copies or moves a file or folder to a valid target path."""
    phone = call.phone
    moved = {n: to + n[len(source) :] for n in phone.files if n == source or n.startswith(f"{source}/")}
    contents = {new: phone.files[old] for old, new in moved.items()}
    size = sum(map(len, contents.values()))
    if keep:
        call.shell.budget.take(size)
        if files.count_used(phone) + size > files.MAX_STORAGE:
            raise Failure(f"{call.name}: No space left on device")
    times = {new: phone.mtimes[old] for old, new in [*moved.items(), (source, to)] if old in phone.mtimes}
    if not keep:
        files.remove(phone, source)
    if f"{source}/" in moved or source not in moved:
        contents.setdefault(f"{to}/", b"")
    phone.files.update(contents)
    phone.mtimes.update(times)
    for new in moved.values() if keep else ():
        files.touch(phone, new.rstrip("/"))


def touch(call: Call) -> None:
    """The time is always the phone's current time."""
    flags, names = call.options("c", least=1)
    for name in names:
        path = call.path(name)
        if files.exists(call.phone, path):
            files.touch(call.phone, path)
        elif "c" not in flags:
            if fault := _obstacle(call, path):
                call.fail(f"'{name}': {fault}")
            else:
                files.write(call.phone, path, b"")
    call.phone.invalidate()


def chmod(call: Call) -> None:
    """`chmod [-R] MODE FILE ...` changes nothing, since everything is permitted."""
    call.words = [w for w in call.words if w != "-R"]
    if len(call.words) < 2:
        raise Failure("chmod: Needs 2 arguments")
    for name, path in call.existing(call.words[1:]):
        if files.read_only(path):
            call.fail(f"'{name}': Read-only file system")


PROGRAMS: dict[str, Program] = {f.__name__: f for f in (rm, mkdir, mv, cp, touch, chmod)}
