"""Explores apps into a page graph, breadth first or by a random walk.

Every action starts from a restored page state, so that each edge can be repeated. A screen with the identity of a known
page joins that page. But when an action changes a page without leaving it (a text was typed, a product put in the
cart), the changed page becomes another variant and is explored too, because its buttons may now lead elsewhere.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envs.base import InfraError
from envs.device import Device
from mobilerl.policy.screen import parse_screen
from mobilerl.reachagent.actions import COMPLETE, PageAction, action_space
from mobilerl.reachagent.device_states import DeviceStates, perform
from mobilerl.reachagent.graph import Page, PageGraph
from mobilerl.reachagent.identity import Abstraction, Shape, difference, field_hints, learn, shape_of

_SYSTEM_APPS = ("permissioncontroller", "packageinstaller")
SYSTEM = frozenset(
    {"android", "com.android.systemui"}
    | {f"{vendor}.{app}" for vendor in ("com.android", "com.google.android") for app in _SYSTEM_APPS}
)
"""Packages whose windows appear in front of an app and count as its pages."""
MAX_FAILURES = 5
"""Consecutive actions that fail on every try before the device is given up."""
RESTART = 0.05
"""Probability with which a random walk returns to the app's home after an action."""
PROBE = "a"
"""A query that matches something in most search fields."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of an exploration: `pages` and `actions` per app, `depth` in actions from the app's home.

    `changes` and `scrolled`: variants of one page. `alike`: elements of one kind and size tried on a page (rows of a
    list, keys), `alike_changed` on its variants. `tries`: attempts at an action when the device fails.
    """

    pages: int = 300
    actions: int = 10_000
    depth: int = 12
    changes: int = 3
    scrolled: int = 1
    alike: int = 12
    alike_changed: int = 4
    tries: int = 3


@dataclass
class Report:
    """Statistics of an exploration."""

    faults: list[str] = field(default_factory=list)
    """Actions that failed on every try and have no edge, with the reason."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Reason why screens are missing from the graph -> count."""


@dataclass(frozen=True, slots=True)
class Sight:
    """A screen as it was seen."""

    xml: str
    shape: Shape
    identity: str


@dataclass(slots=True)
class ExploredPage:
    """What the explorer knows about a page of its graph."""

    page: Page
    path: tuple[PageAction, ...]
    """From the app's home."""
    saved: object
    """The device state, as `DeviceStates.save` returned it."""
    changed: bool
    """Whether it is a variant, made by an action that did not leave its page."""
    tried: set[PageAction] = field(default_factory=set)
    lost: bool = False
    """The device cannot be brought back to it."""


class _LostPage(InfraError):
    """The path to a page leads elsewhere although the device works: its contents have changed."""


