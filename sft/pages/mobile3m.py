"""A page graph in the layout of the Mobile3M data set: `export` writes it, `read` reads what `export` wrote.

The published Mobile3M is not read here: it names actions by HTML elements and numbers them for a whole app. As
demonstrations for the warm-up it is read by `sft.sources.mobile3m`.

One folder per page, named after the actions that lead to it from the app's home (`Notes0_3_1`), with

    NAME-screen.png   NAME-xml.txt (the UI dump)   NAME-html.txt (the elements as HTML)
    NAME.json         round, name, unique_name, valid, start_APP, history_actions, action_space, path

and `all_triple.json` with `data`: [page, number of the action in the action space, page]. Actions are written as
`click(NAME,[x1,y1][x2,y2])` in pixels. What the layout has no place for stands beside it: `identity` and `title` in a
page's file; `screen`, `homes`, `pages`, `texts` (what each triple typed) and `abstraction` in `all_triple.json`. Files
from which other tools took these out are read too: the screen is then 720x1280, and a page without history is its app's
home.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from envs.base import COORD_MAX
from mobilerl.agent.screen import Box, parse_screen
from sft.pages.actions import KINDS, PageAction
from sft.pages.graph import GraphError, Page, PageGraph, check_homes, is_whole, read_size, with_text
from sft.pages.identity import Abstraction, shape_of

TRIPLES = "all_triple.json"
SIZE = (720, 1280)
"""Width and height of Mobile3M's screens in pixels."""

_T = TypeVar("_T")
_NAME = re.compile(r"[^/\\\0.][^/\\\0]*")
_BOXED = re.compile(r"(\w+)\((?:(.*),)?\s*\[(\d{1,6}),(\d{1,6})\]\[(\d{1,6}),(\d{1,6})\](?:,\s*(.*))?\)", re.DOTALL)


# --- actions -----------------------------------------------------------------------------------------------------


def action_text(action: PageAction, width: int, height: int) -> str:
    """`click(Save,[312,32][352,72])`, `scroll([0,80][360,700],up)`, `input(Title,[0,8][9,40],text)`, `back`."""
    if action.box is None:
        return action.kind
    x1, y1, x2, y2 = action.box
    left, top = round(x1 * width / COORD_MAX), round(y1 * height / COORD_MAX)
    right, bottom = round(x2 * width / COORD_MAX), round(y2 * height / COORD_MAX)
    words = [action.name] * bool(action.name) + [f"[{left},{top}][{right},{bottom}]"]
    words += [w for w in (action.direction, action.text) if w]
    return f"{action.kind}({','.join(words)})"


def parse_action(text: str, width: int, height: int) -> PageAction:
    """The inverse of `action_text` for the actions of an action space. Raises ValueError."""
    if text in KINDS or text == "STATUS_TASK_COMPLETE":
        return PageAction("complete" if text == "STATUS_TASK_COMPLETE" else text)
    match = _BOXED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is no action")
    kind, name, *corners, rest = match.groups()
    x1, y1, x2, y2 = map(int, corners)
    box: Box = (_relative(x1, width), _relative(y1, height), _relative(x2, width), _relative(y2, height))
    extra = {"direction": rest or ""} if kind == "scroll" else {"text": rest or ""}
    return PageAction(kind, (name or "").strip(), box, **extra)


def _relative(pixel: int, size: int) -> int:
    return round(pixel * COORD_MAX / size)


# --- writing -----------------------------------------------------------------------------------------------------


def export(graph: PageGraph, folder: Path) -> None:
    """Writes the graph. Raises GraphError when it has pages that no home leads to: they have no place in the layout."""
    if lost := graph.unreachable():
        cure = "leave them out with graph.without(graph.unreachable())"
        raise GraphError(f"{len(lost)} pages cannot be reached from any home, {lost[0]} first; {cure}")
    check_homes(graph)
    ways = {app: graph.paths(app) for app in graph.homes}
    for page in graph.pages.values():
        if not _NAME.fullmatch(page.id):
            raise GraphError(f"the page {page.id!r} cannot be the name of a folder")
        app = next(a for a in (page.app, *ways) if page.id in ways.get(a, {}))
        _write_page(graph, page, app, ways[app][page.id], folder / page.id)
    triples = graph.triples()
    numbers = [graph.pages[source].actions.index(action.slot) for source, action, _ in triples]
    known = {
        "data": [[source, number, target] for (source, _, target), number in zip(triples, numbers, strict=True)],
        "texts": [action.text for _, action, _ in triples],
        "screen": [graph.width, graph.height],
        "homes": graph.homes,
        "pages": list(graph.pages),
        "abstraction": graph.abstraction.to_json(),
    }
    (folder / TRIPLES).write_text(json.dumps(known, ensure_ascii=False), encoding="utf-8")


