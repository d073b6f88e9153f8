"""Mobile3M: page graphs of apps from random walks.

An app's folder holds `all_triple.json` ({"data": [[page, action id, page]]}), `all_action_id.json` (a JSON text inside
a JSON string: {action: id}) and a folder per page with `PAGE-screen.png`, `PAGE-xml.txt` and `PAGE.json`. Pages are
named after the actions that first led to them (`music0_3_12`); the page without an underscore is the app's home.

The data set has no tasks. A demonstration is a shortest path from home to a leaf of the tree of shortest paths; its
instruction describes the path step by step. Paths with the same first page after home are in the same split.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mobilerl.envs.base import Action, Finish, LongPress, Swipe, Tap, Type
from mobilerl.policy.actions import describe
from mobilerl.policy.screen import parse_screen
from mobilerl.sft.sources.convert import Wanted, attempt, checked_png, relative, size_of
from mobilerl.sft.sources.report import Counts, Reject
from mobilerl.sft.sources.schema import Demonstration, RecordedStep, recorded_task

NAME = "mobile3m"
_CALL = re.compile(r"\s*(click|press|scroll|swipe|input)\((.*)\)\s*", re.DOTALL)
_ELEMENT = re.compile(r"<[^<>]*>[^<>]*</[^<>]*>")
_BOUNDS = re.compile(r"\[(\d{1,6}),(\d{1,6})\]\[(\d{1,6}),(\d{1,6})\]")
_ATTRIBUTES = {"id": "resource-id", "class": "class", "description": "content-desc"}
"""HTML attributes in actions -> XML attributes of the page."""


@dataclass(frozen=True, slots=True)
class Graph:
    folder: Path
    home: str
    edges: dict[str, list[tuple[str, str]]]
    """Pairs of action and target page for each page, in the order of the file."""

    @property
    def app(self) -> str:
        return self.home.removesuffix("0")


def files(path: Path) -> list[Path]:
    found = sorted(p.parent for p in path.rglob("all_triple.json"))
    if not found:
        raise ValueError(f"{NAME}: no all_triple.json in or below {path}; give the folder of an app or of all apps")
    return found


def read(file: Path, wanted: Wanted, counts: Counts) -> Iterator[Demonstration]:
    try:
        graph = read_graph(file)
    except ValueError as fault:
        counts.faults.append(str(fault))
        return
    paths = shortest_paths(graph)
    inner = {page for path in paths.values() for page in path[:-1]}
    for page in sorted(paths.keys() - inner - {graph.home}):
        if wanted(f"{graph.app}/{paths[page][1]}"):
            demo = attempt(counts, demonstration, graph, paths[page])
            if demo is not None:
                yield demo
    pages = {page for start, ends in graph.edges.items() for page in (start, *(end for _, end in ends))}
    if unreachable := len(pages - paths.keys()):
        counts.rejected_episodes["page cannot be reached from the app's home"] += unreachable


def read_graph(folder: Path) -> Graph:
    """Raises ValueError that names a missing or malformed file."""
    triples = _json(folder / "all_triple.json")
    listed = triples.get("data") if isinstance(triples, dict) else None
    if not isinstance(listed, list) or not all(isinstance(t, list) and len(t) == 3 for t in listed):
        raise ValueError(f"{NAME}: {folder / 'all_triple.json'} must hold {{'data': [[page, action, page], ...]}}")
    actions = {str(number): action for action, number in read_ids(folder / "all_action_id.json").items()}
    names: dict[str, str] = {}
    if any(isinstance(page, int) for start, _, end in listed for page in (start, end)):
        names = {str(number): page for page, number in read_ids(folder / "all_page_id.json").items()}
    edges: dict[str, list[tuple[str, str]]] = {}
    for start, number, end in listed:
        start, end = (names.get(str(page), str(page)) for page in (start, end))
        edges.setdefault(start, []).append((actions.get(str(number), ""), end))
    homes = sorted({page for page in edges if "_" not in page})
    if len(homes) != 1:
        raise ValueError(f"{NAME}: {folder} must have one home page (a name without _) with actions, not {len(homes)}")
    return Graph(folder, homes[0], edges)


def shortest_paths(graph: Graph) -> dict[str, list[str]]:
    """Pages of a shortest path from home to each reachable page. Ties go to the edge listed first."""
    paths, waiting = {graph.home: [graph.home]}, deque([graph.home])
    while waiting:
        page = waiting.popleft()
        for _, end in graph.edges.get(page, []):
            if end not in paths:
                paths[end] = [*paths[page], end]
                waiting.append(end)
    return paths


def demonstration(graph: Graph, path: list[str]) -> Demonstration:
    """The episode along a path. Raises Reject if any step is unusable, since the instruction describes all of them."""
    steps: list[RecordedStep] = []
    instructions: list[str] = []
    for start, end in zip(path, path[1:], strict=False):
        page = _page(graph, start)
        call = next(action for action, target in graph.edges[start] if target == end)
        for action in convert_action(call, page.xml, page.width, page.height):
            screen = parse_screen(page.xml, page.width, page.height)
            if isinstance(action, Tap | LongPress) and screen.at(action.x, action.y) is None:
                raise Reject("action on an element that is not on its page")
            words = describe(action, screen)
            steps.append(replace(page, action=action, instruction=words))
            instructions.append(words)
    last = _page(graph, path[-1])
    steps.append(last)
    goal = f"In {graph.app}: {', then '.join(instructions)}."
    return Demonstration(recorded_task(NAME, path[-1], goal, len(steps), graph.app), tuple(steps))


def _page(graph: Graph, name: str) -> RecordedStep:
    """A page as a step in which the agent finishes."""
    if not re.fullmatch(r"[\w-]+", name):  # used as a path
        raise Reject("page with an impossible name")
    folder = graph.folder / name
    try:
        png = (folder / f"{name}-screen.png").read_bytes()
        xml = (folder / f"{name}-xml.txt").read_text(encoding="utf-8-sig").strip()
    except FileNotFoundError:
        raise Reject("page without a screenshot or without XML") from None
    except (OSError, ValueError):
        raise Reject("page whose screenshot or XML cannot be read") from None
    width, height = size_of(png)
    if parse_screen(xml, width, height).error:
        raise Reject("page whose screenshot or XML cannot be read")
    return RecordedStep(checked_png(png, width, height), width, height, Finish(), xml, True, graph.app)


def convert_action(call: str, xml: str, width: int, height: int) -> list[Action]:
    """Converts an action on the page with this XML. Raises Reject.

    `click(ELEMENT)` and `press(ELEMENT)` touch the center of the first matching node (ReachAgent 4.2).
    `input(ELEMENT, 'text')` is a tap, which focuses the field, and a text. `scroll` has the end points of the finger's
    path in px.
    """
    match = _CALL.fullmatch(call)
    if match is None:
        raise Reject("unknown action" if call else "action id that is not in all_action_id.json")
    name, inside = match.groups()
    if name in ("scroll", "swipe"):
        numbers = [int(n) for n in re.findall(r"-?\d{1,6}", inside)]
        if len(numbers) != 4:
            raise Reject("scroll without two points")
        x, y, x2, y2 = (relative(n, width if i % 2 == 0 else height) for i, n in enumerate(numbers))
        return [Swipe(x, y, x2, y2)]
    element = _ELEMENT.search(inside)
    if element is None:
        raise Reject("action without an element")
    x, y = _centre(element.group(), xml)
    x, y = relative(x, width), relative(y, height)
    if name == "press":
        return [LongPress(x, y)]
    if name == "click":
        return [Tap(x, y)]
    text = inside[element.end() :].lstrip(", ").strip().strip("'\"")
    if not text:
        raise Reject("input without a text")
    return [Tap(x, y), Type(text)]


def _centre(element: str, xml: str) -> tuple[int, int]:
    """Center (px, floored) of the first node in the XML with the attributes and the text of an HTML element."""
    criteria = {
        _ATTRIBUTES[name]: value.strip()
        for name, value in re.findall(r'([\w-]+)\s*=\s*"([^"]*)"', element)
        if name in _ATTRIBUTES and value.strip()
    }
    if (inner := re.search(r">([^<>]*)<", element)) and (text := inner[1].strip()):
        criteria["text"] = text
    for node in ET.fromstring(xml).iter():
        if criteria and all((node.get(name) or "").strip() == value for name, value in criteria.items()):
            if bounds := _BOUNDS.fullmatch(node.get("bounds", "")):
                x1, y1, x2, y2 = map(int, bounds.groups())
                return (x1 + x2) // 2, (y1 + y2) // 2
    raise Reject("action on an element that is not on its page")


def _json(path: Path) -> Any:
    """Content of a file, which may be JSON inside a JSON string as in the published files."""
    try:
        found = json.loads(path.read_bytes())
        return json.loads(found) if isinstance(found, str) else found
    except (OSError, ValueError, RecursionError) as fault:
        raise ValueError(f"{NAME}: {path} cannot be read: {fault}") from None


def read_ids(path: Path) -> dict[str, Any]:
    """Reads a file of ids."""
    found = _json(path)
    if not isinstance(found, dict):
        raise ValueError(f"{NAME}: {path} must hold an object of names and ids")
    return found
