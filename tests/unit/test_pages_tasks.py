"""Tasks from a page graph: golden flows, names, drops, and no leak from training into the test."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from page_graphs import LIST, OPEN, TYPED, click, graph_of, phone_explorer, small_graph

from sft.pages.actions import BACK, COMPLETE, PageAction
from sft.pages.explore import explore, survey
from sft.pages.flows import TaskSettings
from sft.pages.graph import PageGraph
from sft.pages.identity import Abstraction
from sft.pages.metrics import succeeds
from sft.pages.naming import Names, told
from sft.pages.rewards import Goal, Operate, Reach, golden_flow
from sft.pages.tasks import PageTask, TaskSet, check_no_leak, make_tasks

APPS = ("Contacts", "Notes", "Clock")
SETTINGS = TaskSettings(walks=60)


@pytest.fixture(scope="module")
def graph() -> PageGraph:
    abstraction = survey([phone_explorer(seed) for seed in (1, 2, 3)], APPS, 120)
    return explore(phone_explorer(1, abstraction), APPS)


@pytest.fixture(scope="module")
def tasks(graph: PageGraph) -> TaskSet:
    return make_tasks(graph, SETTINGS)


def test_every_flow_is_golden_and_every_step_is_told(graph: PageGraph, tasks: TaskSet) -> None:
    for task in tasks.train + tasks.test:
        assert len(task.pages) == len(task.actions) == len(task.description)
        assert task.actions[-1] == COMPLETE and COMPLETE not in task.actions[:-1]
        assert len(task.actions) == len(golden_flow(graph, task.goal) or ())
        for page, action, after in zip(task.pages, task.actions, task.pages[1:], strict=False):
            assert action.slot in graph.pages[page].actions and graph.target(page, action) == after
    navigation = [t for t in tasks.train + tasks.test if t.kind == "navigation"]
    assert {len(t.actions) for t in navigation} <= set(range(3, 11)) and len({len(t.actions) for t in navigation}) > 2


def test_the_three_kinds_of_tasks(tasks: TaskSet) -> None:
    for task in tasks.train + tasks.test:
        kinds = Counter(type(s) for s in task.goal.subtasks)
        if task.kind == "reaching":
            assert kinds == {Reach: 1}
        elif task.kind == "operation":
            assert kinds == {Operate: 1} and isinstance(operation := task.goal.subtasks[0], Operate)
            assert task.actions[-2] == operation.action, "the flow ends with the operation"
        else:
            assert kinds[Reach] == 1
    assert {"navigation", "reaching", "operation"} == {t.kind for t in tasks.train}


def _names_demanded(graph: PageGraph, task: PageTask) -> bool:
    """Whether a navigation task's instruction names the page of its goal, as an action of its flow leads there."""
    wanted = next(s.identity for s in task.goal.subtasks if isinstance(s, Reach))
    ways = [(graph.pages[page], action) for page, action in zip(task.pages[1:], task.actions, strict=False)]
    known = Names(graph)
    names = [known.page(page, action).casefold() for page, action in ways if page.identity == wanted]
    instruction = task.instruction.casefold()
    if len(task.goal.subtasks) == 1:  # of these templates some have the name in front
        return any(name in instruction for name in names)
    return any(instruction.endswith(name) for name in names)


@pytest.mark.parametrize("seed", range(3))
def test_navigation_names_the_page_that_its_goal_demands(graph: PageGraph, seed: int) -> None:
    """Subtasks may be done in any order, so a flow can pass that page early and end on another one."""
    made = make_tasks(graph, replace(SETTINGS, seed=seed))
    navigation = [t for t in made.train + made.test if t.kind == "navigation"]
    ends = [Reach(graph.pages[t.pages[-1]].identity) in t.goal.subtasks for t in navigation]
    assert not all(ends), "some flows end on another page"
    assert [t.instruction for t in navigation if not _names_demanded(graph, t)] == []
    assert not any(Reach(graph.pages[t.goal.start].identity) in t.goal.subtasks for t in navigation)


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
    made = make_tasks(graph, TaskSettings(walks=50))
    task = next(t for t in made.train + made.test if t.goal == goal)
    assert task.instruction.endswith("Browse") and "Search view" not in task.instruction
    assert task.actions == (browse, find, TYPED, COMPLETE)
    assert succeeds(graph, goal, task.actions)
    assert not succeeds(graph, goal, (charts, find, TYPED, COMPLETE)), "it visits the search view, and not Browse"


