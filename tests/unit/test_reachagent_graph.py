"""The page graph: its files, edges and shortest paths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from page_graphs import BACK, TYPED, phone_explorer, small_graph

from mobilerl.reachagent.exploration import explore
from mobilerl.reachagent.graph import GraphError, PageGraph
from mobilerl.reachagent.graph_files import load_graph, save_graph


@pytest.fixture(scope="module")
def graph() -> PageGraph:
    return explore(phone_explorer(screenshots=True), ("Contacts", "Messages"))


def test_a_graph_is_saved_and_loaded_equal(graph: PageGraph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path)
    loaded = load_graph(tmp_path)
    shown = [[(p.xml, p.screenshot, p.actions) for p in g.pages.values()] for g in (loaded, graph)]
    assert shown[0] == shown[1] and loaded.edges == graph.edges and list(loaded.pages) == list(graph.pages)
    assert loaded.abstraction == graph.abstraction and loaded.paths("Contacts") == graph.paths("Contacts")
    assert all(page.screenshot for page in loaded.pages.values())


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("graph.json", '{"format": "other"}', "its format is not"),
        ("graph.json", "{", "graph.json is damaged"),
        ("graph.json", "[" * 200_000, "graph.json is damaged: RecursionError"),
        ("graph.json", None, "cannot be read.*graph.json"),
        ("pages.jsonl", None, "cannot be read.*pages.jsonl"),
        ("pages.jsonl", "{}", "is damaged: KeyError: 'id'; make it again"),
        ("edges.jsonl", '["A", {"kind": "back"}, "Z"]', "is damaged: KeyError: 'Z'"),
        ("screens/0.xml", None, "the page A of .* cannot be read: .*0.xml.*; put it back"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, file: str, text: str | None, reason: str) -> None:
    save_graph(small_graph(), tmp_path)
    (tmp_path / file).unlink() if text is None else (tmp_path / file).write_text(text)
    with pytest.raises(GraphError, match=reason):
        print(load_graph(tmp_path).pages["A"].xml)


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
