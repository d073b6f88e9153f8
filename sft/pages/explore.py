"""Apps explored into a page graph: breadth first, or by a random walk. Seeded, bounded, and deaf to faults.

Every action is played from a page's stored state, so that what an edge says can be played again. A screen of a page
that is known joins it; but when an action changes a page without leaving it (a text was typed, a product put in the
cart), the changed page is kept as another variant and explored too, because its buttons may now lead elsewhere.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from envs.base import InfraError
from envs.device import Device
from mobilerl.agent.screen import parse_screen
from sft.pages.actions import PageAction, action_space
from sft.pages.choices import worth_trying
from sft.pages.graph import Page, PageGraph
from sft.pages.identity import Abstraction, Shape, field_hints, learn, shape_of
from sft.pages.limits import Fault, Limits, Report
from sft.pages.places import ExploredPage, Places, Sight, new_name
from sft.pages.states import States, play

SYSTEM = frozenset({
    "android", "com.android.systemui", "com.android.permissioncontroller", "com.android.packageinstaller",
    "com.google.android.permissioncontroller", "com.google.android.packageinstaller",
})  # fmt: skip
"""Packages whose windows stand in front of an app and belong to its pages."""
GIVE_UP = 5
"""After so many actions in a row that failed on every try, the device is taken for lost."""


class _LostPage(InfraError):
    """The way to a page leads elsewhere: what is on the device has changed, and the device is well."""


class Explorer:
    """Explores one device. `apps` maps names to packages (of the launcher too, as "Home", when it is explored).

    `settle_s` seconds pass between an action and the look at the screen. When the device is lost, InfraError is raised;
    the graph of what was explored until then is still sound.
    """

    def __init__(
        self, device: Device, states: States, apps: Mapping[str, str], abstraction: Abstraction | None = None,
        limits: Limits | None = None, seed: int = 0, screenshots: bool = True, settle_s: float = 0.0,
    ) -> None:  # fmt: skip
        self._device, self._states, self._apps = device, states, dict(apps)
        self._abstraction, self._limits = abstraction or Abstraction(), limits or Limits()
        self._rng, self._screenshots = random.Random(seed), screenshots
        self.graph = PageGraph(*device.size(), abstraction=self._abstraction)
        self.report = Report()
        self.shapes: set[Shape] = set()
        self._places = Places()
        self._changes: Counter[tuple[str, bool]] = Counter()
        self._abroad: list[tuple[str, PageAction, Sight, bytes]] = []
        self._settle_s, self._failed, self._boot = settle_s, 0, ""
        self._app, self._spent, self._added = "", 0, 0
        self._words: list[str] = []

    # --- strategies ------------------------------------------------------------------------------------------

    def breadth_first(self, app: str) -> None:
        """All actions of a page before those of the next, so that every page is found on a shortest way.

        After a random walk of the same app it fills in what the walk left; ways found by the walk may then be longer.
        """
        queue = deque([self._enter(app)])
        waiting = {queue[0]}
        while queue:
            place = self._places[queue.popleft()]
            for action in self._untried(place):
                if place.lost:
                    self.report.dropped["page not explored to the end: the way to it is lost"] += 1
                    break
                if self._spent >= self._limits.actions:
                    self.report.dropped["page not explored to the end: the limit on actions"] += 1
                    break
                self._try(place, action)
            for target in self.graph.edges[place.page.id].values():
                found = self._places[target]
                if target not in waiting and found.page.app == app and len(found.path) < self._limits.depth:
                    waiting.add(target)
                    queue.append(target)

    def random_walk(self, app: str, steps: int, restart: float = 0.05) -> None:
        """`steps` actions, mostly such as were not tried yet; back to the app's home with a chance of `restart`."""
        home = here = self._enter(app)
        for _ in range(min(steps, self._limits.actions)):
            place = self._places[here]
            actions = [] if place.lost else self._untried(place) or self._candidates(place)
            target = self._try(place, self._rng.choice(actions)) if actions else None
            lost = target is None or len(self._places[target].path) >= self._limits.depth
            here = home if lost or self._rng.random() < restart else target

    def finish(self) -> PageGraph:
        """The graph, with the edges that lead from one explored app to another."""
        for source, action, sight, png in self._abroad:
            target = self._known(sight, png)
            if target is None:
                self.report.dropped["another app's page"] += 1
            else:
                self.graph.add_edge(source, action, target)
        self._abroad = []
        return self.graph

    # --- one action ------------------------------------------------------------------------------------------

    def _enter(self, app: str) -> str:
        """Starts an app and makes its first screen its home. Raises InfraError when that fails on every try."""
        if app not in self._apps:
            raise ValueError(f"no package is known for the app {app!r}")
        self._app, self._spent, self._added, self._words = app, 0, 0, []
        if app in self.graph.homes:
            return self.graph.homes[app]
        for left in reversed(range(self._limits.tries)):
            try:
                self._boot = self._device.boot_id()
                self._states.start(app)
                sight = self._look()
                if self._is_abroad(sight):
                    raise InfraError(f"{app} does not come up: the screen shows {sight.shape.package}")
                home = self._add(f"{app}0", sight, (), changed=False)
                break
            except InfraError:
                if not left:
                    raise
        self.graph.homes[app] = home
        return home

    def _try(self, place: ExploredPage, action: PageAction) -> str | None:
        """Plays an action from a page's state; where it led, None when that is not a page of this app's graph."""
        self._spent += 1
        place.tried.add(action)
        reason = ""
        for _ in range(self._limits.tries):
            self.report.actions += 1
            try:
                self._boot = self._device.boot_id()
                self._load(place)
                self._play(action)
                target = self._arrive(place, action, self._look())
                self._failed, place.lost = 0, False
                return target
            except InfraError as error:
                reason, place.lost = str(error), isinstance(error, _LostPage)
        self.report.faults.append(Fault(place.page.id, action, reason))
        self._failed = 0 if place.lost else self._failed + 1
        if self._failed == GIVE_UP:
            self._failed = 0
            raise InfraError(f"the device failed at {GIVE_UP} actions in a row, the last time with: {reason}")
        return None

    def _play(self, action: PageAction) -> None:
        play(self._device, action)
        time.sleep(self._settle_s)

    def _load(self, place: ExploredPage) -> None:
        """Raises InfraError when the device is not at the page afterwards."""
        self._states.load(place.saved)
        if not self._states.exact and self._look().identity != place.page.identity:
            raise _LostPage(f"the way to the page {place.page.id} does not lead there any more")

    def _is_abroad(self, sight: Sight) -> bool:
        return sight.shape.package not in (self._apps[self._app], *SYSTEM)

    def _check_boot(self) -> None:
        """Looking is tried again after a fault, and a device that rebooted in between shows something else."""
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
        return Sight(xml, shape, self._abstraction.identity(shape), hashlib.sha256(xml.encode()).hexdigest())

    # --- pages -----------------------------------------------------------------------------------------------

    def _arrive(self, place: ExploredPage, action: PageAction, sight: Sight) -> str | None:
        """Adds the edge, and the page when it is new. The graph is changed last: a fault leaves it as it was."""
        if self._is_abroad(sight):
            self._abroad.append((place.page.id, action, sight, self._picture()))
            return None
        target = self._places.exactly(sight)
        if target is None:
            within = sight.identity == place.page.identity
            scrolled = action.kind == "scroll"
            most = self._limits.scrolled if scrolled else self._limits.changes
            if not self._places.variants(sight.identity) or (within and self._changes[sight.identity, scrolled] < most):
                target = self._new(place, action, sight, within)
                self._changes[sight.identity, scrolled] += within and target is not None
        if target is None:
            tie = self._screenshots and len(self._places.variants(sight.identity)) > 1
            target = self._known(sight, self._picture() if tie else b"")
        if target is not None:
            self.graph.add_edge(place.page.id, action, target)
        return target

    def _new(self, place: ExploredPage, action: PageAction, sight: Sight, changed: bool) -> str | None:
        if self._added >= self._limits.pages:
            self.report.dropped["the limit on pages"] += 1
            return None
        return self._add(new_name(self.graph.pages, place.page, action), sight, (*place.path, action), changed)

    def _add(self, name: str, sight: Sight, path: tuple[PageAction, ...], changed: bool) -> str:
        screen = parse_screen(sight.xml, self.graph.width, self.graph.height)
        if screen.error:
            raise InfraError(screen.error)
        png, saved = self._picture(), self._states.save(self._app, path)
        self._check_boot()
        space = action_space(screen, field_hints(sight.xml, *self._device.size()))
        page = Page(name, self._app, sight.identity, sight.shape.title, sight.xml, png, space)
        self._places.add(ExploredPage(page, path, saved, sight.exact, changed))
        self.graph.add_page(page)
        self._added += 1
        self._words += [e.text.split("|")[0] for e in screen.elements if "click" in e.actions and "|" in e.text]
        return name

    def _picture(self) -> bytes:
        png = self._device.screenshot() if self._screenshots else b""
        self._check_boot()
        return png

    def _known(self, sight: Sight, png: bytes) -> str | None:
        """The variant of a page that a screen is; the one that looks most like `png` when none is exactly so."""
        exact = self._places.exactly(sight)
        if exact is not None:
            return exact
        nearest = self._places.nearest(sight, png)
        self.report.merged += nearest is not None
        return nearest

    # --- what to try -----------------------------------------------------------------------------------------

    def _untried(self, place: ExploredPage) -> list[PageAction]:
        return [a for a in self._candidates(place) if a not in place.tried]

    def _candidates(self, place: ExploredPage) -> list[PageAction]:
        most = self._limits.alike_changed if place.changed else self._limits.alike
        return worth_trying(place.page.actions, most, self._words)


def explore(explorer: Explorer, apps: Iterable[str]) -> PageGraph:
    """The graph of several apps, each explored breadth first."""
    for app in apps:
        explorer.breadth_first(app)
    return explorer.finish()


def survey(explorers: Iterable[Explorer], apps: Iterable[str], steps: int) -> Abstraction:
    """Random walks over differently filled phones, the one to explore first, and what they have in common.

    `steps` are played in every app. The explorers' graphs are not meant for use.
    """
    seen = []
    for explorer in explorers:
        for app in apps:
            explorer.random_walk(app, steps)
        seen.append(explorer.shapes)
    return learn(seen)
