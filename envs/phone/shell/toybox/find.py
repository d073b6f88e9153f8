"""`find FOLDER ... [-mindepth N] [-maxdepth N] [-name PATTERN] [-type KIND] [-delete]`.

Several `-name` or several `-type` are alternatives, joined by `-o`.
"""

from __future__ import annotations

import posixpath
import stat

from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure
from mobilerl.envs.phone.shell.regex import Pattern, glob
from mobilerl.envs.phone.shell.toybox.call import Call, Program

DEEPEST = 60
"""Maximum depth to which `find` descends."""
_KINDS = {"f": stat.S_ISREG, "d": stat.S_ISDIR}


def find(call: Call) -> None:
    first = next((i for i, w in enumerate(call.words) if w.startswith("-")), len(call.words))
    depths, names, kinds = {"-mindepth": 0, "-maxdepth": DEEPEST}, list[Pattern](), set[str]()
    words = iter(call.words[first:])
    for word in words:
        if word in depths:
            depths[word] = min(call.number(next(words, "")), DEEPEST)
        elif word == "-name":
            names.append(glob(next(words, "")))
        elif word == "-type" and (kind := next(words, "")) in _KINDS:
            kinds.add(kind)
        elif word not in ("-o", "-delete"):
            raise Failure(f"find: bad arg '{word}'")
    tree, deletes = files.folders(call.phone), "-delete" in call.words

    def visit(name: str, path: str) -> None:
        base = posixpath.basename(name.rstrip("/")) or "/"
        if names and not any(pattern.fullmatch(base) for pattern in names):
            return
        if kinds and not any(_KINDS[kind](files.mode(call.phone, path)) for kind in kinds):
            return
        if not deletes or _delete(call, name, path):
            call.out(f"{name}\n")  # like toybox, also prints deleted files

    def walk(name: str, path: str, depth: int) -> None:
        call.spend(2)
        wanted = depth >= depths["-mindepth"]
        if wanted and not deletes:
            visit(name, path)
        for inside in tree.get(path, ()) if depth < depths["-maxdepth"] else ():
            walk(posixpath.join(name, inside), posixpath.join(path, inside), depth + 1)
        if wanted and deletes:  # a folder's contents come first
            visit(name, path)

    for start, path in call.existing(call.words[:first] or ["."]):
        walk(start, path, 0)


def _delete(call: Call, name: str, path: str) -> bool:
    phone = call.phone
    kept = path in files.ROOTS or files.read_only(path)
    if kept or path not in phone.files and files.entries(phone, path):
        call.fail(f"{name}: Directory not empty")
        return False
    files.remove(phone, path)
    phone.invalidate()
    return True


PROGRAMS: dict[str, Program] = {"find": find}
