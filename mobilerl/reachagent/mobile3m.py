"""Reads the published page graphs of Mobile3M as one page graph.

Each app has a folder `NAME_graph_NUMBER` with a folder per page (`mobilerl.sft.sources.mobile3m` describes the files).
The page `music0_3_12` was reached from `music0_3` by the action 12. The collector compared each new page with those
before it; a page that resembled one was not explored further and names it as its `unique_name`. Here an action that
led to such a page leads to the page it resembles, which makes the tree of walks a graph. A page that is reached by
scrolling is another state of the same page.

`all_triple.json`, `all_action_id.json` and `data_all2unique.json` list the graph. Where an app comes without them, the
same is read from the pages' own `PAGE.json`, of which `history_actions` ends with the action that led to the page.
Screens stay where they are; the graph names their files.
"""

from __future__ import annotations

import io
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from mobilerl.envs.base import Action
from mobilerl.envs.device import IMAGE_ERRORS
from mobilerl.policy.screen import parse_screen
from mobilerl.reachagent.actions import PageAction, action_space, from_device
from mobilerl.reachagent.graph import GraphError, Page, Seen
from mobilerl.reachagent.graph_files import Edge, GraphWriter
from mobilerl.reachagent.identity import Abstraction, field_hints, shape_of
from mobilerl.sft.sources.mobile3m import Graph, convert_action, read_graph, read_ids
from mobilerl.sft.sources.report import Reject

TRIPLES, UNIQUE = "all_triple.json", "data_all2unique.json"
BROKEN_FILE = "broken.txt"
GIVE = "give an unpacked folder like music_graph_8152, or the folder that holds several"
ALL_TITLES = Abstraction(titles=None)
"""Every page of the data set has its own content, so its title names it."""


class BrokenPage(Exception):
    """A page that cannot be used. The message names its file."""


