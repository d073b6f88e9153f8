"""Exploring: what is one page, what an edge says, and bounds."""

from __future__ import annotations

from page_graphs import SEED, phone_device, phone_explorer

from mobilerl.envs.base import Launch, Type
from mobilerl.envs.device import Device
from mobilerl.reachagent.actions import BACK, COMPLETE, PageAction, device_actions, from_device
from mobilerl.reachagent.exploration import Explorer, Limits
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.identity import Abstraction, Shape, learn, shape_of


def breadth_first(*apps: str, **options: object) -> tuple[PageGraph, Explorer]:
    explorer = phone_explorer(**options)
    for app in apps:
        explorer.breadth_first(app)
    return explorer.finish(), explorer


def by_title(graph: PageGraph, title: str) -> set[str]:
    return {page.identity for page in graph.pages.values() if page.title == title}


# --- what is one page --------------------------------------------------------------------------------------------


def identity(device: Device) -> str:
    return Abstraction().identity(shape_of(device.dump_xml()))


def test_typed_text_rows_clock_and_toasts_do_not_make_another_page() -> None:
    phone, device = phone_device()
    device.act(Launch("Notes"))
    notes = phone.app("Notes")
    assert notes is not None
    before = identity(device)
    notes.insert("notes", title="One more", body="row")
    notes.toast("Note saved")
    phone.invalidate()
    assert "Note saved" in device.dump_xml() and identity(device) == before
    notes.toast("")
    notes.go("edit", focus="title")
    phone.invalidate()
    empty = identity(device)
    device.act(Type("hello"))
    assert "hello" in device.dump_xml() and identity(device) == empty != before


def shape(title: str, *labels: str) -> Shape:
    return Shape("app", title, frozenset(("Button  c", label) for label in labels))


def test_texts_that_differ_between_phones_are_contents() -> None:
    first = [shape("Notes", "New note"), shape("Groceries", "Edit", "Pin it")]
    second = [shape("Notes", "New note"), shape("Holiday", "Edit", "Pin it")]
    third = [shape("Notes", "New note"), shape("Films", "Edit")]
    learned = learn([first, second, third])
    same = learned.identity(shape("Groceries", "Edit")), learned.identity(shape("Films", "Edit"))
    assert same[0] == same[1] and learned.title(first[0]) == "Notes"
    assert learned.label("app", "Button  c", "Pin it") == "Pin it", "on half of the phones"
    assert learned.identity(shape("Notes", "New note")) != learned.identity(shape("Notes", "Edit"))


# --- actions -----------------------------------------------------------------------------------------------------


def test_an_action_of_the_agent_is_found_in_the_space() -> None:
    row, button = (PageAction("click", "Row", (0, 0, 900, 100)), PageAction("click", "Star", (800, 0, 900, 100)))
    field = PageAction("input", "Title", (0, 200, 900, 300))
    down = PageAction("scroll", "", (0, 0, 999, 999), "down")
    space = (row, button, field, down, BACK, COMPLETE)
    for action in (row, button, down, BACK, COMPLETE):
        assert from_device(device_actions(action)[0], space) == action
    assert from_device(Type("hi"), space) == PageAction("input", "Title", field.box, text="hi")
    assert from_device(Type("hi"), (*space, PageAction("input", "Body", (0, 400, 900, 500)))) is None, "which field?"


# --- exploring ---------------------------------------------------------------------------------------------------


def wrong_edges(graph: PageGraph, app: str) -> list[tuple[str, PageAction]]:
    """The edges that a fresh phone contradicts: the way to the page and the action lead elsewhere."""
    phone, device = phone_device()
    wrong = []
    for page, path in graph.paths(app).items():
        for action, target in graph.edges[page].items():
            phone.reset(SEED)
            for command in (Launch(app), *(c for step in (*path, action) for c in device_actions(step))):
                device.act(command)
            if identity(device) != graph.pages[target].identity:
                wrong.append((page, action))
    return wrong


def test_what_an_edge_says_happens() -> None:
    graph, _ = breadth_first("Notes")
    assert len(graph.triples()) > 60 and not wrong_edges(graph, "Notes")


def test_a_changed_page_is_explored_too() -> None:
    """The cart has a button to check out only when something was put in it, which leaves the product's page up."""
    graph, _ = breadth_first("Shop")
    assert by_title(graph, "Checkout") and by_title(graph, "Place order?")
    without, _ = breadth_first("Shop", limits=Limits(changes=0))
    assert not by_title(without, "Checkout")


def test_limits_hold_and_are_reported() -> None:
    graph, explorer = breadth_first("Shop", limits=Limits(pages=5))
    assert len(graph.pages) == 5 and explorer.dropped["the limit on pages"] and not graph.unreachable()
    graph, explorer = breadth_first("Shop", limits=Limits(actions=20))
    assert any("limit on actions" in reason for reason in explorer.dropped)
    graph, _ = breadth_first("Shop", limits=Limits(depth=1))
    assert max(len(path) for path in graph.paths("Shop").values()) == 1