class Explorer:
    """Explores one device. `apps` maps names to packages (including the launcher's, as "Home", if it is explored).

    `settle_s` seconds pass between an action and reading the screen. InfraError means that the device was lost; the
    graph explored until then is still valid.
    """

    def __init__(
        self,
        device: Device,
        states: DeviceStates,
        apps: Mapping[str, str],
        abstraction: Abstraction | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        screenshots: bool = True,
        settle_s: float = 0.0,
    ) -> None:
        self._device, self._states, self._apps = device, states, dict(apps)
        self._abstraction, self._limits = abstraction or Abstraction(), limits or Limits()
        self._rng, self._screenshots = random.Random(seed), screenshots
        self.graph = PageGraph(*device.size(), abstraction=self._abstraction)
        self.report = Report()
        self.shapes: set[Shape] = set()
        self._explored: dict[str, ExploredPage] = {}
        self._changes: Counter[tuple[str, bool]] = Counter()
        self._to_other_apps: list[tuple[str, PageAction, Sight, bytes]] = []
        self._settle_s, self._failures, self._boot = settle_s, 0, ""
        self._app, self._actions, self._added = "", 0, 0
        self._words: list[str] = []

    # --- strategies ------------------------------------------------------------------------------------------

    def breadth_first(self, app: str) -> None:
        """Tries all actions of a page before those of the next, so that paths to new pages are shortest.

        After a random walk of the same app it completes the graph; paths found by the walk may then be longer.
        """
        queue = deque([self._enter(app)])
        queued = {queue[0]}
        while queue:
            explored = self._explored[queue.popleft()]
            for action in self._untried(explored):
                if explored.lost:
                    self.report.dropped["page not fully explored: the way to it is lost"] += 1
                    break
                if self._actions >= self._limits.actions:
                    self.report.dropped["page not fully explored: the limit on actions"] += 1
                    break
                self._try(explored, action)
            for target in self.graph.edges[explored.page.id].values():
                found = self._explored[target]
                if target not in queued and found.page.app == app and len(found.path) < self._limits.depth:
                    queued.add(target)
                    queue.append(target)

    def random_walk(self, app: str, steps: int) -> None:
        """`steps` actions, untried ones first; returns to the app's home now and then."""
        home = here = self._enter(app)
        for _ in range(min(steps, self._limits.actions)):
            explored = self._explored[here]
            actions = [] if explored.lost else self._untried(explored) or self._candidates(explored)
            target = self._try(explored, self._rng.choice(actions)) if actions else None
            lost = target is None or len(self._explored[target].path) >= self._limits.depth
            here = home if lost or self._rng.random() < RESTART else target

    def finish(self) -> PageGraph:
        """The graph, including the edges between explored apps."""
        for source, action, sight, png in self._to_other_apps:
            target = self._known(sight, png)
            if target is None:
                self.report.dropped["another app's page"] += 1
            else:
                self.graph.add_edge(source, action, target)
        self._to_other_apps = []
        return self.graph

    # --- one action ------------------------------------------------------------------------------------------

    def _enter(self, app: str) -> str:
        """Starts an app and makes its first screen its home. Raises InfraError when that fails on every try."""
        if app not in self._apps:
            raise ValueError(f"no package is known for the app {app!r}")
        self._app, self._actions, self._added, self._words = app, 0, 0, []
        if app in self.graph.homes:
            return self.graph.homes[app]
        for tries_left in reversed(range(self._limits.tries)):
            try:
                self._boot = self._device.boot_id()
                self._states.start(app)
                sight = self._look()
                if self._in_other_app(sight):
                    raise InfraError(f"{app} does not start: the screen shows {sight.shape.package}")
                home = self._add(f"{app}0", sight, (), changed=False)
                break
            except InfraError:
                if not tries_left:
                    raise
        self.graph.homes[app] = home
        return home

    def _try(self, explored: ExploredPage, action: PageAction) -> str | None:
        """Performs an action from a page's state; returns where it led, None if not to a page of this app."""
        self._actions += 1
        explored.tried.add(action)
        reason = ""
        for _ in range(self._limits.tries):
            try:
                self._boot = self._device.boot_id()
                self._restore(explored)
                perform(self._device, action)
                time.sleep(self._settle_s)
                target = self._arrive(explored, action, self._look())
                self._failures, explored.lost = 0, False
                return target
            except InfraError as error:
                reason, explored.lost = str(error), isinstance(error, _LostPage)
        self.report.faults.append(f"{explored.page.id}, {action.kind} {action.name}: {reason}")
        self._failures = 0 if explored.lost else self._failures + 1
        if self._failures == MAX_FAILURES:
            self._failures = 0
            raise InfraError(f"the device failed at {MAX_FAILURES} actions in a row, most recently with: {reason}")
        return None

    def _restore(self, explored: ExploredPage) -> None:
        """Raises InfraError when the device is not at the page afterwards."""
        self._states.load(explored.saved)
        if not self._states.exact and self._look().identity != explored.page.identity:
            raise _LostPage(f"the path to the page {explored.page.id} no longer leads there")

    def _in_other_app(self, sight: Sight) -> bool:
        return sight.shape.package not in (self._apps[self._app], *SYSTEM)

    def _check_boot(self) -> None:
        """A dump or a screenshot is retried after a fault, and a device that rebooted since shows something else."""
        if self._device.boot_id() != self._boot:
            raise InfraError("the device rebooted")

    def _look(self) -> Sight:
        xml = self._device.dump_xml()
        self._check_boot()
        try:
            shape = shape_of(xml)
        except ValueError as error:
            raise InfraError(str(error)) from None
        self.shapes.add(shape)
        return Sight(xml, shape, self._abstraction.identity(shape))

    def _screenshot(self) -> bytes:
        png = self._device.screenshot() if self._screenshots else b""
        self._check_boot()
        return png

    # --- pages -----------------------------------------------------------------------------------------------

    def _arrive(self, source: ExploredPage, action: PageAction, sight: Sight) -> str | None:
        """Adds the edge, and the page if it is new. The graph changes last: a fault leaves it as it was."""
        if self._in_other_app(sight):
            self._to_other_apps.append((source.page.id, action, sight, self._screenshot()))
            return None
        target = self._exactly(sight)
        if target is None:
            changed, scrolled = sight.identity == source.page.identity, action.kind == "scroll"
            limit = self._limits.scrolled if scrolled else self._limits.changes
            variants = self._variants(sight.identity)
            if not variants or (changed and self._changes[sight.identity, scrolled] < limit):
                target = self._new(source, action, sight, changed)
                self._changes[sight.identity, scrolled] += changed and target is not None
        if target is None:
            ambiguous = self._screenshots and len(self._variants(sight.identity)) > 1
            target = self._known(sight, self._screenshot() if ambiguous else b"")
        if target is not None:
            self.graph.add_edge(source.page.id, action, target)
        return target

    def _new(self, source: ExploredPage, action: PageAction, sight: Sight, changed: bool) -> str | None:
        if self._added >= self._limits.pages:
            self.report.dropped["the limit on pages"] += 1
            return None
        name = first = f"{source.page.id}_{source.page.actions.index(action.slot)}"
        number = 1
        while name in self.graph.pages:  # the same field with another text
            number += 1
            name = f"{first}t{number}"
        return self._add(name, sight, (*source.path, action), changed)

    def _add(self, name: str, sight: Sight, path: tuple[PageAction, ...], changed: bool) -> str:
        screen = parse_screen(sight.xml, self.graph.width, self.graph.height)
        if screen.error:
            raise InfraError(screen.error)
        png, saved = self._screenshot(), self._states.save(self._app, path)
        self._check_boot()
        space = action_space(screen, field_hints(sight.xml, *self._device.size()))
        page = Page(name, self._app, sight.identity, sight.shape.title, sight.xml, png, space)
        self._explored[name] = ExploredPage(page, path, saved, changed)
        self.graph.add_page(page)
        self._added += 1
        self._words += [e.text.split("|")[0] for e in screen.elements if "click" in e.actions and "|" in e.text]
        return name

    def _variants(self, identity: str) -> list[Page]:
        return [explored.page for explored in self._explored.values() if explored.page.identity == identity]

    def _exactly(self, sight: Sight) -> str | None:
        """The page whose dump is equal to the last character."""
        return next((page.id for page in self._variants(sight.identity) if page.xml == sight.xml), None)

    def _known(self, sight: Sight, png: bytes) -> str | None:
        """The variant equal to a screen, else the one most similar to `png` (b"": the first); None if there is none."""
        exact, variants = self._exactly(sight), self._variants(sight.identity)
        if exact is not None or not variants:
            return exact
        if len(variants) > 1 and png:
            return min(variants, key=lambda page: difference(png, page.screenshot)).id
        return variants[0].id

    # --- what to try -----------------------------------------------------------------------------------------

    def _untried(self, explored: ExploredPage) -> list[PageAction]:
        return [a for a in self._candidates(explored) if a not in explored.tried]

    def _candidates(self, explored: ExploredPage) -> list[PageAction]:
        most = self._limits.alike_changed if explored.changed else self._limits.alike
        return worth_trying(explored.page.actions, most, self._words)


