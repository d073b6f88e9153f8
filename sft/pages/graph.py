"""The page graph: pages, typed edges between them, shortest paths from the apps' homes, and its files."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.device import PNG_END, PNG_SIGNATURE
from mobilerl.atomic_files import sync_folder, write_atomic
from sft.pages.actions import PageAction, same_action
from sft.pages.identity import Abstraction

FORMAT = "mobilerl page graph 1"
GRAPH_FILE, SCREENS = "graph.json", "screens"


class GraphError(ValueError):
    """A graph that cannot be used. The message names the file or the page."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it was first seen.

    Pages of equal `identity` are the same page in different states (a form before and after typing): its variants.
    """

    id: str
    """Unique in the graph: the app's name, 0, and the numbers of the actions that lead here from its home."""
    app: str
    identity: str
    title: str
    xml: str
    screenshot: bytes
    """PNG; b"" when the explorer took none."""
    actions: tuple[PageAction, ...]
    """The action space A(P), in the order that action numbers count."""


Path_ = tuple[PageAction, ...]


@dataclass
class PageGraph:
    """`edges[page][action]` is where an action leads; an input's edge holds its text.

    `homes` maps each app to the page it starts at.
    """

    width: int
    height: int
    homes: dict[str, str] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    edges: dict[str, dict[PageAction, str]] = field(default_factory=dict)
    abstraction: Abstraction = field(default_factory=Abstraction)

    def add_page(self, page: Page) -> None:
        if page.id in self.pages:
            raise GraphError(f"there are two pages called {page.id}")
        self.pages[page.id] = page
        self.edges[page.id] = {}

    def add_edge(self, source: str, action: PageAction, target: str) -> None:
        """Raises GraphError for pages that are not there, and for an action that the page does not offer."""
        for page in (source, target):
            if page not in self.pages:
                raise GraphError(f"an edge names the page {page!r}, which is not in the graph")
        if action.slot not in self.pages[source].actions:
            raise GraphError(f"the page {source} does not offer {action.to_json()}")
        self.edges[source][action] = target

    def target(self, page: str, action: PageAction) -> str | None:
        """Where an action leads, None when it was never tried.

        A text that was not typed while exploring leads where one that counts as the same led, else where any other one
        in the same field did.
        """
        known = self.edges[page]
        if action in known or action.kind != "input":
            return known.get(action)
        slot = action.slot
        typed = [a for a in known if a.kind == "input" and a.slot == slot]
        nearest = next((a for a in typed if same_action(action, a)), typed[0] if typed else None)
        return None if nearest is None else known[nearest]

    def identities(self) -> frozenset[str]:
        return frozenset(page.identity for page in self.pages.values())

    # --- paths -----------------------------------------------------------------------------------------------

    def paths(self, app: str) -> dict[str, Path_]:
        """Page -> a shortest action sequence from an app's home, for all pages that can be reached from it.

        Among equally short ones the one that was explored first is taken.
        """
        home = self.homes[app]
        found: dict[str, Path_] = {home: ()}
        queue = deque([home])
        while queue:
            page = queue.popleft()
            for action, target in self.edges[page].items():
                if target not in found:
                    found[target] = (*found[page], action)
                    queue.append(target)
        return found

    def unreachable(self) -> tuple[str, ...]:
        """Pages that no app's home leads to."""
        reached = {page for app in self.homes for page in self.paths(app)}
        return tuple(page for page in self.pages if page not in reached)

    def without(self, pages: Iterable[str]) -> PageGraph:
        """The graph without some pages and their edges. A home cannot be left out."""
        gone = set(pages)
        if homes := sorted(gone & set(self.homes.values())):
            raise GraphError(f"the home {homes[0]} cannot be left out")
        kept = PageGraph(self.width, self.height, dict(self.homes), abstraction=self.abstraction)
        for page in self.pages.values():
            if page.id not in gone:
                kept.add_page(page)
        for source, action, target in self.triples():
            if source not in gone and target not in gone:
                kept.add_edge(source, action, target)
        return kept

    def triples(self) -> list[tuple[str, PageAction, str]]:
        return [(source, a, target) for source, known in self.edges.items() for a, target in known.items()]

    # --- files -----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """All but the screens themselves."""
        numbers = {page.id: i for i, page in enumerate(self.pages.values())}
        edges: dict[str, list[Any]] = defaultdict(list)
        for source, action, target in self.triples():
            edges[source].append([self.pages[source].actions.index(action.slot), action.text, numbers[target]])
        pages = [
            {"id": p.id, "app": p.app, "identity": p.identity, "title": p.title, "screenshot": bool(p.screenshot),
             "actions": [a.to_json() for a in p.actions], "edges": edges[p.id]}
            for p in self.pages.values()
        ]  # fmt: skip
        return {"format": FORMAT, "width": self.width, "height": self.height, "homes": self.homes,
                "abstraction": self.abstraction.to_json(), "pages": pages}  # fmt: skip

    def save(self, folder: Path) -> None:
        """Writes `graph.json` and `screens/<page>.{xml,png}`; the first one last."""
        (folder / SCREENS).mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(self.pages.values()):
            (folder / SCREENS / f"{number}.xml").write_text(page.xml, encoding="utf-8")
            if page.screenshot:
                (folder / SCREENS / f"{number}.png").write_bytes(page.screenshot)
        sync_folder(folder)
        write_atomic(folder / GRAPH_FILE, json.dumps(self.to_json(), ensure_ascii=False).encode())

    @classmethod
    def load(cls, folder: Path) -> PageGraph:
        """Raises GraphError when a file is missing or damaged."""
        file = folder / GRAPH_FILE
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored.get("format") != FORMAT:
                raise GraphError(f"{file} is not a page graph: its format is not {FORMAT!r}")
            width, height = read_size([stored["width"], stored["height"]])
            return _read(cls(width, height, dict(stored["homes"])), stored, folder / SCREENS)
        except GraphError:
            raise
        except OSError as error:
            raise GraphError(f"a page graph cannot be read: {error}") from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise GraphError(f"{file} is damaged: {type(error).__name__}: {error}") from None


