"""Exploring: what is one page, bounds, states restored by snapshot and by replay, and devices that fail."""

from __future__ import annotations

import pytest
from page_graphs import SEED, phone_device, phone_explorer

from envs.base import InfraError, Type
from envs.device import Device
from envs.phone.env import APP_NAMES
from envs.phone.faults import Fault, FaultPlan, FaultSettings, FaultyTransport
from envs.phone.phone import Phone
from envs.phone.tasks.base import Admin
from envs.phone.transport import InProcessTransport
from mobilerl.agent.candidates import candidates
from mobilerl.agent.screen import parse_screen
from sft.pages.actions import BACK, COMPLETE, PageAction, action_space, device_actions, from_device
from sft.pages.choices import spread
from sft.pages.explore import Explorer
from sft.pages.graph import PageGraph
from sft.pages.identity import MAX_NAMES, Abstraction, Shape, learn, shape_of
from sft.pages.limits import Limits
from sft.pages.states import Replay, Snapshots, open_app, play


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


def test_other_controls_and_other_tabs_make_another_page() -> None:
    graph, _ = breadth_first("Clock")
    tabs = [by_title(graph, title) for title in ("Alarm", "World", "Timer", "Stopwatch")]
    assert all(tabs) and len(set().union(*tabs)) == sum(map(len, tabs))


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


def test_many_titles_over_the_same_controls_are_contents() -> None:
    few = [shape(f"Section {chr(65 + i)}", "Up") for i in range(MAX_NAMES)]
    assert len({learn([few]).identity(s) for s in few}) == MAX_NAMES
    many = [*few, shape("Section too many", "Up")]
    assert len({learn([many]).identity(s) for s in many}) == 1


def test_an_unreadable_dump_is_refused() -> None:
    for xml in ("<hierarchy><node", '<!DOCTYPE x [<!ENTITY a "b">]><hierarchy/>'):
        with pytest.raises(ValueError, match="unreadable UI dump"):
            shape_of(xml)


# --- actions -----------------------------------------------------------------------------------------------------


def test_the_action_space_is_that_of_the_agent_plus_long_clicks_and_back() -> None:
    _, device = phone_device()
    for app in ("Messages", "Music", "Files"):
        open_app(device, app)
        screen = parse_screen(device.dump_xml(), *device.size())
        space = action_space(screen, {})
        ours = [c for a in space if a.kind in ("click", "scroll", "complete") for c in device_actions(a)]
        assert set(ours) == {c for c in candidates(screen) if not isinstance(c, Type)}
        assert space[-2:] == (BACK, COMPLETE)


def test_an_action_of_the_agent_is_found_in_the_space() -> None:
    row, button = PageAction("click", "Row", (0, 0, 900, 100)), PageAction("click", "Star", (800, 0, 900, 100))
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
                play(device, step)
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


def test_a_random_walk_is_seeded_and_finds_what_breadth_first_finds() -> None:
    walks = [phone_explorer(), phone_explorer()]
    for explorer in walks:
        explorer.random_walk("Notes", 400)
    assert walks[0].finish() == walks[1].finish()
    graph, _ = breadth_first("Notes")
    assert walks[0].graph.identities() == graph.identities()


def test_limits_hold_and_are_reported() -> None:
    graph, explorer = breadth_first("Shop", limits=Limits(pages=5))
    assert len(graph.pages) == 5 and explorer.report.dropped["the limit on pages"] and not graph.unreachable()
    graph, explorer = breadth_first("Shop", limits=Limits(actions=20))
    assert explorer.report.actions == 20 and any("limit on actions" in reason for reason in explorer.report.dropped)
    graph, _ = breadth_first("Shop", limits=Limits(depth=1))
    assert max(len(path) for path in graph.paths("Shop").values()) == 1
    with pytest.raises(ValueError, match="at least 1"):
        Limits(depth=0)


def test_elements_alike_are_tried_at_even_distances() -> None:
    keys = [PageAction("click", str(i), (i, 0, i + 1, 1)) for i in range(24)]
    assert [a.name for a in spread(keys, 4)] == ["0", "7", "15", "23"]
    assert spread(keys[:3], 4) == keys[:3] and spread(keys, 1) == keys[:1]


def test_apps_are_joined_by_the_edges_between_them() -> None:
    graph, explorer = breadth_first("Notes", "Home")
    tile = next(a for a in graph.pages["Home0"].actions if a.name == "Notes")
    assert graph.edges["Home0"][tile] == "Notes0" and graph.edges["Notes0"][BACK] == "Home0"
    assert explorer.report.dropped["another app's page"] == 11, "the tiles of the apps that were not explored"


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
    assert explorer.report.dropped["page not explored to the end: the way to it is lost"]
    assert all("does not lead there any more" in fault.reason for fault in explorer.report.faults)
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


def test_an_app_that_does_not_come_up_is_refused() -> None:
    phone = Phone(tuple(a.__class__ for a in phone_device()[0].apps.values()))
    device = Device(InProcessTransport(phone), APP_NAMES)
    states = Snapshots(phone, device, SEED)
    with pytest.raises(InfraError, match="no app called 'Chess'"):
        Explorer(device, states, {"Chess": "org.chess"}).breadth_first("Chess")
    with pytest.raises(InfraError, match="Notes does not come up: the screen shows com.android.notes"):
        Explorer(device, states, {"Notes": "org.other.notes"}).breadth_first("Notes")
    with pytest.raises(ValueError, match="no package is known"):
        Explorer(device, states, {}).breadth_first("Notes")
