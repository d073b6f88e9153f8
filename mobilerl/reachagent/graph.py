"""The page graph: pages, edges labeled with actions, shortest paths from the apps' homes, and its files."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mobilerl.reachagent.actions import PageAction, same_action
from mobilerl.reachagent.identity import Abstraction
from mobilerl.system.atomic_files import sync_folder, write_atomic

FORMAT = "mobilerl page graph 1"
GRAPH_FILE, SCREENS = "graph.json", "screens"


class GraphError(ValueError):
    """Error of a graph that cannot be used. The message names the file or the page."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was first seen.

    Pages with the same `identity` are variants, that is, one page in different states (a form before and after typing).
    """

    id: str
    """Unique in the graph: the app's name, 0, and the numbers of the actions that lead here from its home."""
    app: str
    identity: str
    title: str
    xml: str
    screenshot: bytes
    """PNG; b"" if the explorer took none."""
    actions: tuple[PageAction, ...]
    """The action space A(P); action numbers are indices into it."""


@dataclass
class PageGraph:
    """Pages and edges. `edges[page][action]` is the page that an action leads to; an input's edge includes its text.

    `homes` maps each app to its first page.
    """

    width: int
    height: int
    homes: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    edges: dict[str, dict[PageAction, str]] = field(default_factory=dict)
    abstraction: Abstraction = field(default_factory=Abstraction)

    def add_page(self, page: Page) -> None:
        if page.id in self.pages:
            raise GraphError(f"there are two pages with the id {page.id}")
        self.pages[page.id] = page
        self.edges[page.id] = {}

    def add_edge(self, source: str, action: PageAction, target: str) -> None:
        """Adds an edge. Raises GraphError for an unknown page or an action that the page does not offer."""
        for page in (source, target):
            if page not in self.pages:
                raise GraphError(f"an edge names the page {page!r}, which is not in the graph")
        if action.slot not in self.pages[source].actions:
            raise GraphError(f"the page {source} does not offer {action.to_json()}")
        self.edges[source][action] = target

    def target(self, page: str, action: PageAction) -> str | None:
        """Page that an action leads to; None if it was never tried.

        A text that was not typed during exploration leads to the same page as an equivalent text or, without one, as
        any other text in the same field.
        """
        known = self.edges[page]
        if action in known or action.kind != "input":
            return known.get(action)
        typed = [a for a in known if a.kind == "input" and a.slot == action.slot]
        nearest = next((a for a in typed if same_action(action, a)), typed[0] if typed else None)
        return None if nearest is None else known[nearest]

    def paths(self, app: str) -> dict[str, tuple[PageAction, ...]]:
        """Shortest action sequences from an app's home to all reachable pages, by page.

        Ties are broken in favor of the action explored first.
        """
        home = self.homes[app]
        found: dict[str, tuple[PageAction, ...]] = {home: ()}
        queue = deque([home])
        while queue:
            page = queue.popleft()
            for action, target in self.edges[page].items():
                if target not in found:
                    found[target] = (*found[page], action)
                    queue.append(target)
        return found

    def unreachable(self) -> tuple[str, ...]:
        """Pages that cannot be reached from any app's home."""
        reached = {page for app in self.homes for page in self.paths(app)}
        return tuple(page for page in self.pages if page not in reached)

    def triples(self) -> list[tuple[str, PageAction, str]]:
        return [(source, a, target) for source, known in self.edges.items() for a, target in known.items()]

    def to_json(self) -> dict[str, Any]:
        """The graph as JSON values, without dumps and screenshots."""
        numbers = {page: i for i, page in enumerate(self.pages)}
        edges: dict[str, list[Any]] = defaultdict(list)
        for source, action, target in self.triples():
            edges[source].append([self.pages[source].actions.index(action.slot), action.text, numbers[target]])
        pages = [
            {
                "id": p.id,
                "app": p.app,
                "identity": p.identity,
                "title": p.title,
                "screenshot": bool(p.screenshot),
                "actions": [a.to_json() for a in p.actions],
                "edges": edges[p.id],
            }
            for p in self.pages.values()
        ]
        return {
            "format": FORMAT,
            "width": self.width,
            "height": self.height,
            "homes": self.homes,
            "abstraction": self.abstraction.to_json(),
            "pages": pages,
        }

    def save(self, folder: Path) -> None:
        """Writes `screens/<number>.{xml,png}` and then `graph.json`."""
        (folder / SCREENS).mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(self.pages.values()):
            (folder / SCREENS / f"{number}.xml").write_text(page.xml, encoding="utf-8")
            if page.screenshot:
                (folder / SCREENS / f"{number}.png").write_bytes(page.screenshot)
        sync_folder(folder)
        write_atomic(folder / GRAPH_FILE, json.dumps(self.to_json(), ensure_ascii=False).encode())

    @classmethod
    def load(cls, folder: Path) -> PageGraph:
        """Loads a graph. Raises GraphError if a file is missing or damaged."""
        file = folder / GRAPH_FILE
        try:
            stored = json.loads(file.read_bytes())
            if stored.get("format") != FORMAT:
                raise GraphError(f"{file} is not a page graph: its format is not {FORMAT!r}")
            return _read(stored, folder / SCREENS)
        except GraphError:
            raise
        except OSError as error:
            raise GraphError(f"a page graph cannot be read: {error}") from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise GraphError(f"{file} is damaged: {type(error).__name__}: {error}; explore again") from None


def _read(stored: Mapping[str, Any], screens: Path) -> PageGraph:
    abstraction = Abstraction.from_json(stored["abstraction"])
    graph = PageGraph(stored["width"], stored["height"], dict(stored["homes"]), abstraction=abstraction)
    ids = [p["id"] for p in stored["pages"]]
    for number, p in enumerate(stored["pages"]):
        actions = tuple(PageAction.from_json(a) for a in p["actions"])
        xml = (screens / f"{number}.xml").read_text(encoding="utf-8")
        png = (screens / f"{number}.png").read_bytes() if p["screenshot"] else b""
        graph.add_page(Page(p["id"], p["app"], p["identity"], p["title"], xml, png, actions))
    for p in stored["pages"]:
        for number, text, target in p["edges"]:
            graph.add_edge(p["id"], replace(graph.pages[p["id"]].actions[number], text=text), ids[target])
    if missing := [app for app, page in graph.homes.items() if page not in graph.pages]:
        raise ValueError(f"the home of {missing[0]} is not in the graph")
    return graph
