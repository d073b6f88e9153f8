"""Explores apps of an embedded phone into a page graph, breadth-first or by random walks.

Every action starts from a snapshot of its page, so that each edge can be repeated. A screen with the identity of a
known page is that page. But if an action changes a page without leaving it (a text was typed, a product put in the
cart), the changed page becomes another variant and is explored too, because its buttons may now lead elsewhere.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from mobilerl.envs.base import Home, InfraError, Launch
from mobilerl.envs.device import Device
from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.envs.phone.console import State, restore_snapshot, take_snapshot
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.transport import InProcessTransport
from mobilerl.policy.screen import parse_screen
from mobilerl.reachagent.actions import COMPLETE, PageAction, action_space, device_actions
from mobilerl.reachagent.graph import Page, PageGraph, Seen
from mobilerl.reachagent.identity import Abstraction, Shape, difference, field_hints, learn, shape_of

HOME_APP = "Home"
"""Name of the launcher among the apps."""
SYSTEM = frozenset({"android", "com.android.systemui", "com.android.permissioncontroller"})
"""Packages whose windows appear in front of an app and count as its pages."""
RESTART = 0.05
"""Probability with which a random walk returns to the app's home after an action."""
PROBE = "a"
"""Text to type that matches something in most search fields."""
SCROLLED = 1
"""Maximum number of variants of a page due to scrolling."""
ALIKE, ALIKE_CHANGED = 12, 4
"""Maximum number of elements of one kind and size (list rows, keys) that are tried on a page and on its variants."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an exploration: `pages` and `actions` per app, `depth` in actions from the app's home.

    `changes` is the maximum number of variants of a page due to changes.
    """

    pages: int = 300
    actions: int = 10_000
    depth: int = 12
    changes: int = 3


@dataclass(frozen=True, slots=True)
class Sight:
    """An observed screen."""

    xml: str
    shape: Shape
    identity: str


@dataclass(slots=True)
class ExploredPage:
    """The explorer's data on a page of its graph."""

    page: Page
    depth: int
    """Number of actions from the app's home."""
    saved: State
    changed: bool
    """Whether the page is a variant made by an action that did not leave its page."""
    tried: set[PageAction] = field(default_factory=set)