def _read(graph: PageGraph, stored: Mapping[str, Any], screens: Path) -> PageGraph:
    graph.abstraction = Abstraction.from_json(stored["abstraction"])
    ids = [p["id"] for p in stored["pages"]]
    for number, p in enumerate(stored["pages"]):
        actions = tuple(PageAction.from_json(a) for a in p["actions"])
        xml = (screens / f"{number}.xml").read_text(encoding="utf-8")
        picture = screens / f"{number}.png"
        png = picture.read_bytes() if p["screenshot"] else b""
        if p["screenshot"] and not is_whole(png):
            raise GraphError(f"{picture} is no whole PNG; copy the graph, or explore it, anew")
        if not all(isinstance(p[name], str) for name in ("id", "app", "identity", "title")):
            raise ValueError(f"id, app, identity and title of page {number} must be texts")
        graph.add_page(Page(p["id"], p["app"], p["identity"], p["title"], xml, png, actions))
    for p in stored["pages"]:
        for number, text, target in p["edges"]:
            if min(number, target) < 0 or not isinstance(text, str):  # below 0 counts from the end
                raise ValueError(f"an edge of {p['id']!r} has a number below 0, or a text that is none")
            graph.add_edge(p["id"], with_text(graph.pages[p["id"]].actions[number], text), ids[target])
    check_homes(graph)
    return graph


def read_size(stored: Any) -> tuple[int, int]:
    """Width and height of a graph's screens. Raises ValueError for what cannot be those."""
    if not isinstance(stored, list) or len(stored) != 2 or not all(type(n) is int and n > 0 for n in stored):
        raise ValueError(f"width and height are {stored!r:.60}; they must be whole numbers above 0")
    return stored[0], stored[1]


def is_whole(png: bytes) -> bool:
    """Whether a PNG has its beginning and its end."""
    return png.startswith(PNG_SIGNATURE) and PNG_END in png[-64:]


def with_text(action: PageAction, text: str) -> PageAction:
    """The action of an action space with the text that was typed."""
    return PageAction(action.kind, action.name, action.box, action.direction, text) if text else action


def check_homes(graph: PageGraph) -> None:
    if lost := [f"{app}: {page}" for app, page in graph.homes.items() if page not in graph.pages]:
        raise GraphError(f"a home is not in the graph: {lost[0]}")