def _write_page(graph: PageGraph, page: Page, start: str, history: tuple[PageAction, ...], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    size = (graph.width, graph.height)
    about = {
        "round": len(history),
        "name": page.title,
        "unique_name": page.id,
        "valid": True,
        "start_APP": start,
        "history_actions": [action_text(a, *size) for a in history],
        "action_space": [action_text(a, *size) for a in page.actions],
        "path": page.id,
        "app": page.app,
        "identity": page.identity,
    }
    (folder / f"{page.id}.json").write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    (folder / f"{page.id}-xml.txt").write_text(page.xml, encoding="utf-8")
    (folder / f"{page.id}-html.txt").write_text(_as_html(page, *size), encoding="utf-8")
    if page.screenshot:
        (folder / f"{page.id}-screen.png").write_bytes(page.screenshot)


def _as_html(page: Page, width: int, height: int) -> str:
    """A line for every element that says or does something."""
    tags = {"field": "input", "list": "div", "switch": "input", "button": "button"}
    lines = []
    for number, element in enumerate(parse_screen(page.xml, width, height).elements):
        tag = tags[element.role] if element.actions else "p"
        lines.append(f'<{tag} id="{number}">{html.escape(element.text)}</{tag}>\n')
    return "".join(lines)


# --- reading -----------------------------------------------------------------------------------------------------


def read(folder: Path) -> tuple[PageGraph, Counter[str]]:
    """The graph of a folder, and what was skipped: reason -> how many.

    Skipped are pages whose files are missing or damaged or that no home leads to, and triples that name a page or an
    action which is not there. Raises GraphError without a readable `all_triple.json`, or when no app's home is left.
    """
    stored = _triples(folder / TRIPLES)
    skipped: Counter[str] = Counter()
    width, height = _value(folder, stored, "screen", read_size, SIZE)
    abstraction = _value(folder, stored, "abstraction", Abstraction.from_json, Abstraction())
    graph = PageGraph(width, height, abstraction=abstraction)
    homes: dict[str, str] = {}
    for name in _value(folder, stored, "pages", _texts, []) or sorted(p.name for p in folder.iterdir() if p.is_dir()):
        try:
            page, start, first = _read_page(graph, folder, name)
            graph.add_page(page)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            skipped[f"page: {_reason(error)}"] += 1
            continue
        if first:
            homes.setdefault(start, page.id)
    wanted = _value(folder, stored, "homes", _names, homes)
    graph.homes = {app: page for app, page in wanted.items() if page in graph.pages}
    skipped["home: its page is not there"] += len(wanted) - len(graph.homes)
    if not graph.homes:
        raise GraphError(f"{folder} has no home page that can be read ({_told(skipped)})")
    texts = _value(folder, stored, "texts", _texts, []) or [""] * len(stored["data"])
    if len(texts) != len(stored["data"]):
        raise GraphError(f"{folder / TRIPLES}: there are {len(stored['data'])} triples and {len(texts)} `texts`")
    _read_edges(graph, stored["data"], texts, skipped)
    lost = graph.unreachable()
    skipped["page: no home leads to it"] += len(lost)
    return (graph.without(lost) if lost else graph), +skipped


def _triples(file: Path) -> Mapping[str, Any]:
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise GraphError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise GraphError(f"{file} is damaged: {error}") from None
    if not isinstance(stored, dict) or not isinstance(stored.get("data"), list):
        raise GraphError(f"{file} has no list `data` of triples")
    return stored


def _value(folder: Path, stored: Mapping[str, Any], key: str, reader: Callable[[Any], _T], default: _T) -> _T:
    """What stands under a key that may be missing. Raises GraphError naming file and key."""
    try:
        return reader(stored[key]) if key in stored else default
    except ValueError as error:
        raise GraphError(f"{folder / TRIPLES}: `{key}` is damaged: {error}; export the graph anew") from None


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError("it must be a list of texts")
    return value


def _names(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("it must be an object of texts")
    return value


def _read_page(graph: PageGraph, folder: Path, name: str) -> tuple[Page, str, bool]:
    """A page, its app, and whether it is that app's home."""
    if not _NAME.fullmatch(name):
        raise ValueError("its name is no name of a folder")
    stem = folder / name / name
    about = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
    if not about["valid"]:
        raise ValueError("it is marked as not valid")
    xml = Path(f"{stem}-xml.txt").read_text(encoding="utf-8")
    shape = shape_of(xml)
    picture = Path(f"{stem}-screen.png")
    png = picture.read_bytes() if picture.exists() else b""
    if png and not is_whole(png):
        raise ValueError("its screenshot is no whole PNG")
    actions = tuple(parse_action(a, graph.width, graph.height) for a in about["action_space"])
    start = str(about["start_APP"])
    identity = str(about.get("identity") or graph.abstraction.identity(shape))
    page = Page(name, str(about.get("app", start)), identity, str(about["name"]), xml, png, actions)
    return page, start, not about["history_actions"]


def _read_edges(graph: PageGraph, triples: Sequence[Any], texts: Sequence[str], skipped: Counter[str]) -> None:
    for triple, text in zip(triples, texts, strict=True):
        try:
            source, number, target = triple
            if number < 0:
                raise IndexError
            graph.add_edge(source, with_text(graph.pages[source].actions[number], text), target)
        except (GraphError, KeyError):
            skipped["triple: a page is not there"] += 1
        except (ValueError, TypeError, IndexError):
            skipped["triple: no such action"] += 1


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return "a file is missing"
    if isinstance(error, KeyError):
        return f"its description has no {error}"
    return "its description is damaged" if isinstance(error, json.JSONDecodeError | TypeError) else str(error)[:80]


def _told(skipped: Counter[str]) -> str:
    return "; ".join(f"{count} x {reason}" for reason, count in skipped.items() if count) or "nothing was skipped"
