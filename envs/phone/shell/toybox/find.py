"""`find` with tests that are combined with `!` and `-o`, without parentheses."""

from __future__ import annotations

import operator
import posixpath
import re
import stat
from collections.abc import Callable

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.regex import RegexFault, glob
from envs.phone.shell.toybox.call import Call, Program

Test = Callable[[str, str], object]
"""A test or an action, given the printed name and the path."""
DEEPEST = 60
"""How deep `find` goes into folders."""
_UNITS = {"c": 1, "k": 1024, "M": 1 << 20, "G": 1 << 30, "": 512}
_KINDS = {"f": stat.S_ISREG, "d": stat.S_ISDIR, "c": stat.S_ISCHR, "l": stat.S_ISLNK}


class _Expression:
    """Parses the words behind the folders into alternatives, each a list of tests."""

    def __init__(self, call: Call, words: list[str]) -> None:
        self._call, self._words = call, iter(words)
        self.least, self.most = 0, DEEPEST
        self.alternatives: list[list[Test]] = [[]]
        self._batches: list[tuple[list[str], list[str]]] = []
        """The command of every `-exec ... +`, and the names collected for it."""
        self._acts = False
        for word in self._words:
            if word == "-o":
                self.alternatives.append([])
            elif word in ("!", "-not"):
                test = self._test(self._value(word))
                self.alternatives[-1].append(lambda name, path, test=test: not test(name, path))
            elif word != "-a":
                self.alternatives[-1].append(self._test(word))
        for tests in self.alternatives if not self._acts else ():
            tests.append(lambda name, path: self._print(f"{name}\n"))

    def run(self, name: str, path: str) -> None:
        any(all(test(name, path) for test in tests) for tests in self.alternatives)

    def finish(self) -> None:
        for command, names in self._batches:
            if names:
                self._call.shell.command([*command, *names])

    def _value(self, word: str) -> str:
        value = next(self._words, None)
        if value is None:
            raise Failure(f"find: '{word}' needs 1 arg")
        return value

    def _test(self, word: str) -> Test:
        phone = self._call.phone
        if word in ("-print", "-print0"):
            self._acts = True
            return lambda name, path: self._print(name + ("\0" if word == "-print0" else "\n"))
        if word == "-delete":  # toybox prints the names of deleted files
            return self._delete
        if word == "-exec":
            return self._exec()
        if word == "-empty":
            return lambda name, path: not (phone.files.get(path) or files.entries(phone, path))
        if word not in ("-name", "-iname", "-path", "-maxdepth", "-mindepth", "-type", "-size"):
            raise Failure(f"find: bad arg '{word}'")
        value = self._value(word)
        if word in ("-name", "-iname", "-path"):
            try:
                matches = glob(value, fold=word == "-iname").fullmatch
            except RegexFault as fault:
                raise Failure(f"find: {fault}") from None
            if word == "-path":
                return lambda name, path: matches(name)
            return lambda name, path: matches(posixpath.basename(name.rstrip("/")) or "/")
        if word == "-maxdepth":
            self.most = min(self._call.number(value), DEEPEST)
            return lambda name, path: True
        if word == "-mindepth":
            self.least = self._call.number(value)
            return lambda name, path: True
        if word == "-type" and value in _KINDS:
            return lambda name, path: _KINDS[value](files.attributes(phone, path).mode)
        measure = re.fullmatch(r"([+-]?)(\d{1,12})([ckMG]?)", value)
        if word == "-type" or measure is None:
            raise Failure(f"find: bad arg '{word} {value}'")
        compare = {"+": operator.gt, "-": operator.lt, "": operator.eq}[measure[1]]
        unit, wanted = _UNITS[measure[3]], int(measure[2])
        return lambda name, path: compare(-(-files.size(phone, path) // unit), wanted)

    def _print(self, text: str) -> bool:
        self._call.out(text)
        return True

    def _delete(self, name: str, path: str) -> bool:
        phone = self._call.phone
        kept = path in files.ROOTS or files.read_only(path)
        if kept or path not in phone.files and files.entries(phone, path):
            self._call.fail(f"{name}: Directory not empty")
            return False
        files.remove(phone, path)
        phone.changed()
        return True

    def _exec(self) -> Test:
        self._acts = True
        command: list[str] = []
        while (word := self._value("-exec")) != ";":
            if word == "+" and command[-1:] == ["{}"]:
                names: list[str] = []
                self._batches.append((command[:-1], names))
                return lambda name, path: names.append(name) or True
            command.append(word)
        if not command:
            raise Failure("find: bad -exec")
        return lambda name, path: self._call.shell.command([w.replace("{}", name) for w in command]) == 0


def find(call: Call) -> None:
    words = [w for w in call.words if w not in ("-L", "-H", "-P")]
    first = next((i for i, w in enumerate(words) if w.startswith("-") or w == "!"), len(words))
    expression = _Expression(call, words[first:])
    tree = files.folders(call.phone)
    contents_first = "-delete" in words

    def walk(name: str, path: str, depth: int) -> None:
        call.spend(2)
        if depth >= expression.least and not contents_first:
            expression.run(name, path)
        for inside in tree.get(path, ()) if depth < expression.most else ():
            walk(posixpath.join(name, inside), posixpath.join(path, inside), depth + 1)
        if depth >= expression.least and contents_first:
            expression.run(name, path)

    for start, path in call.existing(words[:first] or ["."]):
        walk(start, path, 0)
    expression.finish()


PROGRAMS: dict[str, Program] = {"find": find}
