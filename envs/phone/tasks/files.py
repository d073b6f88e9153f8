"""Tasks of the Files app."""

from __future__ import annotations

import random
from typing import Any

from mobilerl.envs.phone.tasks.base import Admin, Template, Type
from mobilerl.envs.phone.tasks.helpers import long_press
from mobilerl.envs.phone.words import FOLDERS, NEW_FOLDERS, NOTE_TITLES

ENDINGS = ("txt", "pdf", "mp3", "jpg")


def _path(folder: str, name: str = "") -> str:
    return f"/sdcard/{folder}/{name}".rstrip("/")


def _tree(phone: Admin) -> dict[str, list[str]]:
    """The names in each of the four folders."""
    return {folder: phone.list_files(_path(folder)) for folder in FOLDERS}


class _OneFile(Template):
    """The file `name` lies in `folder` and nowhere else; no folder holds the `new` name."""

    app = "Files"
    params = {"folder": FOLDERS, "name": lambda rng: f"{rng.choice(NOTE_TITLES)}.{rng.choice(ENDINGS)}"}

    def setup(self, phone: Admin) -> None:
        for name in filter(None, (self.p.get("new"), self.p["name"])):
            for folder in FOLDERS:
                phone.transport.shell(("rm", "-rf", _path(folder, name)))
        phone.write_file(_path(self.p["folder"], self.p["name"]), bytes(self.p.get("size", 20) * 1000))
        self.before = _tree(phone)

    def moved(self, phone: Admin, new: str = "", folder: str = "") -> bool:
        """Whether the file is gone, `new` (if given) is in `folder`, and all else is as it was."""
        tree = {folder: set(names) for folder, names in self.before.items()}
        tree[self.p["folder"]].remove(self.p["name"])
        if new:
            tree[folder].add(new)
        return _tree(phone) == {folder: sorted(names) for folder, names in tree.items()}


class FilesDelete(_OneFile):
    instructions = (
        "[Delete|Remove|Erase] the file {name} [in|from] {folder}",
        "[Remove|Delete] {name} from the folder {folder}",
        "In [Files|the Files app] delete {name} from {folder}",
        "Get rid of the file {name} in {folder}",
    )
    script = ("{folder}", long_press("{name}"), "Delete", "Delete")

    def done(self, phone: Admin) -> bool:
        return self.moved(phone)


class FilesRename(_OneFile):
    instructions = (
        "Rename [the file |]{name} in {folder} to {new}",
        "[Change|Set] the name of [the file |]{name} in {folder} to {new}",
        "In {folder} rename [the file |]{name} to {new}",
        "The file {name} in {folder} should be [called|named] {new}",
    )
    script = ("{folder}", long_press("{name}"), "Rename", Type("{new}"), "Save")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        (old, new), ending = rng.sample(NOTE_TITLES, 2), rng.choice(ENDINGS)
        return {"folder": rng.choice(FOLDERS), "name": f"{old}.{ending}", "new": f"{new}.{ending}"}

    def done(self, phone: Admin) -> bool:
        return self.moved(phone, self.p["new"], self.p["folder"])


class FilesMove(_OneFile):
    instructions = (
        "[Move|Transfer|Bring] [the file |]{name} from {folder} [to|into] {target}",
        "In Files move {name} from {folder} to {target}",
        "The file {name} in {folder} should be in {target}, move it",
    )
    script = ("{folder}", long_press("{name}"), "Move", "{target}")

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        folder, target = rng.sample(FOLDERS, 2)
        return {**super().sample(rng), "folder": folder, "target": target}

    def done(self, phone: Admin) -> bool:
        return self.moved(phone, self.p["name"], self.p["target"])


class FilesSize(_OneFile):
    instructions = (
        "How large is [the file |]{name} in [|the folder ]{folder}?",
        "What [is the size of|size has] [the file |]{name} in {folder}?",
        "[Tell me|Look up] the size of [the file |]{name} in {folder}",
    )
    params = {**_OneFile.params, "size": range(10, 100)}
    script = ("{folder}",)
    answer = "{size} kB"


class FilesFind(_OneFile):
    split = "dev"
    instructions = (
        "In [which|what] folder is [the file |]{name}?",
        "[Which|What] folder has the file {name}?",
        "Where is the file {name}[ in Files|]?",
        "[Find|Look up|Tell me] the folder of the file {name}",
    )
    script = ("Search", Type("{name}"))
    answer = "{folder}"


class FilesLargest(_OneFile):
    """The folder is too long for one screen: sorting by size brings the answer to the top."""

    instructions = (
        "[Which|What] is the largest file in [|the folder ]{folder}?",
        "[Name|Tell me|Find|Look up] the largest file in [|the folder ]{folder}",
        "[Which|What] file in [|the folder ]{folder} is the largest?",
        "What is the name of the largest file in [|the folder ]{folder}?",
    )
    script = ("{folder}", "Sort", "Size")
    answer = "{name}"

    def setup(self, phone: Admin) -> None:
        for i, title in enumerate(NOTE_TITLES[:11]):
            phone.write_file(_path(self.p["folder"], f"{title}.jpg"), bytes((20 + 3 * i) * 1000))
        super().setup(phone)
        phone.write_file(_path(self.p["folder"], self.p["name"]), bytes(200_000))

    def done(self, phone: Admin) -> bool:
        return _tree(phone) == self.before


class FilesOrganise(_OneFile):
    instructions = (
        "In {folder} [create|make] [the|a] folder {new} and [move|put] {name} into it",
        "[Create|Make] the folder {new} in {folder} and [move|put] {name} into it",
        "Move {name} into a new folder {new} in {folder}",
    )
    params = {**_OneFile.params, "new": NEW_FOLDERS}
    script = ("{folder}", "New folder", Type("{new}"), "Create", long_press("{name}"), "Move", "{new}")

    def done(self, phone: Admin) -> bool:
        inside = phone.list_files(_path(f"{self.p['folder']}/{self.p['new']}"))
        return inside == [self.p["name"]] and self.moved(phone, self.p["new"], self.p["folder"])

    def conditions(self, phone: Admin, answer: str) -> list[bool]:
        folder, done = self.p["folder"], self.done(phone)
        created = self.before | {folder: sorted([*self.before[folder], self.p["new"]])}
        return [done or _tree(phone) == created, done]