class Explorer:
    """Explores one phone with contents determined by `seed`; `fill` changes them after every reset."""

    def __init__(
        self,
        phone: Phone,
        seed: int = 0,
        abstraction: Abstraction | None = None,
        limits: Limits | None = None,
        screenshots: bool = True,
        fill: Callable[[Device], None] | None = None,
    ) -> None:
        self._phone, self._device = phone, Device(InProcessTransport(phone), APP_NAMES)
        self._seed, self._fill, self._rng, self._screenshots = seed, fill, random.Random(seed), screenshots
        self._abstraction, self._limits = abstraction or Abstraction(), limits or Limits()
        self.graph = PageGraph(*self._device.size(), abstraction=self._abstraction)
        self.dropped: Counter[str] = Counter()
        """Number of screens missing from the graph, by reason."""
        self.shapes: set[Shape] = set()
        self._explored: dict[str, ExploredPage] = {}
        self._changes: Counter[tuple[str, bool]] = Counter()
        self._to_other_apps: list[tuple[str, PageAction, Sight, bytes]] = []
        self._app, self._actions, self._added = "", 0, 0
        self._words: list[str] = []

    # --- strategies ------------------------------------------------------------------------------------------

    def breadth_first(self, app: str) -> None:
        """Explores an app breadth-first, so that paths to new pages are shortest."""
        queue = deque([self._enter(app)])
        queued = {queue[0]}
        while queue:
            explored = self._explored[queue.popleft()]
            for action in self._list_untried(explored):
                if self._actions >= self._limits.actions:
                    self.dropped["page not fully explored: the limit on actions"] += 1
                    break
                self._try(explored, action)
            for target in self.graph.edges[explored.page.id].values():
                found = self._explored[target]
                if target not in queued and found.page.app == app and found.depth < self._limits.depth:
                    queued.add(target)
                    queue.append(target)

    def random_walk(self, app: str, steps: int) -> None:
        """Takes `steps` random actions, untried ones first, returning to the app's home now and then."""
        home = here = self._enter(app)
        for _ in range(min(steps, self._limits.actions)):
            explored = self._explored[here]
            actions = self._list_untried(explored) or self._candidates(explored)
            target = self._try(explored, self._rng.choice(actions)) if actions else None
            if target is None or self._explored[target].depth >= self._limits.depth or self._rng.random() < RESTART:
                here = home
            else:
                here = target

    def finish(self) -> PageGraph:
        """Returns the graph, including edges between explored apps."""
        for source, action, sight, png in self._to_other_apps:
            target = self._find_variant(sight, png)
            if target is None:
                self.dropped["another app's page"] += 1
            else:
                self.graph.add_edge(source, action, target)
        self._to_other_apps = []
        return self.graph

    # --- one action ------------------------------------------------------------------------------------------

    def _enter(self, app: str) -> str:
        """Starts an app on a reset phone and makes its first screen its home. Raises InfraError for an unknown app."""
        self._app, self._actions, self._added, self._words = app, 0, 0, []
        self._phone.reset(self._seed)
        if self._fill is not None:
            self._fill(self._device)
        if reason := self._device.act(Home() if app == HOME_APP else Launch(app)):
            raise InfraError(reason)
        self.graph.homes[app] = self._add(f"{app}0", self._look(), 0, changed=False)
        return self.graph.homes[app]

    def _try(self, explored: ExploredPage, action: PageAction) -> str | None:
        """Performs an action from a page's state; returns the page that it led to, None if not of this app."""
        self._actions += 1
        explored.tried.add(action)
        restore_snapshot(self._phone, explored.saved)
        for command in device_actions(action):
            self._device.act(command)
        return self._arrive(explored, action, self._look())

    def _look(self) -> Sight:
        xml = self._device.dump_xml()
        shape = shape_of(xml)
        self.shapes.add(shape)
        return Sight(xml, shape, self._abstraction.identity(shape))

    def _screenshot(self) -> bytes:
        return self._device.screenshot() if self._screenshots else b""

    # --- pages -----------------------------------------------------------------------------------------------

    def _arrive(self, source: ExploredPage, action: PageAction, sight: Sight) -> str | None:
        """Adds the edge to an observed screen, and its page if that is new."""
        if sight.shape.package not in (APP_NAMES[self._app], *SYSTEM):
            self._to_other_apps.append((source.page.id, action, sight, self._screenshot()))
            return None
        target = self._exactly(sight)
        if target is None:
            changed, scrolled = sight.identity == source.page.identity, action.kind == "scroll"
            limit = SCROLLED if scrolled else self._limits.changes
            variants = self._variants(sight.identity)
            if not variants or (changed and self._changes[sight.identity, scrolled] < limit):
                target = self._new(source, action, sight, changed)
                self._changes[sight.identity, scrolled] += changed and target is not None
        if target is None:
            ambiguous = self._screenshots and len(self._variants(sight.identity)) > 1
            target = self._find_variant(sight, self._screenshot() if ambiguous else b"")
        if target is not None:
            self.graph.add_edge(source.page.id, action, target)
        return target

    def _new(self, source: ExploredPage, action: PageAction, sight: Sight, changed: bool) -> str | None:
        if self._added >= self._limits.pages:
            self.dropped["the limit on pages"] += 1
            return None
        name = first = f"{source.page.id}_{source.page.actions.index(action.slot)}"
        number = 1
        while name in self.graph.pages:  # the same field with another text
            number += 1
            name = f"{first}t{number}"
        return self._add(name, sight, source.depth + 1, changed)

    def _add(self, name: str, sight: Sight, depth: int, changed: bool) -> str:
        screen = parse_screen(sight.xml, self.graph.width, self.graph.height)
        space = action_space(screen, field_hints(sight.xml, self.graph.width, self.graph.height))
        seen = Seen(sight.xml, self._screenshot(), space)
        page = Page(name, self._app, sight.identity, sight.shape.title, seen)
        self._explored[name] = ExploredPage(page, depth, take_snapshot(self._phone), changed)
        self.graph.add_page(page)
        self._added += 1
        self._words += [e.text.split("|")[0] for e in screen.elements if "click" in e.actions and "|" in e.text]
        return name

    def _variants(self, identity: str) -> list[Page]:
        return [explored.page for explored in self._explored.values() if explored.page.identity == identity]

    def _exactly(self, sight: Sight) -> str | None:
        """Page with exactly the same dump; None without one."""
        return next((page.id for page in self._variants(sight.identity) if page.xml == sight.xml), None)

    def _find_variant(self, sight: Sight, png: bytes) -> str | None:
        """Variant equal to a screen, else the one most similar to `png` (b"": the first); None if there is none."""
        exact, variants = self._exactly(sight), self._variants(sight.identity)
        if exact is not None or not variants:
            return exact
        if len(variants) > 1 and png:
            return min(variants, key=lambda page: difference(png, page.screenshot)).id
        return variants[0].id

    # --- what to try -----------------------------------------------------------------------------------------

    def _list_untried(self, explored: ExploredPage) -> list[PageAction]:
        return [a for a in self._candidates(explored) if a not in explored.tried]

    def _candidates(self, explored: ExploredPage) -> list[PageAction]:
        return worth_trying(explored.page.actions, ALIKE_CHANGED if explored.changed else ALIKE, self._words)


