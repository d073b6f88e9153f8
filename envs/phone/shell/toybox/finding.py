"""`find`."""

from __future__ import annotations

import posixpath
import re
import stat
from collections.abc import Callable

from envs.phone.shell import files
from envs.phone.shell.command import Failure
from envs.phone.shell.regex import glob
from envs.phone.shell.toybox.call import Call, Program

Test = Callable[[str, str], bool]
"""Of the name that `find` prints and the path."""
_UNITS = {"c": 1, "k": 1024, "M": 1 << 20, "G": 1 << 30, "w": 2, "b": 512, "": 512}
_KINDS = {"f": stat.S_ISREG, "d": stat.S_ISDIR, "c": stat.S_ISCHR, "l": stat.S_ISLNK}
DEEPEST = 60


class _Expression:
    """Parses the words behind the folders into one test."""

    def __init__(self, call: Call, words: list[str]) -> None:
        self._call, self._words, self._at = call, words, 0
        self.least, self.most = 0, DEEPEST
        self.depth_first = "-depth" in words or "-delete" in words
        self._acts = False
        self._batches: list[tuple[list[str], list[str]]] = []
        """Of every `-exec ... +`: the command and the names collected for it."""
        self._nesting = 0
        expression = self._or() if words else _always
        if self._at < len(words):
            raise Failure(f"find: bad arg '{words[self._at]}'")
        self.test: Test = expression if self._acts else _both(expression, self._print("\n"))

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
        left = self._and()
        while self._peek() in ("-o", "-or"):
            self._at += 1
            left = _either(left, self._and())
        return left

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
        call = self._call
        if word in ("-depth", "-follow", "-xdev", "-true", "-noleaf", "-mount"):
            return _always
        if word in ("-print", "-print0"):
            return self._print("\0" if word == "-print0" else "\n")
        if word == "-prune":
            return self._prune
        if word == "-delete":  # toybox prints what it deletes
            return self._delete
        if word in ("-exec", "-execdir", "-ok"):
            return self._exec()
        if word == "-empty":
            return lambda name, path: not (call.phone.files.get(path) or files.entries(call.phone, path))
        if word == "-false":
            return lambda name, path: False
        if not word.startswith("-"):
            raise Failure(f"find: bad arg '{word}'")
        return self._with_value(word, self._next())

    def _with_value(self, word: str, value: str) -> Test:
        call = self._call
        if word in ("-name", "-iname", "-path", "-ipath", "-wholename"):
            pattern = glob(value, fold=word.startswith("-i"))
            if word.endswith("path") or word == "-wholename":
                return lambda name, path: pattern.fullmatch(name) is not None
            return lambda name, path: pattern.fullmatch(posixpath.basename(name.rstrip("/")) or "/") is not None
        if word in ("-maxdepth", "-mindepth"):
            depth = min(call.number(value), DEEPEST)
            if word == "-maxdepth":
                self.most = depth
            else:
                self.least = depth
            return _always
        if word == "-type":
            kinds = [_KINDS.get(kind) for kind in value.split(",")]
            if None in kinds:
                raise Failure(f"find: bad -type '{value}'")
            return lambda name, path: any(k(files.attributes(call.phone, path).mode) for k in kinds if k)
        if word in ("-user", "-group"):
            field = "owner" if word == "-user" else "group"
            return lambda name, path: getattr(files.attributes(call.phone, path), field) == value
        if word == "-newer":
            newer = files.attributes(call.phone, call.path(value)).mtime
            return lambda name, path: files.attributes(call.phone, path).mtime > newer
        if word == "-perm":
            return self._permission(value)
        if word in ("-size", "-mtime", "-mmin"):
            return self._compared(word, value)
        raise Failure(f"find: bad arg '{word}'")

    def _permission(self, value: str) -> Test:
        if not re.fullmatch(r"[-/+]?[0-7]{1,4}", value):
            raise Failure(f"find: bad -perm '{value}'")
        wanted, phone = int(value.lstrip("-/+"), 8), self._call.phone
        if value.startswith("-"):
            return lambda name, path: files.attributes(phone, path).mode & wanted == wanted
        if value[0] in "/+":
            return lambda name, path: bool(files.attributes(phone, path).mode & wanted)
        return lambda name, path: stat.S_IMODE(files.attributes(phone, path).mode) == wanted

    def _compared(self, word: str, value: str) -> Test:
        """`+N`, `-N` or `N` of some unit."""
        found = re.fullmatch(r"([+-]?)(\d{1,12})([ckMGwb]?)", value)
        if not found or word != "-size" and found[3]:
            raise Failure(f"find: bad {word} '{value}'")
        sign, wanted = found[1], int(found[2])
        phone, now = self._call.phone, files.seconds(self._call.phone.now)

        def measured(path: str) -> int:
            if word == "-size":
                return -(-files.size(phone, path) // _UNITS[found[3]])
            return (now - files.attributes(phone, path).mtime) // (86400 if word == "-mtime" else 60)

        return lambda name, path: (
            measured(path) > wanted
            if sign == "+"
            else measured(path) < wanted
            if sign == "-"
            else measured(path) == wanted
        )

    # --- actions -----------------------------------------------------------------------------------------------

    def _print(self, end: str) -> Test:
        self._acts = True

        def act(name: str, path: str) -> bool:
            self._call.out(name + end)
            return True

        return act

    pruned = False

    def _prune(self, name: str, path: str) -> bool:
        self.pruned = True
        return True

    def _delete(self, name: str, path: str) -> bool:
        call = self._call
        if (
            path in files.ROOTS
            or files.read_only(path)
            or path not in call.phone.files
            and files.entries(call.phone, path)
        ):
            call.wrong(f"{name}: Directory not empty")
            return False
        files.remove(call.phone, path)
        call.phone.changed()
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


def _either(one: Test, two: Test) -> Test:
    return lambda name, path: one(name, path) or two(name, path)


def find(call: Call) -> None:
    words = [w for w in call.words if w not in ("-L", "-H", "-P")]
    starts: list[str] = []
    while words and not words[0].startswith("-") and words[0] not in ("!", "("):
        starts.append(words.pop(0))
    expression = _Expression(call, words)
    call.spend(len(call.phone.files) >> 4)
    tree = files.folders(call.phone)
    for start in starts or ["."]:
        if not files.exists(call.phone, call.path(start)):
            call.wrong(f"'{start}': No such file or directory")
            continue
        _walk(call, expression, tree, start, call.path(start), 0)
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
