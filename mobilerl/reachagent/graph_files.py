"""Files of a page graph. Screens and action spaces stay on the disk until they are asked for.

graph.json      format, screen size, homes, abstraction; written last
pages.jsonl     one page a line: id, app, identity, title, the files of its dump and screenshot, actions
edges.jsonl     one edge a line: page, action, page
screens/        dumps and screenshots, unless they are files of a data set, which are named by their full path
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mobilerl.reachagent.actions import PageAction
from mobilerl.reachagent.graph import GraphError, Page, PageGraph
from mobilerl.reachagent.identity import Abstraction
from mobilerl.system.atomic_files import sync_folder, write_atomic

FORMAT = "mobilerl page graph 2"
GRAPH_FILE, PAGES_FILE, EDGES_FILE, SCREENS = "graph.json", "pages.jsonl", "edges.jsonl", "screens"
CACHED = 4096
"""Number of action spaces kept in memory."""
Edge = tuple[str, PageAction, str]


class GraphWriter:
    """Writes a graph page by page. A folder without `graph.json` is unfinished."""

    def __init__(self, folder: Path) -> None:
        (folder / SCREENS).mkdir(parents=True, exist_ok=True)
        (folder / GRAPH_FILE).unlink(missing_ok=True)
        self.folder, self.written = folder, 0
        self._pages = open(folder / PAGES_FILE, "w", encoding="utf-8")

    def add(self, page: Page, xml: Path | None = None, screenshot: Path | None = None) -> None:
        """Adds a page, whose dump and screenshot are copied to `screens/` unless they are in the files given."""
        files = {
            "xml": self._store(xml, f"{self.written}.xml", page.xml.encode()),
            "screenshot": self._store(screenshot, f"{self.written}.png", page.screenshot),
        }
        names = {"id": page.id, "app": page.app, "identity": page.identity, "title": page.title}
        record = names | files | {"actions": [a.to_json() for a in page.actions]}
        self._pages.write(json.dumps(record, ensure_ascii=False) + "\n")
        self.written += 1

    def _store(self, file: Path | None, name: str, content: bytes) -> str:
        if file is None and content:
            (self.folder / SCREENS / name).write_bytes(content)
            return f"{SCREENS}/{name}"
        return str(file.resolve()) if file else ""

    def finish(
        self, size: tuple[int, int], homes: Mapping[str, str], abstraction: Abstraction, edges: Iterable[Edge]
    ) -> None:
        """Writes the edges and then the file that makes the graph complete."""
        self._pages.close()
        with open(self.folder / EDGES_FILE, "w", encoding="utf-8") as file:
            for source, action, target in edges:
                file.write(json.dumps([source, action.to_json(), target], ensure_ascii=False) + "\n")
        sync_folder(self.folder)
        header = {"format": FORMAT, "width": size[0], "height": size[1], "homes": dict(homes)}
        header["abstraction"] = abstraction.to_json()
        write_atomic(self.folder / GRAPH_FILE, json.dumps(header, ensure_ascii=False).encode())


def save_graph(graph: PageGraph, folder: Path) -> None:
    writer = GraphWriter(folder)
    for page in graph.pages.values():
        writer.add(page)
    writer.finish((graph.width, graph.height), graph.homes, graph.abstraction, graph.triples())


class _Store:
    """The pages file of a stored graph."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, open(folder / PAGES_FILE, "rb")
        self.actions = lru_cache(CACHED)(self._actions)

    def pages(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the position and the record of each page."""
        self.file.seek(0)
        while line := self.file.readline():
            yield self.file.tell() - len(line), json.loads(line)

    def record(self, position: int) -> dict[str, Any]:
        self.file.seek(position)
        return dict(json.loads(self.file.readline()))

    def read(self, position: int, kind: str) -> bytes:
        """Content of a page's file, b"" if it has none. Raises GraphError if that cannot be read."""
        record = self.record(position)
        try:
            return (self.folder / record[kind]).read_bytes() if record[kind] else b""
        except OSError as error:
            fix = "put it back, or make the graph again"
            raise GraphError(f"the page {record['id']} of {self.folder} cannot be read: {error}; {fix}") from None

    def _actions(self, position: int) -> tuple[PageAction, ...]:
        return tuple(map(PageAction.from_json, self.record(position)["actions"]))


@dataclass(frozen=True, slots=True)
class _Stored:
    """Content of a page in files."""

    store: _Store
    position: int

    @property
    def xml(self) -> str:
        return self.store.read(self.position, "xml").decode("utf-8-sig").strip()

    @property
    def screenshot(self) -> bytes:
        return self.store.read(self.position, "screenshot")

    @property
    def actions(self) -> tuple[PageAction, ...]:
        return self.store.actions(self.position)


def load_graph(folder: Path) -> PageGraph:
    """Loads a graph. Raises GraphError if a file is missing or damaged; screens are only read when they are used."""
    try:
        return _load(folder, read_header(folder))
    except GraphError:
        raise
    except OSError as error:
        raise GraphError(f"a page graph cannot be read: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GraphError(
            f"the page graph {folder} is damaged: {type(error).__name__}: {error}; make it again"
        ) from None


def read_header(folder: Path) -> dict[str, Any]:
    """Content of `graph.json`. Raises GraphError if it is missing or damaged."""
    file = folder / GRAPH_FILE
    try:
        header = json.loads(file.read_bytes())
    except OSError as error:
        raise GraphError(f"a page graph cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise GraphError(f"{file} is damaged: {type(error).__name__}: {error}; make the graph again") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise GraphError(f"{file} is not a page graph: its format is not {FORMAT!r}; make the graph again")
    return header


def _load(folder: Path, header: Mapping[str, Any]) -> PageGraph:
    abstraction = Abstraction.from_json(header["abstraction"])
    graph = PageGraph(header["width"], header["height"], dict(header["homes"]), abstraction=abstraction)
    store = _Store(folder)
    for position, p in store.pages():
        graph.add_page(Page(p["id"], p["app"], p["identity"], p["title"], _Stored(store, position)))
    with open(folder / EDGES_FILE, "rb") as file:
        for line in file:
            source, action, target = json.loads(line)
            graph.edges[source][PageAction.from_json(action)] = graph.pages[target].id
    if missing := [app for app, page in graph.homes.items() if page not in graph.pages]:
        raise ValueError(f"the home of {missing[0]} is not in the graph")
    return graph
