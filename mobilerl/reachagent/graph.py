"""The page graph: pages, edges labeled with actions, and shortest paths from the apps' homes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from mobilerl.reachagent.actions import PageAction, same_action
from mobilerl.reachagent.identity import Abstraction


class GraphError(ValueError):
    """Error of a graph that cannot be used. The message names the file or the page."""


class Content(Protocol):
    """What a page shows: in memory, or read from files when it is asked for."""

    @property
    def xml(self) -> str: ...
    @property
    def screenshot(self) -> bytes:
        """PNG; b"" if the explorer took none."""

    @property
    def actions(self) -> tuple[PageAction, ...]:
        """The action space A(P)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Content in memory."""

    xml: str
    screenshot: bytes
    actions: tuple[PageAction, ...]


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
    content: Content

    @property
    def xml(self) -> str:
        return self.content.xml

    @property
    def screenshot(self) -> bytes:
        return self.content.screenshot

    @property
    def actions(self) -> tuple[PageAction, ...]:
        return self.content.actions


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
    _flows: dict[str, dict[str, tuple[PageAction, ...]]] = field(default_factory=dict, compare=False, repr=False)
    _into: dict[str, list[tuple[str, PageAction]]] = field(default_factory=dict, compare=False, repr=False)
    _variants: dict[str, list[str]] = field(default_factory=dict, compare=False, repr=False)

    def add_page(self, page: Page) -> None:
        if page.id in self.pages:
            raise GraphError(f"there are two pages with the id {page.id}")
        self.pages[page.id] = page
        self.edges[page.id] = {}
        self._variants.setdefault(page.identity, []).append(page.id)

    def add_edge(self, source: str, action: PageAction, target: str) -> None:
        """Adds an edge. Raises GraphError for an unknown page or an action that the page does not offer."""
        for page in (source, target):
            if page not in self.pages:
                raise GraphError(f"an edge names the page {page!r}, which is not in the graph")
        if action.slot not in self.pages[source].actions:
            raise GraphError(f"the page {source} does not offer {action.to_json()}")
        self.edges[source][action] = target
        self._flows.clear()
        self._into.clear()

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

    def flows(self, app: str) -> dict[str, tuple[PageAction, ...]]:
        """Shortest action sequences from an app's home to all reachable identities, by identity."""
        if app not in self._flows:
            self._flows[app] = {}
            for page, flow in self.paths(app).items():
                self._flows[app].setdefault(self.pages[page].identity, flow)
        return self._flows[app]

    def into(self) -> dict[str, list[tuple[str, PageAction]]]:
        """Pages and their actions that lead to each page."""
        if not self._into:
            for source, action, target in self.triples():
                self._into.setdefault(target, []).append((source, action))
        return self._into

    def variants(self, identity: str) -> list[str]:
        return self._variants.get(identity, [])

    def unreachable(self) -> tuple[str, ...]:
        """Pages that cannot be reached from any app's home."""
        reached = {page for app in self.homes for page in self.paths(app)}
        return tuple(page for page in self.pages if page not in reached)

    def triples(self) -> list[tuple[str, PageAction, str]]:
        return [(source, a, target) for source, known in self.edges.items() for a, target in known.items()]
