"""Exploring: what is one page, bounds, states restored by snapshot and by replay, and devices that fail."""

from __future__ import annotations

import pytest
from faulty_transport import FaultyTransport
from page_graphs import SEED, phone_device, phone_explorer

from envs.base import InfraError, Type
from envs.device import Device
from envs.phone.env import APP_NAMES
from envs.phone.faults import Fault, FaultPlan, FaultSettings
from envs.phone.tasks.base import Admin
from envs.phone.transport import InProcessTransport
from mobilerl.reachagent.actions import BACK, COMPLETE, PageAction, device_actions, from_device
from mobilerl.reachagent.device_states import Replay, Snapshots, open_app, perform
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
    open_app(device, "Notes")
    notes = phone.app("Notes")
    assert notes is not None
    before = identity(device)
    notes.insert("notes", title="One more", body="row")
    notes.toast("Note saved")
    phone.changed()
    assert "Note saved" in device.dump_xml() and identity(device) == before
    notes.toast("")
    notes.go("edit", focus="title")
    phone.changed()
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
    states, wrong = Snapshots(phone, device, SEED), []
    for page, path in graph.paths(app).items():
        for action, target in graph.edges[page].items():
            states.start(app)
            for step in (*path, action):
                perform(device, step)
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
    assert len(graph.pages) == 5 and explorer.report.dropped["the limit on pages"] and not graph.unreachable()
    graph, explorer = breadth_first("Shop", limits=Limits(actions=20))
    assert any("limit on actions" in reason for reason in explorer.report.dropped)
    graph, _ = breadth_first("Shop", limits=Limits(depth=1))
    assert max(len(path) for path in graph.paths("Shop").values()) == 1


# --- other devices -----------------------------------------------------------------------------------------------


def fresh_replay(device: Device) -> Replay:
    def fresh() -> None:
        device.look("sim", "reset", "--seed", str(SEED))

    return Replay(device, APP_NAMES, fresh)


def test_replayed_states_give_the_graph_that_snapshots_give() -> None:
    _, device = phone_device()
    explorer = Explorer(device, fresh_replay(device), APP_NAMES, seed=SEED, screenshots=False)
    explorer.breadth_first("Notes")
    phone, device = phone_device()
    other = Explorer(device, Snapshots(phone, device, SEED), APP_NAMES, seed=SEED, screenshots=False)
    other.breadth_first("Notes")
    assert explorer.finish() == other.finish() and not explorer.report.faults


def test_pages_that_are_lost_end_nothing_but_themselves() -> None:
    """Without a fresh phone for every state, deleted notes stay deleted; the device is well all the same."""
    _, device = phone_device()
    notes = Admin(device.transport)
    for row in notes.rows("notes/notes")[1:]:
        notes.delete("notes/notes", row["_id"])
    explorer = Explorer(device, Replay(device, APP_NAMES), APP_NAMES, seed=SEED, screenshots=False)
    explorer.breadth_first("Notes")
    assert explorer.report.dropped["page not fully explored: the way to it is lost"]
    assert all("no longer leads there" in fault for fault in explorer.report.faults)
    titles = {page.title for page in explorer.finish().pages.values()}
    assert {"Notes", "Search", "Edit note", "Delete note?"} <= titles


def faulty(rate: float, kinds: tuple[Fault, ...], replay: bool) -> tuple[Explorer, FaultyTransport]:
    phone, _ = phone_device()
    plan = FaultPlan(FaultSettings(rate=rate, kinds=kinds, slow_s=0.0, seed=3), "sim-0")
    transport = FaultyTransport(InProcessTransport(phone), plan, phone.boot)
    device = Device(transport, APP_NAMES)
    states = fresh_replay(device) if replay else Snapshots(phone, device, SEED)
    device.size()
    return Explorer(device, states, APP_NAMES, seed=SEED, screenshots=True), transport


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize(
    ("kinds", "rate"),
    [((Fault.OFFLINE, Fault.HANG, Fault.TRUNCATED), 0.06), ((Fault.BLACK,), 0.4), ((Fault.REBOOT,), 0.08)],
)
def test_faults_never_put_a_wrong_edge_into_the_graph(
    monkeypatch: pytest.MonkeyPatch, kinds: tuple[Fault, ...], rate: float, replay: bool
) -> None:
    monkeypatch.setattr("envs.retry.time.sleep", lambda seconds: None)
    explorer, transport = faulty(rate, kinds, replay)
    for app in ("Notes", "Home"):  # a device that rebooted shows the latter
        explorer.breadth_first(app)
    graph = explorer.finish()
    assert set(transport.plan.counts) == set(kinds) and sum(transport.plan.counts.values()) > 8
    assert len(graph.triples()) > 40 and not graph.unreachable()
    assert not wrong_edges(graph, "Notes")


def test_a_lost_device_ends_the_exploration_and_leaves_a_sound_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.retry.time.sleep", lambda seconds: None)
    explorer, transport = faulty(0.0, (), replay=False)
    explorer.random_walk("Notes", 20)
    found = explorer.finish().triples()
    transport.crashed = True
    with pytest.raises(InfraError, match="5 actions in a row"):
        explorer.breadth_first("Notes")
    assert explorer.graph.triples() == found and len(explorer.report.faults) == 5
    assert not explorer.graph.unreachable()
