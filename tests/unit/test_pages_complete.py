"""The page graph of the embedded phone's apps: every page that the scripted experts visit, by shortest paths."""

from __future__ import annotations

from collections import Counter

import pytest
from page_graphs import SEED, phone_device, phone_explorer, sell_out

from envs.phone.env import APP_NAMES, PhoneEnv
from envs.phone.tasks.expert import ExpertAgent
from envs.phone.tasks.suite import HELD_OUT_SEEDS, make_task, templates
from sft.pages.explore import explore, survey
from sft.pages.graph import PageGraph
from sft.pages.identity import ANY, shape_of
from sft.pages.states import open_app, play

APPS = (*[app for app in APP_NAMES if app != "Home"], "Home")
PHONES = range(SEED, SEED + 5)
WALK = 150
"""Random actions in every app of every phone, to learn which texts are contents."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def graph() -> PageGraph:
    abstraction = survey([phone_explorer(seed) for seed in PHONES], APPS, WALK)
    explorer = phone_explorer(SEED, abstraction)
    made = explore(explorer, APPS)
    assert not explorer.report.faults and not explorer.report.dropped
    return made


@pytest.mark.parametrize("first_seed", [0, HELD_OUT_SEEDS])
async def test_every_page_that_the_experts_visit_is_in_the_graph(graph: PageGraph, first_seed: int) -> None:
    known, missing = graph.identities(), Counter()
    env = PhoneEnv(screenshots=False)
    for template in templates():
        for seed in range(first_seed, first_seed + 3):
            task = make_task(template.__name__, seed)
            observation, done = await env.reset(task), False
            expert = ExpertAgent(env.template)
            while not done:
                shape = shape_of(observation.xml)
                if graph.abstraction.identity(shape) not in known:
                    missing[template.__name__, shape.package, shape.title] += 1
                result = await env.step(expert.act(observation))
                observation, done = result.observation, result.done
    assert not missing


def test_pages_that_people_tell_apart_are_told_apart_and_contents_are_not(graph: PageGraph) -> None:
    titles: dict[str, set[str]] = {}
    for page in graph.pages.values():
        titles.setdefault(page.identity, set()).add(page.title)
    named = {title for ts in titles.values() for title in ts if len(ts) == 1}
    assert {"Sound", "Battery", "Location", "Connected devices", "Select hour", "Select minutes", "Checkout"} <= named
    views = [page for page in graph.pages.values() if page.app == "Contacts" and "Message" in page.xml]
    assert len({page.identity for page in views}) == 2, "a contact that is a favourite, and one that is not"
    assert graph.abstraction.title(shape_of(views[0].xml)) == ANY


def test_paths_are_the_shortest_by_another_method(graph: PageGraph) -> None:
    for app in APPS:
        paths = graph.paths(app)
        assert relaxed(graph, app) == {page: len(path) for page, path in paths.items()}


def relaxed(graph: PageGraph, app: str) -> dict[str, int]:
    """Distances from an app's home by relaxing all edges until nothing changes (Bellman and Ford)."""
    distance = {graph.homes[app]: 0}
    while True:
        shorter = {
            target: distance[source] + 1
            for source, _, target in graph.triples()
            if source in distance and distance[source] + 1 < distance.get(target, len(graph.pages))
        }
        if not shorter:
            return distance
        distance |= shorter


def test_golden_paths_lead_there_on_a_fresh_phone(graph: PageGraph) -> None:
    phone, device = phone_device()
    wrong = []
    for app in APPS:
        for page, path in graph.paths(app).items():
            if graph.pages[page].app != app:
                continue
            phone.reset(SEED)
            sell_out(device)
            open_app(device, app)
            for action in path:
                play(device, action)
            if graph.abstraction.identity(shape_of(device.dump_xml())) != graph.pages[page].identity:
                wrong.append(page)
    assert not wrong and not graph.unreachable()
