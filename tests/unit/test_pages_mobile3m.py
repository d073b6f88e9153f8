"""A page graph's own files and Mobile3M's layout: written and read back equal; damage is refused or skipped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_graphs import BACK, TYPED, phone_explorer, small_graph

from sft.pages.actions import DIRECTIONS, PageAction
from sft.pages.explore import explore
from sft.pages.graph import GraphError, PageGraph
from sft.pages.mobile3m import TRIPLES, action_text, export, parse_action, read


@pytest.fixture(scope="module")
def graph() -> PageGraph:
    return explore(phone_explorer(screenshots=True), ("Contacts", "Messages"))


@pytest.fixture
def written(graph: PageGraph, tmp_path: Path) -> Path:
    export(graph, tmp_path)
    return tmp_path


# --- the graph ---------------------------------------------------------------------------------------------------


def test_a_graph_is_saved_and_loaded_equal(graph: PageGraph, tmp_path: Path) -> None:
    graph.save(tmp_path)
    loaded = PageGraph.load(tmp_path)
    assert loaded == graph and loaded.paths("Contacts") == graph.paths("Contacts")
    assert all(page.screenshot for page in loaded.pages.values())


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("graph.json", '{"format": "other"}', "its format is not"),
        ("graph.json", "{", "graph.json is damaged"),
        ("graph.json", "[" * 200_000, "graph.json is damaged: RecursionError"),
        ("graph.json", None, "cannot be read.*graph.json"),
        ("screens/0.xml", None, "cannot be read.*0.xml"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, file: str, text: str | None, reason: str) -> None:
    small_graph().save(tmp_path)
    (tmp_path / file).unlink() if text is None else (tmp_path / file).write_text(text)
    with pytest.raises(GraphError, match=reason):
        PageGraph.load(tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("width",), 0, "width and height are .0, 720.; they must be whole numbers above 0"),
        (("height",), "720", "width and height are"),
        (("pages", 0, "edges", 0, 0), -1, "an edge of 'A' has a number below 0"),
        (("pages", 0, "edges", 0, 2), -1, "an edge of 'A' has a number below 0"),
        (("pages", 1, "title"), None, "id, app, identity and title of page 1 must be texts"),
        (("abstraction", "titles"), [["only one"]], "its titles must be a list of lists of 2 texts"),
    ],
)
def test_damaged_values_are_refused(tmp_path: Path, path: tuple[str | int, ...], value: object, reason: str) -> None:
    small_graph().save(tmp_path)
    change(tmp_path / "graph.json", path, value)
    with pytest.raises(GraphError, match=f"graph.json is damaged: ValueError: {reason}"):
        PageGraph.load(tmp_path)


def change(file: Path, path: tuple[str | int, ...], value: object) -> None:
    """Puts a value in the place of another one in a JSON file."""
    stored = part = json.loads(file.read_text())
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    file.write_text(json.dumps(stored))


@pytest.mark.parametrize("kept", [0, 3000])
def test_a_screenshot_that_was_cut_short_is_refused(graph: PageGraph, tmp_path: Path, kept: int) -> None:
    graph.save(tmp_path)
    file = tmp_path / "screens" / "1.png"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(GraphError, match="screens/1.png is no whole PNG; copy the graph, or explore it, anew"):
        PageGraph.load(tmp_path)


def test_a_text_that_was_not_typed_leads_where_its_like_led() -> None:
    graph = small_graph()
    graph.add_edge("E", replace(TYPED, text="a"), "N")
    assert graph.target("E", replace(TYPED, text="A")) == "N"
    assert graph.target("E", replace(TYPED, text="Buy milk")) == "T"
    assert graph.target("E", replace(TYPED, text="something else")) == "T", "the first that was typed"
    assert graph.target("A", replace(TYPED, text="a")) is None and graph.target("A", BACK) is None


def test_edges_to_what_is_not_there_are_refused() -> None:
    graph = small_graph()
    with pytest.raises(GraphError, match="'Z', which is not in the graph"):
        graph.add_edge("A", BACK, "Z")
    with pytest.raises(GraphError, match="does not offer"):
        graph.add_edge("A", TYPED, "L")


def test_shortest_paths_and_unreachable_pages_by_hand() -> None:
    graph = small_graph()
    assert {page: len(path) for page, path in graph.paths("App").items()} == {"A": 0, "L": 1, "N": 1, "E": 1, "T": 2}
    assert graph.unreachable() == ("X",)
    smaller = graph.without(graph.unreachable())
    assert smaller.unreachable() == () and set(smaller.pages) == set("ALETN")
    with pytest.raises(GraphError, match="home A"):
        graph.without(["A"])


# --- Mobile3M ----------------------------------------------------------------------------------------------------


def test_the_layout(written: Path, graph: PageGraph) -> None:
    page = graph.pages["Contacts0_0"]
    files = {p.name for p in (written / page.id).iterdir()}
    assert files == {f"{page.id}{end}" for end in (".json", "-screen.png", "-xml.txt", "-html.txt")}
    about = json.loads((written / page.id / f"{page.id}.json").read_text())
    keys = ("round", "name", "unique_name", "valid", "start_APP", "history_actions", "action_space", "path")
    first = action_text(graph.pages["Contacts0"].actions[0], 360, 720)
    space = [action_text(a, 360, 720) for a in page.actions]
    assert [about[key] for key in keys] == [1, page.title, page.id, True, "Contacts", [first], space, page.id]
    assert ["Contacts0", 0, "Contacts0_0"] in json.loads((written / TRIPLES).read_text())["data"]


def test_it_is_read_back_equal(written: Path, graph: PageGraph) -> None:
    again, skipped = read(written)
    assert again == graph and not skipped
    assert again.paths("Messages") == graph.paths("Messages")


@given(
    st.tuples(*[st.integers(0, 1080)] * 2, *[st.integers(0, 2400)] * 2),
    st.text("a,[]()1 \"'ü", max_size=12).map(str.strip),
    st.sampled_from(("click", "long_click", "input", "scroll")),
    st.sampled_from(DIRECTIONS),
    st.sampled_from(((360, 720), (1080, 2400), (720, 1280))),
)
def test_actions_are_read_back_equal(
    pixels: tuple[int, ...], name: str, kind: str, way: str, size: tuple[int, int]
) -> None:
    (x1, x2), (y1, y2) = (sorted(min(p, s) for p in ps) for ps, s in ((pixels[:2], size[0]), (pixels[2:], size[1])))
    box = tuple(round(p * 999 / size[i % 2]) for i, p in enumerate((x1, y1, x2, y2)))
    action = PageAction(kind, name, box, way if kind == "scroll" else "")
    assert parse_action(action_text(action, *size), *size) == action


def test_a_scroll_is_written_in_pixels() -> None:
    list_ = PageAction("scroll", "", (0, 412, 999, 749), "left")
    assert action_text(list_, 720, 1280) == "scroll([0,528][720,960],left)"


def test_unreachable_pages_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="1 pages cannot be reached from any home, X first"):
        export(small_graph(), tmp_path)
    assert not (tmp_path / TRIPLES).exists()


def test_damaged_pages_and_what_only_they_lead_to_are_skipped_and_counted(written: Path, graph: PageGraph) -> None:
    ways = graph.paths("Contacts")
    view = next(p for p in graph.pages if len(ways.get(p, ())) == 1 and any(q.startswith(f"{p}_") for q in graph.pages))
    (written / view / f"{view}.json").write_text('{"valid": tr')
    again, skipped = read(written)
    assert skipped["page: its description is damaged"] == 1 and skipped["triple: a page is not there"] >= 1
    assert view not in again.pages and not again.unreachable()
    assert len(again.pages) == len(graph.pages) - 1 - skipped["page: no home leads to it"]


@pytest.mark.parametrize(
    ("end", "content", "reason"),
    [
        ("-xml.txt", None, "a file is missing"),
        ("-xml.txt", b"<hierarchy><node", "unreadable UI dump"),
        ("-screen.png", b"\x89PNG\r\n\x1a\n cut", "no whole PNG"),
        (".json", b"[]", "its description is damaged"),
        (".json", b'{"valid": false}', "marked as not valid"),
        (".json", b'{"valid": true}', "has no 'action_space'"),
    ],
)
def test_every_damage_has_its_reason(written: Path, end: str, content: bytes | None, reason: str) -> None:
    file = written / "Contacts0_0" / f"Contacts0_0{end}"
    file.unlink() if content is None else file.write_bytes(content)
    assert any(reason in told for told in read(written)[1])


def test_without_homes_or_triples_there_is_no_graph(written: Path) -> None:
    for home in ("Contacts0", "Messages0"):
        shutil.rmtree(written / home)
    with pytest.raises(GraphError, match="no home page that can be read .*a file is missing"):
        read(written)
    (written / TRIPLES).write_text('{"data": 3}')
    with pytest.raises(GraphError, match="no list `data`"):
        read(written)
    (written / TRIPLES).unlink()
    with pytest.raises(GraphError, match="cannot be read"):
        read(written)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("screen", [1]), ("screen", [0, 720]), ("screen", None), ("homes", []), ("homes", {"Contacts": []}),
        ("pages", 7), ("texts", 5), ("texts", [5]), ("abstraction", {}), ("abstraction", {"labels": [1], "titles": []}),
    ],
)  # fmt: skip
def test_damaged_triples_are_refused_by_file_and_key(written: Path, key: str, value: object) -> None:
    change(written / TRIPLES, (key,), value)
    with pytest.raises(GraphError, match=f"{TRIPLES}: `{key}` is damaged: .*; export the graph anew"):
        read(written)


def test_triples_that_cannot_be_and_too_deep_ones(written: Path, graph: PageGraph) -> None:
    ends = "Contacts0", "Contacts0_0"
    for triple in (*([ends[0], number, ends[1]] for number in (-1, "x", 1e999)), 7, [[], 0, ends[1]]):
        change(written / TRIPLES, ("data", 0), triple)
        assert read(written)[1]["triple: no such action"] == 1
    (written / TRIPLES).write_text("[" * 200_000)
    with pytest.raises(GraphError, match=f"{TRIPLES} is damaged"):
        read(written)


def test_files_of_others_are_read(tmp_path: Path) -> None:
    """Only what the layout itself has: no homes, texts, identities or size."""
    for name, history, space in (
        ("app0", [], ["click(Open,[273,84][324,180])", "scroll([0,528][720,960],left)", "STATUS_TASK_COMPLETE"]),
        ("app0_0", ["click(Open,[273,84][324,180])"], ["complete"]),
    ):
        (tmp_path / name).mkdir()
        about = {"round": 0, "name": "", "unique_name": name, "valid": True, "start_APP": "app", "path": name}
        about |= {"history_actions": history, "action_space": space}
        (tmp_path / name / f"{name}.json").write_text(json.dumps(about))
        (tmp_path / name / f"{name}-xml.txt").write_text("<hierarchy><node class='a.B' text='Hi'/></hierarchy>")
    triples = [["app0", 0, "app0_0"], ["app0", 7, "app0_0"], ["app0", 1, "q"]]
    (tmp_path / TRIPLES).write_text(json.dumps({"data": triples}))
    graph, skipped = read(tmp_path)
    assert graph.homes == {"app": "app0"} and (graph.width, graph.height) == (720, 1280)
    opened = PageAction("click", "Open", (379, 66, 450, 140))
    assert graph.triples() == [("app0", opened, "app0_0")]
    assert skipped == {"triple: no such action": 1, "triple: a page is not there": 1}