def test_the_same_seed_gives_the_same_tasks_and_another_one_others(graph: PageGraph, tasks: TaskSet) -> None:
    assert make_tasks(graph, SETTINGS) == tasks
    assert make_tasks(graph, replace(SETTINGS, seed=1)).train != tasks.train


def test_nothing_is_in_the_data_twice_and_the_test_is_split_by_flow(tasks: TaskSet) -> None:
    keys = [key for task in tasks.train + tasks.test for key in task.keys()]
    assert len(keys) == len(set(keys))
    check_no_leak(tasks.train, tasks.test)
    flows = [sum(t.kind == "navigation" for t in side) for side in (tasks.test, tasks.train)]
    assert flows[0] / sum(flows) == pytest.approx(0.05, abs=0.03)


@pytest.mark.parametrize("shared", ["instruction", "goal", "pages", "actions"])
def test_a_leak_is_found(tasks: TaskSet, shared: str) -> None:
    """One thing in common is enough."""
    held = tasks.test[0]
    trained = next(t for t in tasks.train if t.app == held.app)
    with pytest.raises(ValueError, match=f"leak: the test task {held.id} .* training task {trained.id}"):
        check_no_leak([replace(trained, **{shared: getattr(held, shared)})], [held])


def test_page_names_in_order() -> None:
    graph = small_graph()
    graph.abstraction = Abstraction(titles=frozenset({("", "News"), ("", "Edit"), ("", "App")}))
    names = Names(graph)
    assert names.page(graph.pages["N"], PageAction("click", "Latest", (0, 0, 9, 9))) == "News", "the title"
    graph.pages["N"] = replace(graph.pages["N"], title="")
    assert Names(graph).page(graph.pages["N"], PageAction("click", "Latest", (0, 0, 9, 9))) == "Latest"
    typed = PageAction("input", "Search", (0, 0, 9, 9), text="milk")
    assert Names(graph).page(graph.pages["N"], typed) == "milk"
    # "List" is no title of a page's own (contents): neither it nor what led there may name the page.
    assert names.page(graph.pages["L"], LIST) == "the page of App"


def test_a_name_that_many_pages_bear_is_not_used() -> None:
    graph = small_graph()
    graph.abstraction = Abstraction(titles=frozenset({("", "Same")}))
    for page in graph.pages.values():
        graph.pages[page.id] = replace(page, title="Same")
    assert Names(graph).page(graph.pages["N"], None) == "the page Same of App"
    assert Names(graph).page(graph.pages["E"], OPEN) == "Open"


def test_a_step_without_a_name_cannot_be_told() -> None:
    rng = random.Random(0)
    assert told(PageAction("click", "", (0, 0, 9, 9)), rng) is None
    assert "buy milk" in (told(TYPED, rng) or "") and "Title" in (told(TYPED, rng) or "")


def test_flows_that_cannot_be_used_are_counted(tasks: TaskSet) -> None:
    graph = small_graph()
    made = make_tasks(graph, TaskSettings(walks=30))
    assert made.dropped["flow: too short or too long"] and made.dropped["flow: it begins on the page to visit"]
    assert tasks.dropped["flow: path or actions known"]
    with pytest.raises(ValueError, match="two are needed"):
        make_tasks(graph, TaskSettings(walks=30, steps=(9, 10)))
