"""Mobile3M's page graphs, made by `mobile3m_files` in the published layout: import, tasks, pairs, what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from mobile3m_files import SEARCH, UP, App, png, write_app

from mobilerl.cli import main
from mobilerl.reachagent.actions import COMPLETE
from mobilerl.reachagent.graph import GraphError, PageGraph
from mobilerl.reachagent.graph_files import load_graph
from mobilerl.reachagent.mobile3m import import_mobile3m
from mobilerl.reachagent.pairs import action_pairs
from mobilerl.reachagent.rewards import Level, Reach
from mobilerl.reachagent.tasks import make_tasks

WALKS = 40


def imported(source: Path, folder: Path) -> PageGraph:
    import_mobile3m(source, folder, lambda line: None)
    return load_graph(folder)


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> PageGraph:
    root = tmp_path_factory.mktemp("mobile3m")
    write_app(root / "data")
    return imported(root / "data", root / "graph")


def named(graph: PageGraph, page: str) -> dict[str, str]:
    """Titles of the pages that actions lead to, by kind and name or direction."""
    return {f"{a.kind} {a.name or a.direction}": graph.pages[t].title for a, t in graph.edges[page].items()}


def test_the_graph_of_an_app(graph):
    assert graph.homes == {"shop": "shop0"} and (graph.width, graph.height) == (720, 1280)
    assert named(graph, "shop0") == {
        "input Find goods": "Results",
        "click Tea shelf": "Tea shelf",
        "click Book shelf": "Book shelf",
        "click Ring shelf": "Ring shelf",
    }
    shelf = graph.flows("shop")["shop0_1"]
    assert [a.name for a in shelf] == ["Tea shelf"]
    assert next(a for a in graph.edges["shop0"] if a.kind == "input").text == SEARCH
    assert not graph.unreachable() and len(graph.pages) == 1 + 1 + 3 * (1 + 1 + 4 * 2) + 1


def test_scrolling_stays_on_the_page(graph):
    ends = {p: t for p, known in graph.edges.items() for action, t in known.items() if action.kind == "scroll"}
    assert len(ends) == 3
    assert all(graph.pages[t].identity == p == graph.pages[p].identity and t != p for p, t in ends.items())


def test_pages_that_resemble_each_other_are_one(graph):
    abouts = {t for edges in graph.edges.values() for a, t in edges.items() if a.name == "About us"}
    assert len(abouts) == 1 and graph.pages[abouts.pop()].title == "Who we are"


def test_screens_stay_in_the_data_set(graph, tmp_path):
    source = write_app(tmp_path)
    made = imported(source, tmp_path / "graph")
    assert made.pages["shop0"].screenshot == png(0)
    assert not list((tmp_path / "graph" / "screens").iterdir())
    (source / "shop0" / "shop0-screen.png").unlink()
    with pytest.raises(GraphError, match="the page shop0 of .*graph cannot be read: .*shop0-screen.png'; put it back"):
        print(made.pages["shop0"].screenshot)


def test_an_app_without_the_files_that_list_its_graph(graph, tmp_path):
    made = imported(write_app(tmp_path, index=False), tmp_path / "graph")
    assert set(made.triples()) == set(graph.triples()) and made.pages.keys() == graph.pages.keys()


def test_broken_pages_are_named_and_left_out(tmp_path, capsys):
    source = write_app(tmp_path / "data")
    shelf = next(p for p in sorted(source.iterdir()) if p.name == "shop0_1")
    (shelf / "shop0_1-screen.png").write_bytes(png(3)[:60])
    (source / "shop0_0" / "shop0_0-xml.txt").write_text("<hierarchy")
    assert main(["import-mobile3m", str(tmp_path / "data"), str(tmp_path / "graph")]) == 0
    said = "".join(capsys.readouterr())
    listed = (tmp_path / "graph" / "broken.txt").read_text()
    assert "shop0_1-screen.png: it is no complete PNG" in listed
    assert "shop0_0-xml.txt: unreadable UI dump" in listed and len(listed.splitlines()) == 2
    assert "2 broken pages left out" in said and "unpack their archives again" in said
    pages = load_graph(tmp_path / "graph").pages
    assert "shop0_1" not in pages
    behind = {pages[page].title for page in pages if page.startswith("shop0_1_")}
    assert behind == {"Who we are"}, "what is only behind it goes too"


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda app: (app / "all_triple.json").write_text("{"), "all_triple.json cannot be read: .*unpack"),
        (lambda app: (app / "other0").mkdir() or (app / "other0" / "other0-xml.txt").touch(), "2 home pages.*one app"),
        (lambda app: (app / "shop0" / "shop0-screen.png").unlink(), "no page of .* can be used: .*shop0-screen.png"),
        (lambda app: app.rename(app.with_name("x")) and (app / "a").mkdir(parents=True), "has no app of Mobile3M"),
    ],
)
def test_data_that_cannot_be_imported(tmp_path, break_it, reason):
    app = write_app(tmp_path / "data")
    break_it(app)
    with pytest.raises(GraphError, match=reason):
        imported(app, tmp_path / "graph")


def test_an_app_that_is_there_twice(tmp_path):
    for name in ("a", "b"):
        write_app(tmp_path / "data" / name).rename(tmp_path / "data" / f"shop_{name}")
        (tmp_path / "data" / name).rmdir()
    with pytest.raises(GraphError, match="shop_b has the same app as another folder"):
        imported(tmp_path / "data", tmp_path / "graph")


def test_an_action_without_an_element_is_dropped_and_counted(tmp_path):
    app = App(tmp_path / "shop_graph_1", "shop")
    app.write(index=True)
    (app.folder / "shop0" / "shop0-xml.txt").write_text(app.pages["shop0_0"].replace("Tea", "Other"))
    said: list[str] = []
    import_mobile3m(app.folder, tmp_path / "graph", said.append)
    assert "3 actions dropped: action on an element that is not on its page" in said[0]


def test_tasks_and_pairs(graph):
    tasks = make_tasks(graph, WALKS, 0.2)
    kinds = {task.kind for task in tasks.train}
    assert kinds == {"navigation", "reaching", "operation"} and tasks.test
    task = next(t for t in tasks.train if t.kind == "navigation" and len(t.actions) >= 3)
    pairs = action_pairs(graph, task, [None] * len(task.actions))
    assert all(p.chosen_level is Level.GOLDEN and p.rejected_level is Level.INVALID for p in pairs)
    random = action_pairs(graph, task, list(task.actions))
    assert random and all(p.source == "random" and p.rejected_level < p.chosen_level for p in random)
    assert task.actions[-1] == COMPLETE
    scrolls = [a for edges in graph.edges.values() for a in edges if a.kind == "scroll"]
    assert UP.startswith("scroll") and {a.direction for a in scrolls} == {"up"}


def test_the_split_is_by_page_and_does_not_change_with_other_apps(graph, tmp_path):
    write_app(tmp_path / "data")
    write_app(tmp_path / "data", "bazaar")
    both = imported(tmp_path / "data", tmp_path / "graph")
    alone, together = make_tasks(graph, WALKS, 0.3), make_tasks(both, WALKS, 0.3)

    def places(tasks, app="shop"):
        return {t.goal.subtasks[-1] for t in tasks if t.kind == "navigation" and t.app == app}

    for tasks, others in ((alone, alone), (alone, together), (together, alone), (together, together)):
        assert places(tasks.test) and not places(tasks.test) & places(others.train)
    assert places(together.test, "bazaar") and not places(together.test, "bazaar") & places(together.train, "bazaar")
    fewer = make_tasks(both, WALKS, 0.05, flows=10)
    assert len(places(fewer.test)) + len(places(fewer.train)) <= 10
    assert all(isinstance(place, Reach) for place in places(fewer.train))
