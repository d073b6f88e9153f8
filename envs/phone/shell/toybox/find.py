"""`find`: tests by name, type and depth, which `-o` combines, and `-delete`."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Callable, Iterator

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.regex import glob
from envs.phone.shell.toybox.call import Call, Program

Test = Callable[[str, str], object]
"""A test or an action, given the printed name and the path."""
DEEPEST = 60
"""How deep `find` goes into folders."""
_KINDS = {"f": stat.S_ISREG, "d": stat.S_ISDIR, "c": stat.S_ISCHR, "l": stat.S_ISLNK}


def find(call: Call) -> None:
    first = next((i for i, w in enumerate(call.words) if w.startswith("-")), len(call.words))
    depths = {"-mindepth": 0, "-maxdepth": DEEPEST}
    alternatives: list[list[Test]] = [[]]
    words = iter(call.words[first:])
    for word in words:
        if word == "-o":
            alternatives.append([])
        elif word in depths:
            depths[word] = min(call.number(_value(word, words)), DEEPEST)
        else:
            alternatives[-1].append(_test(call, word, words))
    tree, contents_first = files.folders(call.phone), "-delete" in call.words

    def visit(name: str, path: str) -> None:
        if any(all(test(name, path) for test in tests) for tests in alternatives):
            call.out(f"{name}\n")  # as in toybox, also that of a file that was deleted

    def walk(name: str, path: str, depth: int) -> None:
        call.spend(2)
        wanted = depth >= depths["-mindepth"]
        if wanted and not contents_first:
            visit(name, path)
        for inside in tree.get(path, ()) if depth < depths["-maxdepth"] else ():
            walk(posixpath.join(name, inside), posixpath.join(path, inside), depth + 1)
        if wanted and contents_first:
            visit(name, path)

    for start, path in call.existing(call.words[:first] or ["."]):
        walk(start, path, 0)


def _value(word: str, words: Iterator[str]) -> str:
    value = next(words, None)
    if value is None:
        raise Failure(f"find: '{word}' needs 1 arg")
    return value


def _test(call: Call, word: str, words: Iterator[str]) -> Test:
    """The test or action that starts with `word`; its value is taken from `words`."""
    if word == "-delete":
        return lambda name, path: _delete(call, name, path)
    if word == "-name":
        matches = glob(_value(word, words)).fullmatch
        return lambda name, path: matches(posixpath.basename(name.rstrip("/")) or "/")
    if word == "-type" and (kind := _value(word, words)) in _KINDS:
        return lambda name, path: _KINDS[kind](files.mode(call.phone, path))
    raise Failure(f"find: bad arg '{word}'")


def _delete(call: Call, name: str, path: str) -> bool:
    phone = call.phone
    kept = path in files.ROOTS or files.read_only(path)
    if kept or path not in phone.files and files.entries(phone, path):
        call.fail(f"{name}: Directory not empty")
        return False
    files.remove(phone, path)
    phone.changed()
    return True


PROGRAMS: dict[str, Program] = {"find": find}
