"""Tasks from a page graph: golden flows, names, drops, and no leak from training into the test."""

from __future__ import annotations

from dataclasses import replace

import pytest
from page_graphs import TYPED, click, graph_of, phone_explorer, succeeds

from mobilerl.reachagent.actions import BACK, COMPLETE
from mobilerl.reachagent.exploration import explore, survey
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.identity import Abstraction
from mobilerl.reachagent.rewards import Goal, Operate, Reach, golden_flow
from mobilerl.reachagent.tasks import TaskSet, check_no_leak, make_tasks

APPS = ("Contacts", "Notes", "Clock")
WALKS = 60


@pytest.fixture(scope="module")
def graph() -> PageGraph:
    abstraction = survey([phone_explorer(seed) for seed in (1, 2, 3)], APPS, 120)
    return explore(phone_explorer(1, abstraction), APPS)


@pytest.fixture(scope="module")
def tasks(graph: PageGraph) -> TaskSet:
    return make_tasks(graph, WALKS)


def test_every_flow_is_golden_and_every_step_is_told(graph: PageGraph, tasks: TaskSet) -> None:
    for task in tasks.train + tasks.test:
        assert len(task.pages) == len(task.actions)
        assert task.actions[-1] == COMPLETE and COMPLETE not in task.actions[:-1]
        assert len(task.actions) == len(golden_flow(graph, task.goal) or ())
        for page, action, after in zip(task.pages, task.actions, task.pages[1:], strict=False):
            assert action.slot in graph.pages[page].actions and graph.target(page, action) == after
    navigation = [t for t in tasks.train + tasks.test if t.kind == "navigation"]
    assert {len(t.actions) for t in navigation} <= set(range(3, 11)) and len({len(t.actions) for t in navigation}) > 2


def test_doing_what_a_navigation_instruction_says_meets_its_goal() -> None:
    """A field behind either of two pages, and a goal that demands the page which is not on the first way to it."""
    charts, browse, find = click("Charts", 1), click("Browse", 2), click("Find", 3)
    edges = {
        "A": {charts: "C", browse: "B"},
        "B": {find: "S", BACK: "A"},
        "C": {find: "S", BACK: "A"},
        "S": {TYPED: "T", BACK: "B"},
        "T": {BACK: "B"},
    }
    titles = {"A": "App", "B": "Browse", "C": "Charts", "S": "Search view", "T": "Search view"}
    graph = graph_of(edges, titles)
    graph.abstraction = Abstraction(titles=frozenset(("", title) for title in titles.values()))
    goal = Goal("A", (Operate("s", TYPED), Reach("b")))
    made = make_tasks(graph, walks=50)
    task = next(t for t in made.train + made.test if t.goal == goal)
    assert task.instruction.endswith("Browse") and "Search view" not in task.instruction
    assert task.actions == (browse, find, TYPED, COMPLETE)
    assert succeeds(graph, task, task.actions)
    assert not succeeds(graph, task, (charts, find, TYPED, COMPLETE)), "it visits the search view, and not Browse"


def test_nothing_is_in_the_data_twice_and_the_test_is_split_by_page(tasks: TaskSet) -> None:
    keys = [key for task in tasks.train + tasks.test for key in task.keys()]
    assert len(keys) == len(set(keys))
    check_no_leak(tasks.train, tasks.test)
    places = [
        {(t.app, t.goal.subtasks[-1]) for t in side if t.kind == "navigation"} for side in (tasks.test, tasks.train)
    ]
    assert not places[0] & places[1]
    assert len(places[0]) / len(places[0] | places[1]) == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize("shared", ["instruction", "goal", "pages", "actions"])
def test_a_leak_is_found(tasks: TaskSet, shared: str) -> None:
    """One thing in common is enough."""
    held = tasks.test[0]
    trained = next(t for t in tasks.train if t.app == held.app)
    with pytest.raises(ValueError, match=f"leak: the test task {held.id} .* training task {trained.id}"):
        check_no_leak([replace(trained, **{shared: getattr(held, shared)})], [held])
