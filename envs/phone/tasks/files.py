"""Tasks of the Files app."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from envs.base import Action
from envs.phone.tasks.base import Admin, Hand, Template, same_answer
from envs.phone.words import FOLDERS, NEW_FOLDERS, NOTE_TITLES

ENDINGS = ("txt", "pdf", "mp3", "jpg")


def _path(folder: str, name: str = "") -> str:
    return f"/sdcard/{folder}/{name}".rstrip("/")


def _tree(phone: Admin) -> dict[str, list[str]]:
    """The names in each of the four folders."""
    return {folder: phone.list_files(_path(folder)) for folder in FOLDERS}


def _forget(phone: Admin, name: str) -> None:
    for folder in FOLDERS:
        phone.transport.shell(("rm", "-rf", _path(folder, name)))


class _OneFile(Template):
    """The file `name` lies in `folder` and nowhere else."""

    app = "Files"

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {"folder": rng.choice(FOLDERS), "name": f"{rng.choice(NOTE_TITLES)}.{rng.choice(ENDINGS)}"}

    def setup(self, phone: Admin) -> None:
        _forget(phone, self.p["name"])
        phone.write_file(_path(self.p["folder"], self.p["name"]), bytes(self.p.get("size", 20) * 1000))
        self.before = _tree(phone)

    def after(self, *removed: str, added: dict[str, str] | None = None) -> dict[str, list[str]]:
        """The folders as they were, with names removed from the task's folder and others added (name -> folder)."""
        tree = {folder: set(names) for folder, names in self.before.items()}
        tree[self.p["folder"]] -= set(removed)
        for name, folder in (added or {}).items():
            tree[folder].add(name)
        return {folder: sorted(names) for folder, names in tree.items()}

    def to_options(self, ui: Hand) -> Iterator[Action]:
        """To the dialog that a long press on the file opens."""
        yield ui.launch("Files")
        yield ui.tap(self.p["folder"])
        yield ui.long_press(self.p["name"])


class FilesDelete(_OneFile):
    instructions = ("Delete the file {name} in {folder}", "Remove {name} from the folder {folder}")
    steps = 6

    def check(self, phone: Admin, answer: str) -> bool:
        return _tree(phone) == self.after(self.p["name"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_options(ui)
        yield ui.tap("Delete")
        yield ui.tap("Delete")
        yield ui.finish()


class FilesRename(_OneFile):
    instructions = ("Rename the file {name} in {folder} to {new}",)
    steps = 7

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        (old, new), ending = rng.sample(NOTE_TITLES, 2), rng.choice(ENDINGS)
        return {"folder": rng.choice(FOLDERS), "name": f"{old}.{ending}", "new": f"{new}.{ending}"}

    def setup(self, phone: Admin) -> None:
        _forget(phone, self.p["new"])
        super().setup(phone)

    def check(self, phone: Admin, answer: str) -> bool:
        return _tree(phone) == self.after(self.p["name"], added={self.p["new"]: self.p["folder"]})

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_options(ui)
        yield ui.tap("Rename")
        yield ui.type(self.p["new"])
        yield ui.tap("Save")
        yield ui.finish()


class FilesMove(_OneFile):
    instructions = ("Move the file {name} from {folder} to {target}",)
    steps = 6

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        folder, target = rng.sample(FOLDERS, 2)
        return {**super().sample(rng), "folder": folder, "target": target}

    def check(self, phone: Admin, answer: str) -> bool:
        return _tree(phone) == self.after(self.p["name"], added={self.p["name"]: self.p["target"]})

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield from self.to_options(ui)
        yield ui.tap("Move")
        yield ui.tap(self.p["target"])
        yield ui.finish()


class FilesSize(_OneFile):
    instructions = ("How large is the file {name} in {folder}?",)
    steps = 3

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "size": rng.randint(10, 99)}

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, f"{self.p['size']} kB")

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Files")
        yield ui.tap(self.p["folder"])
        yield ui.finish(f"{self.p['size']} kB")


class FilesFind(_OneFile):
    split = "test"
    instructions = ("In which folder is the file {name}?", "Which folder holds the file {name}?")
    steps = 4

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["folder"])

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Files")
        yield ui.tap("Search")
        yield ui.type(self.p["name"])
        yield ui.finish(self.p["folder"])


class FilesLargest(_OneFile):
    """The folder is too long for one screen: sorting by size brings the answer to the top."""

    instructions = ("Which is the largest file in {folder}?", "Name the largest file in the folder {folder}")
    steps = 5

    def setup(self, phone: Admin) -> None:
        for i, title in enumerate(NOTE_TITLES[:11]):
            phone.write_file(_path(self.p["folder"], f"{title}.jpg"), bytes((20 + 3 * i) * 1000))
        super().setup(phone)
        phone.write_file(_path(self.p["folder"], self.p["name"]), bytes(200_000))

    def check(self, phone: Admin, answer: str) -> bool:
        return same_answer(answer, self.p["name"]) and _tree(phone) == self.before

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Files")
        yield ui.tap(self.p["folder"])
        yield ui.tap("Sort")
        yield ui.tap("Size")
        yield ui.finish(self.p["name"])


class FilesOrganise(_OneFile):
    instructions = ("In {folder} create the folder {new} and move {name} into it",)
    steps = 9

    @classmethod
    def sample(cls, rng: random.Random) -> dict[str, Any]:
        return {**super().sample(rng), "new": rng.choice(NEW_FOLDERS)}

    def setup(self, phone: Admin) -> None:
        _forget(phone, self.p["new"])
        super().setup(phone)

    def check(self, phone: Admin, answer: str) -> bool:
        moved = phone.list_files(_path(f"{self.p['folder']}/{self.p['new']}")) == [self.p["name"]]
        return moved and _tree(phone) == self.after(self.p["name"], added={self.p["new"]: self.p["folder"]})

    def expert(self, ui: Hand) -> Iterator[Action]:
        yield ui.launch("Files")
        yield ui.tap(self.p["folder"])
        yield ui.tap("New folder")
        yield ui.type(self.p["new"])
        yield ui.tap("Create")
        yield ui.long_press(self.p["name"])
        yield ui.tap("Move")
        yield ui.tap(self.p["new"])
        yield ui.finish()


TEMPLATES = (FilesDelete, FilesRename, FilesMove, FilesSize, FilesFind, FilesLargest, FilesOrganise)