def worth_trying(space: Sequence[PageAction], most: int, words: Iterable[str]) -> list[PageAction]:
    """Inputs first, scrolls last, `complete` never; `most` elements of one kind and size; two texts for each input.

    The texts are one of `words`, which the app shows and a search may find, and `PROBE`.
    """
    alike: dict[tuple[object, ...], list[PageAction]] = {}
    for action in space:
        if action != COMPLETE:
            x1, y1, x2, y2 = action.box or (0, 0, 0, 0)
            alike.setdefault((action.kind, action.direction, x2 - x1, y2 - y1), []).append(action)
    chosen = {action for group in alike.values() for action in spread(group, most)}
    actions = [a for a in space if a in chosen]
    inputs = [replace(a, text=text) for a in actions if a.kind == "input" for text in _texts(a, words)]
    others = [a for a in actions if a.kind not in ("input", "scroll")]
    return inputs + others + [a for a in actions if a.kind == "scroll"]


def _texts(action: PageAction, words: Iterable[str]) -> tuple[str, ...]:
    """The field determines the word, so that it is always the same."""
    known = sorted({w for w in words if w and w != action.name})
    digest = hashlib.sha256(f"{action.name}/{action.box}".encode()).digest()
    return (known[digest[0] % len(known)], PROBE) if known else (PROBE,)


def spread(actions: list[PageAction], most: int) -> list[PageAction]:
    """At most `most` (> 1) of them at even distances, including the first and the last."""
    if len(actions) <= most:
        return actions
    return [actions[i * (len(actions) - 1) // (most - 1)] for i in range(most)]


def explore(explorer: Explorer, apps: Iterable[str]) -> PageGraph:
    """The graph of several apps, each explored breadth first."""
    for app in apps:
        explorer.breadth_first(app)
    return explorer.finish()


def survey(explorers: Iterable[Explorer], apps: Iterable[str], steps: int) -> Abstraction:
    """What the screens of random walks over differently filled phones have in common; the one to explore comes first.

    Each walk takes `steps` actions in every app. Discard the explorers' graphs.
    """
    seen = []
    for explorer in explorers:
        for app in apps:
            explorer.random_walk(app, steps)
        seen.append(explorer.shapes)
    return learn(seen)
