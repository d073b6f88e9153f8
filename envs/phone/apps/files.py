"""Files: the folders of /sdcard, which hold what `adb push` and `ls` see; opened, renamed, moved, deleted, searched."""

from __future__ import annotations

import random
from functools import partial

from mobilerl.envs.phone.app import App, Page
from mobilerl.envs.phone.panes import ListDetail
from mobilerl.envs.phone.ui import Dialog, Node, Screen
from mobilerl.envs.phone.widgets import fab, icon_button, item, label
from mobilerl.envs.phone.words import FOLDERS, NOTE_LINES, NOTE_TITLES

ROOT = "/sdcard"
KINDS = {"Documents": "txt", "Downloads": "pdf", "Music": "mp3", "Pictures": "jpg"}
"""Folder -> the ending of what it is filled with."""
ICONS = {"txt": "note", "pdf": "document", "mp3": "music", "jpg": "image"}
SORTS = ("Name", "Size")


def base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def parent(path: str) -> str:
    return path.rsplit("/", 1)[0]


class Files(App):
    package = "com.android.documentsui"
    label = "Files"
    authority = "files"
    icon = "folder"
    color = "#1565C0"
    default_prefs = {"sort": "Name"}
    list_detail = ListDetail(("main", "folder", "search"), ("file",), "Select a file")

    def populate(self, rng: random.Random) -> None:
        for folder in FOLDERS:
            self._make_folder(f"{ROOT}/{folder}")
            for title in rng.sample(NOTE_TITLES, 3):
                data = rng.choice(NOTE_LINES).encode() if folder == "Documents" else bytes(1000 * rng.randint(10, 99))
                self.phone.files[f"{ROOT}/{folder}/{title}.{KINDS[folder]}"] = data

    def folders(self, path: str) -> list[str]:
        """Paths of the folders in a folder. One exists while something is in it, or its marker (see `_make_folder`)."""
        heads = {p[len(path) + 1 :].split("/")[0] for p in self.phone.files if _below(p, path) and _deep(p, path)}
        return [f"{path}/{h}" for h in sorted(heads) if h and not h.startswith(".")]

    def files(self, path: str) -> list[str]:
        """Paths of the files in a folder, in the order chosen by the user: by name, or the largest first."""
        found = [p for p in self.phone.files if _below(p, path) and not _deep(p, path) and not _hidden(p)]
        sizes = self.phone.files if self.prefs["sort"] == "Size" else {}
        return sorted(found, key=lambda p: (-len(sizes.get(p, b"")), base(p)))

    def all_folders(self, path: str = ROOT) -> list[str]:
        return [p for child in self.folders(path) for p in (child, *self.all_folders(child))]

    def page_main(self, page: Page) -> Screen:
        return self._folder_screen(self.t("Files"), ROOT, [])

    def page_folder(self, page: Page) -> Screen:
        path: str = page.args["path"]
        screen = self._folder_screen(base(path), path, self.files(path))
        screen.on_up = self.up
        return screen

    def _folder_screen(self, title: str, path: str, files: list[str]) -> Screen:
        body = [self._folder_row(p) for p in self.folders(path)] + [self._file_row(p) for p in files]
        actions = [self.search_button(), icon_button("sort", self.t("Sort"), lambda: self.open_dialog("sort"))]
        new = fab("plus", self.t("New folder"), lambda: self.ask("new", "name", path=path))
        return Screen(title, body or [label(self.t("This folder is empty"))], actions, fab=new)

    def _folder_row(self, path: str) -> Node:
        count = len(self.folders(path)) + len(self.files(path))
        fixed = parent(path) == ROOT and base(path) in FOLDERS
        hold = None if fixed else lambda: self.open_dialog("options", path=path)
        content = self.t("{count} item" if count == 1 else "{count} items", count=count)
        return item(base(path), content, on_tap=lambda: self.go("folder", path=path), on_long=hold, icon="folder")

    def _size_text(self, path: str) -> str:
        """As Android writes it: bytes below a thousand, else kB."""
        size = len(self.phone.files[path])
        return self.t("{size} B", size=size) if size < 1000 else self.t("{size} kB", size=size // 1000)

    def _file_row(self, path: str, note: str = "") -> Node:
        return item(
            base(path),
            note or self._size_text(path),
            icon=_icon(path),
            on_tap=lambda: self.go("file", path=path),
            on_long=lambda: self.open_dialog("options", path=path),
            selected=self.shown_beside(path=path),
        )

    def page_search(self, page: Page) -> Screen:
        paths = [p for folder in self.all_folders() for p in self.files(folder)]

        def row(path: str) -> Node:
            return self._file_row(path, base(parent(path)))

        return self.search_screen(page, self.t("Search files"), paths, base, row)

    def page_file(self, page: Page) -> Screen:
        path: str = page.args["path"]
        if path not in self.phone.files:
            return self.missing(self.t("File"), self.t("This file is gone"))
        data = self.phone.files[path]
        text = data.decode(errors="replace") if path.endswith(".txt") else ""
        body = [label(text, size=16)] if text else [Node(look="tile", icon=_icon(path), color="#90A4AE", height=240)]
        body.append(item(self._size_text(path), self.t("In {folder}", folder=base(parent(path)))))
        more = icon_button("more", self.t("More"), lambda: self.open_dialog("options", path=path))
        return Screen(base(path), body, [more], on_up=self.up)

    def page_move(self, page: Page) -> Screen:
        path: str = page.args["path"]
        targets = [f for f in self.all_folders() if f != parent(path) and not _below(f"{f}/", path)]
        return Screen(self.t("Move to"), [self._target_row(path, f) for f in targets], on_up=self.up)

    def _target_row(self, path: str, folder: str) -> Node:
        within = base(parent(folder)) if parent(folder) != ROOT else ""
        return item(base(folder), within, on_tap=lambda: self._move(path, f"{folder}/{base(path)}"), icon="folder")

    def dialog_options(self, page: Page) -> Dialog:
        path = page.dialog_args["path"]
        rows = [
            item(self.t("Rename"), on_tap=lambda: self.ask("rename", "name", base(path), path=path), icon="edit"),
            item(self.t("Move"), on_tap=lambda: self._choose_target(path), icon="folder"),
            item(self.t("Delete"), on_tap=lambda: self.open_dialog("delete", path=path), icon="trash"),
        ]
        return Dialog(base(path), rows)

    def dialog_sort(self, page: Page) -> Dialog:
        dialog = self.choice(self.t("Sort by"), SORTS, self.prefs["sort"], lambda order: self.prefs.update(sort=order))
        dialog.buttons = []
        return dialog

    def dialog_new(self, page: Page) -> Dialog:
        return self.text_dialog(self.t("New folder"), "name", self.t("Name"), self.t("Create"))

    def dialog_rename(self, page: Page) -> Dialog:
        return self.text_dialog(self.t("Rename"), "name", self.t("Name"), self.t("Save"))

    def dialog_delete(self, page: Page) -> Dialog:
        path = page.dialog_args["path"]
        delete = partial(self._delete, path)
        return self.confirmation(
            self.t("Delete {name}?", name=base(path)), delete, text=self.t("It cannot be restored.")
        )

    def submit(self, page: Page, key: str) -> None:
        """The name dialogs' button, or Enter in their field."""
        if key != "name":
            return
        name, path = page.fields["name"].strip(), page.dialog_args["path"]
        target = f"{path}/{name}" if page.dialog == "new" else f"{parent(path)}/{name}"
        if not name or name.startswith(".") or "/" in name or target in self._list_taken():
            self.toast(self.t("This name cannot be used"))
        elif page.dialog == "new":
            self.close_dialog()
            self._make_folder(target)
        else:
            self._move(path, target)

    def _make_folder(self, path: str) -> None:
        """Leaves the marker that `mkdir` leaves: the path with a trailing slash."""
        self.phone.files[f"{path}/"] = b""

    def _list_taken(self) -> set[str]:
        return {*self.phone.files, *self.all_folders()}

    def _choose_target(self, path: str) -> None:
        self.close_dialog()
        self.go("move", path=path)

    def _move(self, path: str, target: str) -> None:
        """Renames or moves a file, or a folder with all that is in it, and leaves the pages that showed it."""
        self.close_dialog()
        if target in self._list_taken():
            self.toast(self.t("This name is taken"))
            return
        self._make_folder(parent(path))
        for old in self._tree(path):
            self.phone.files[target + old[len(path) :]] = self.phone.files.pop(old)
        self._leave(path)
        self.toast(self.t("Done"))

    def _delete(self, path: str) -> None:
        self.close_dialog()
        self._make_folder(parent(path))
        for old in self._tree(path):
            del self.phone.files[old]
        self._leave(path)
        self.toast(self.t("Deleted"))

    def _tree(self, path: str) -> list[str]:
        """A file, or a folder with all that is in it."""
        return [p for p in self.phone.files if p == path or _below(p, path)]

    def _leave(self, path: str) -> None:
        gone = [p for p in self.stack if p.args.get("path") == path or _below(p.args.get("path", ""), path)]
        self.stack = [p for p in self.stack if p not in gone]


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _deep(path: str, folder: str) -> bool:
    return "/" in path[len(folder) + 1 :]


def _hidden(path: str) -> bool:
    return base(path).startswith(".") or not base(path)


def _icon(path: str) -> str:
    return ICONS.get(path.rsplit(".", 1)[-1], "document")
