"""An app in the layout in which Mobile3M's collector writes it. Its pages are made up here; none is of the data set."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

SIZE = (720, 1280)

WORDS = ("Tea", "Rice", "Soap", "Lamp", "Book", "Vase", "Rope", "Coat", "Ring", "Bell", "Drum", "Harp")
SEARCH = "tea"


def png(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", SIZE, (shade, 90, 200)).save(buffer, "PNG")
    return buffer.getvalue()


def element(cls: str, text: str, y: int, **attributes: str) -> str:
    """A node of Appium's page source, 80 px high; its tag is its class."""
    shown = {"class": f"android.widget.{cls}", "text": text, "enabled": "true", "displayed": "true"}
    shown |= {"package": "com.example.shop", "bounds": f"[20,{y}][700,{y + 80}]"} | attributes
    words = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in shown.items())
    return f"<android.widget.{cls} {words} />"


def page(title: str, buttons: tuple[str, ...], hint: str = "", typed: str = "") -> str:
    """A page with a title, a list of buttons, and perhaps a field."""
    rows = [element("Button", text, 300 + 100 * i, clickable="true") for i, text in enumerate(buttons)]
    box = 'class="android.widget.ScrollView" scrollable="true" enabled="true" bounds="[0,280][720,1280]"'
    entry = element("EditText", typed, 120, hint=hint, clickable="true", resource_id="shop:id/field") if hint else ""
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?><hierarchy rotation="0">'
        f"{element('TextView', title, 20)}{entry}<android.widget.ScrollView {box}>{''.join(rows)}"
        "</android.widget.ScrollView></hierarchy>"
    )


def click(text: str) -> str:
    """An action as the collector names it: the element as a line of HTML."""
    return f'click(<button package="com.example.shop" class="android.widget.Button" clickable="true"> {text} </button>)'


TYPE = f'input(<input id="shop:id/field" class="android.widget.EditText" clickable="true">  </input>, \'{SEARCH}\')'
UP = "scroll(([360, 1030], [360, 530]))"


@dataclass
class App:
    """Home, three shelves of four goods, a page for each; `About` is on every shelf and resembles the first one."""

    folder: Path
    name: str
    ids: dict[str, int] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    unique: dict[str, str] = field(default_factory=dict)

    def add(self, parent: str, call: str, xml: str, unique: str = "") -> str:
        name = f"{parent}_{self.ids.setdefault(call, len(self.ids))}" if parent else f"{self.name}0"
        self.pages[name], self.unique[name] = xml, unique or name
        self.calls[name] = [*self.calls[parent], call] if parent else []
        return name

    def build(self) -> None:
        shelves = [WORDS[4 * i : 4 * i + 4] for i in range(3)]
        names = tuple(f"{goods[0]} shelf" for goods in shelves)
        home = self.add("", "", page(f"The {self.name}", names, "Find goods"))
        found = self.add(home, TYPE, page("Results", ("Tea",), "Find goods", SEARCH))
        about, offers = "", {}
        for name, goods in zip(names, shelves, strict=True):
            shelf = self.add(home, click(name), page(name, (*goods, "About us")))
            last = self.add(shelf, click("About us"), page("Who we are", ("Call us", "Write to us")), about)
            about = about or last
            for thing in goods:
                offers[thing] = self.add(shelf, click(thing), page(f"{thing} offer", ("Buy it", "Share it")))
                self.add(offers[thing], click("Buy it"), page(f"{thing} in the cart", ("Pay now",)))
            scrolled = self.add(shelf, UP, page(name, (*goods[1:], "About us")))
            self.add(scrolled, click(goods[1]), page(f"{goods[1]} offer", ("Buy it", "Share it")), offers[goods[1]])
        self.add(found, click("Tea"), page("Tea offer", ("Buy it", "Share it")), offers["Tea"])

    def write(self, index: bool) -> Path:
        """Writes the folders of the pages and, with `index`, the files that list the graph."""
        self.build()
        for shade, (name, xml) in enumerate(self.pages.items()):
            folder, path = self.folder / name, name.split("_")
            folder.mkdir(parents=True)
            (folder / f"{name}-screen.png").write_bytes(png(shade))
            (folder / f"{name}-xml.txt").write_text(xml + "\n", encoding="utf-8")
            stored = {"round": len(path), "name": name, "unique_name": self.unique[name]}
            stored |= {"valid": self.unique[name] == name, "history_actions": self.calls[name]}
            (folder / f"{name}.json").write_text(json.dumps(stored, indent=4), encoding="utf-8")
        if index:
            ends = [name for name in self.pages if "_" in name]
            triples = [[end.rpartition("_")[0], int(end.rpartition("_")[2]), end] for end in ends]
            (self.folder / "all_triple.json").write_text(json.dumps({"num": len(triples), "data": triples}))
            for file, content in (("all_action_id", self.ids), ("data_all2unique", self.unique)):
                (self.folder / f"{file}.json").write_text(json.dumps(json.dumps(content)))
        return self.folder


def write_app(parent: Path, name: str = "shop", index: bool = True) -> Path:
    return App(parent / f"{name}_graph_8100", name).write(index)