def worth_trying(space: Sequence[PageAction], most: int, words: Iterable[str]) -> list[PageAction]:
    """Actions to try: inputs first, scrolls last, never `complete`, for at most `most` elements of one kind and size.

    Each input is tried with two texts: one of `words`, which the app shows and a search may find, and `PROBE`.
    """
    alike: dict[tuple[object, ...], list[PageAction]] = {}
    for action in space:
        if action != COMPLETE:
            x1, y1, x2, y2 = action.box or (0, 0, 0, 0)
            alike.setdefault((action.kind, action.direction, x2 - x1, y2 - y1), []).append(action)
    chosen = {action for group in alike.values() for action in select_spread(group, most)}
    actions = [a for a in space if a in chosen]
    inputs = [replace(a, text=text) for a in actions if a.kind == "input" for text in _texts(a, words)]
    others = [a for a in actions if a.kind not in ("input", "scroll")]
    return inputs + others + [a for a in actions if a.kind == "scroll"]


def _texts(action: PageAction, words: Iterable[str]) -> tuple[str, ...]:
    """Texts to try in a field; the word is determined by the field, so that it is always the same."""
    known = sorted({w for w in words if w and w != action.name})
    digest = hashlib.sha256(f"{action.name}/{action.box}".encode()).digest()
    return (known[digest[0] % len(known)], PROBE) if known else (PROBE,)


def select_spread(actions: list[PageAction], most: int) -> list[PageAction]:
    """Selects at most `most` (> 1) actions at even distances, including the first and the last."""
    if len(actions) <= most:
        return actions
    return [actions[i * (len(actions) - 1) // (most - 1)] for i in range(most)]


def explore(explorer: Explorer, apps: Iterable[str]) -> PageGraph:
    """Explores several apps breadth-first into one graph."""
    for app in apps:
        explorer.breadth_first(app)
    return explorer.finish()


def survey(explorers: Iterable[Explorer], apps: Iterable[str], steps: int) -> Abstraction:
    """Learns from random walks what screens of phones with different contents have in common.

    The phone to explore comes first. Each walk takes `steps` actions in every app. Discard the explorers' graphs.
    """
    seen = []
    for explorer in explorers:
        for app in apps:
            explorer.random_walk(app, steps)
        seen.append(explorer.shapes)
    return learn(seen)
