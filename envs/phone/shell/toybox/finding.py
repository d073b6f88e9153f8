"""`find`."""

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

Test = Callable[[str, str], bool]
"""A test or an action, given the name that `find` prints and the path."""
_UNITS = {"c": 1, "k": 1024, "M": 1 << 20, "G": 1 << 30, "": 512}
_KINDS = {"f": stat.S_ISREG, "d": stat.S_ISDIR, "c": stat.S_ISCHR, "l": stat.S_ISLNK}
DEEPEST = 60


class _Expression:
    """Parses the words behind the folders into one test."""

    def __init__(self, call: Call, words: list[str]) -> None:
        self._call, self._words, self._at, self._nesting = call, words, 0, 0
        self.least, self.most = 0, DEEPEST
        self.depth_first = "-depth" in words or "-delete" in words
        self.pruned = self._acts = False
        self._batches: list[tuple[list[str], list[str]]] = []
        """The command of every `-exec ... +`, and the names collected for it."""
        test = self._or() if words else _always
        if self._at < len(words):
            raise Failure(f"find: bad arg '{words[self._at]}'")
        self.test: Test = test if self._acts else _both(test, self._print("\n"))

    def finish(self) -> None:
        for command, names in self._batches:
            if names:
                self._call.shell.command([*command, *names])

    def _next(self) -> str:
        if self._at >= len(self._words):
            raise Failure(f"find: '{self._words[-1]}' needs 1 arg")
        self._at += 1
        return self._words[self._at - 1]

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _or(self) -> Test:
        alternatives = [self._and()]
        while self._peek() in ("-o", "-or"):
            self._at += 1
            alternatives.append(self._and())
        return lambda name, path: any(test(name, path) for test in alternatives)

    def _and(self) -> Test:
        left = self._not()
        while self._peek() not in ("", ")", "-o", "-or"):
            if self._peek() in ("-a", "-and"):
                self._at += 1
            left = _both(left, self._not())
        return left

    def _not(self) -> Test:
        word = self._next()
        self._nesting += 1
        if self._nesting > DEEPEST:
            raise Failure("find: expression too complex")
        if word in ("!", "-not"):
            inner = self._not()
            test: Test = lambda name, path: not inner(name, path)  # noqa: E731
        elif word == "(":
            test = self._or()
            if self._next() != ")":
                raise Failure("find: need )")
        else:
            test = self._primary(word)
        self._nesting -= 1
        return test

    def _primary(self, word: str) -> Test:
        phone = self._call.phone
        if word in ("-depth", "-follow", "-xdev", "-true"):
            return _always
        if word in ("-print", "-print0"):
            return self._print("\0" if word == "-print0" else "\n")
        if word in ("-prune", "-delete"):  # toybox prints what it deletes
            return self._prune if word == "-prune" else self._delete
        if word == "-exec":
            return self._exec()
        if word == "-empty":
            return lambda name, path: not (phone.files.get(path) or files.entries(phone, path))
        if not word.startswith("-"):
            raise Failure(f"find: bad arg '{word}'")
        return self._with_value(word, self._next())

    def _with_value(self, word: str, value: str) -> Test:
        call, phone = self._call, self._call.phone
        if word in ("-name", "-iname", "-path", "-ipath"):
            try:
                matches = glob(value, fold=word.startswith("-i")).fullmatch
            except RegexFault as fault:
                raise Failure(f"find: {fault}") from None
            if word.endswith("path"):
                return lambda name, path: bool(matches(name))
            return lambda name, path: bool(matches(posixpath.basename(name.rstrip("/")) or "/"))
        if word in ("-maxdepth", "-mindepth"):
            self.most = min(call.number(value), DEEPEST) if word == "-maxdepth" else self.most
            self.least = call.number(value) if word == "-mindepth" else self.least
            return _always
        if word == "-type" and set(value) <= {*_KINDS, ","}:
            kinds = [_KINDS[kind] for kind in value.split(",") if kind]
            return lambda name, path: any(k(files.attributes(phone, path).mode) for k in kinds)
        measure = re.fullmatch(r"([+-]?)(\d{1,12})([ckMG]?)", value)
        if word == "-size" and measure:
            compare = {"+": operator.gt, "-": operator.lt, "": operator.eq}[measure[1]]
            unit, wanted = _UNITS[measure[3]], int(measure[2])
            return lambda name, path: compare(-(-files.size(phone, path) // unit), wanted)
        raise Failure(f"find: bad arg '{word} {value}'")

    # --- actions -----------------------------------------------------------------------------------------------

    def _print(self, end: str) -> Test:
        self._acts = True
        return lambda name, path: self._call.out(name + end) is None

    def _prune(self, name: str, path: str) -> bool:
        self.pruned = True
        return True

    def _delete(self, name: str, path: str) -> bool:
        phone = self._call.phone
        kept = path in files.ROOTS or files.read_only(path)
        if kept or path not in phone.files and files.entries(phone, path):
            self._call.wrong(f"{name}: Directory not empty")
            return False
        files.remove(phone, path)
        phone.changed()
        return True

    def _exec(self) -> Test:
        self._acts = True
        command: list[str] = []
        while (word := self._next()) != ";":
            if word == "+" and command[-1:] == ["{}"]:
                names: list[str] = []
                self._batches.append((command[:-1], names))
                return lambda name, path: names.append(name) is None
            command.append(word)
        if not command:
            raise Failure("find: bad -exec")
        return lambda name, path: self._call.shell.command([w.replace("{}", name) for w in command]) == 0


def _always(name: str, path: str) -> bool:
    return True


def _both(one: Test, two: Test) -> Test:
    return lambda name, path: one(name, path) and two(name, path)


def find(call: Call) -> None:
    words = [w for w in call.words if w not in ("-L", "-H", "-P")]
    starts: list[str] = []
    while words and not words[0].startswith("-") and words[0] not in ("!", "("):
        starts.append(words.pop(0))
    expression = _Expression(call, words)
    call.walk()
    tree = files.folders(call.phone)
    for start in starts or ["."]:
        if files.exists(call.phone, call.path(start)):
            _walk(call, expression, tree, start, call.path(start), 0)
        else:
            call.wrong(f"'{start}': No such file or directory")
    expression.finish()


def _walk(call: Call, expression: _Expression, tree: dict[str, list[str]], name: str, path: str, depth: int) -> None:
    call.spend(2)
    tested = depth >= expression.least
    expression.pruned = False
    if tested and not expression.depth_first:
        expression.test(name, path)
    if depth < expression.most and not expression.pruned:
        for inside in tree.get(path, ()):
            joined = name + inside if name.endswith("/") else f"{name}/{inside}"
            _walk(call, expression, tree, joined, posixpath.join(path, inside), depth + 1)
    if tested and expression.depth_first:
        expression.test(name, path)


PROGRAMS: dict[str, Program] = {"find": find}