def import_mobile3m(source: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Writes the graph of an app, or of all apps in `source`, to `folder`. Raises GraphError if no app can be read.

    Pages with a broken file, and pages behind them, are left out and listed in `broken.txt`.
    """
    apps = list(find_apps(source))
    if not apps:
        raise GraphError(f"{source} has no app of Mobile3M: {GIVE}")
    writer, edges, size = GraphWriter(folder), list[Edge](), None
    homes, broken = dict[str, str](), list[str]()
    for app_folder, home in apps:
        if home in homes.values():
            raise GraphError(f"{app_folder} has the same app as another folder of {source}: keep one of them")
        app = AppImport(app_folder, home, size)
        edges += app.read(writer)
        if app.pages:
            size, homes[app.name] = app.size, home
        broken += app.broken
        dropped = "".join(f"; {count} actions dropped: {reason}" for reason, count in app.dropped.most_common())
        say(f"{app.name}: {len(app.pages)} pages, {app.edges} edges, {len(app.broken)} pages broken{dropped}")
    (folder / BROKEN_FILE).write_text("".join(f"{line}\n" for line in broken), encoding="utf-8")
    if size is None:
        raise GraphError(f"no page of {source} can be used: {broken[0]}; unpack its archive again")
    writer.finish(size, homes, ALL_TITLES, edges)
    for line in broken[:3]:
        say(line)
    if broken:
        say(f"{len(broken)} broken pages left out, see {folder / BROKEN_FILE}: unpack their archives again, and repeat")


def find_apps(source: Path) -> Iterator[tuple[Path, str]]:
    """Yields the folder and the home page of each app."""
    if not source.is_dir():
        raise GraphError(f"{source} is no folder: {GIVE}")
    if home := _home_of(source):
        yield source, home
    else:
        yield from ((path, home) for path in sorted(source.iterdir()) if path.is_dir() and (home := _home_of(path)))


def _home_of(folder: Path) -> str:
    """The page without an underscore in its name; "" if the folder is not that of an app."""
    homes = [p.name for p in folder.glob("*0") if "_" not in p.name and (p / f"{p.name}-xml.txt").is_file()]
    if len(homes) > 1:
        raise GraphError(f"{folder} has {len(homes)} home pages ({', '.join(homes)}): keep one app in a folder")
    return "".join(homes)


def graph_of(folder: Path, home: str) -> tuple[Graph, dict[str, str]]:
    """Actions between the pages of an app, and the page that each page resembles. Raises GraphError."""
    try:
        if (folder / TRIPLES).is_file():
            return read_graph(folder), read_ids(folder / UNIQUE) if (folder / UNIQUE).is_file() else {}
        return _graph_of_pages(folder, home)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise GraphError(f"{error}; unpack the app's archive again") from None


def _graph_of_pages(folder: Path, home: str) -> tuple[Graph, dict[str, str]]:
    graph, unique = Graph(folder, home, {}), {}
    for name in sorted(path.name for path in folder.iterdir() if path.name.startswith(f"{home}_")):
        file = folder / name / f"{name}.json"
        try:
            stored: dict[str, Any] = json.loads(file.read_bytes())
            action, unique[name] = str(stored["history_actions"][-1]), str(stored["unique_name"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ValueError(f"{file} cannot be read: {type(error).__name__}: {error}") from None
        graph.edges.setdefault(name.rpartition("_")[0], []).append((action, name))
    return graph, unique


class AppImport:
    """Reads one app, breadth-first from its home, so that what is behind a broken page is never asked for."""

    def __init__(self, folder: Path, home: str, size: tuple[int, int] | None) -> None:
        self.folder, self.home, self.size = folder, home, size
        self.graph, self.unique = graph_of(folder, home)
        self.name = self.graph.app
        self.pages: set[str] = set()
        self.identities = {home: home}
        """Pages that were found, with the page that each is: that of the first way to it, on which scrolling stays."""
        self.edges = 0
        self.broken: list[str] = []
        self.dropped: Counter[str] = Counter()

    def read(self, writer: GraphWriter) -> list[Edge]:
        """Adds the pages to `writer` and returns the edges between them."""
        queue, edges = deque([self.home]), []
        while queue:
            try:
                page, found = self._page(queue[0])
            except BrokenPage as error:
                self.broken.append(str(error))
            else:
                self.pages.add(page.id)
                writer.add(page, self._file(page.id, "xml.txt"), self._file(page.id, "screen.png"))
                edges += found
                for _, action, target in found:
                    if target not in self.identities:
                        self.identities[target] = page.identity if action.kind == "scroll" else target
                        queue.append(target)
            queue.popleft()
        known = [edge for edge in edges if edge[2] in self.pages]
        self.edges = len(known)
        return known

    def _file(self, name: str, ending: str) -> Path:
        return self.folder / name / f"{name}-{ending}"

    def _page(self, name: str) -> tuple[Page, list[Edge]]:
        """A page, with the edges that leave it. Raises BrokenPage."""
        xml_file, png_file = self._file(name, "xml.txt"), self._file(name, "screen.png")
        png = self._screenshot(png_file)
        width, height = self.size or (0, 0)
        try:
            xml = xml_file.read_text(encoding="utf-8-sig").strip()
            title = shape_of(xml).title
        except (OSError, ValueError) as error:
            raise BrokenPage(f"{xml_file}: {error}") from None
        space = action_space(parse_screen(xml, width, height), field_hints(xml, width, height))
        edges: dict[PageAction, Edge] = {}
        for call, target in self.graph.edges.get(name, []):
            try:
                action = _page_action(convert_action(call, xml, width, height), space)
            except Reject as reason:
                self.dropped[str(reason)] += 1
                continue
            edges.setdefault(action, (name, action, self.unique.get(target, target)))
        return Page(name, self.name, self.identities[name], title, Seen(xml, png, space)), list(edges.values())

    def _screenshot(self, file: Path) -> bytes:
        try:
            png = file.read_bytes()
        except OSError as error:
            raise BrokenPage(f"{file}: {error.strerror}") from None
        try:
            with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
                size = image.size
                image.verify()  # its checksums; decoding every page would take most of the time
        except IMAGE_ERRORS:
            raise BrokenPage(f"{file}: it is no complete PNG") from None
        self.size = self.size or size
        if size != self.size:
            raise BrokenPage(f"{file}: it has {size[0]}x{size[1]} pixels, the first page {self.size[0]}x{self.size[1]}")
        return png


def _page_action(commands: list[Action], space: tuple[PageAction, ...]) -> PageAction:
    """The action of a page that device actions mean. Raises Reject if it has none."""
    action = from_device(commands[0], space)
    if action is not None and len(commands) > 1:
        action = from_device(commands[1], space, focused=action.box)
    if action is None:
        raise Reject("its element cannot be acted on")
    return action
