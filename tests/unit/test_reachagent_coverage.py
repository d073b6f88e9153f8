"""The page graph of the embedded phone's apps: every page that the scripted experts visit, by shortest paths."""

from __future__ import annotations

from collections import Counter

import pytest
from page_graphs import SEED, phone_explorer

from mobilerl.envs.phone.apps.catalogue import APP_NAMES
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.expert import ExpertAgent
from mobilerl.envs.phone.tasks.suite import HELD_OUT_SEEDS, make_task, templates
from mobilerl.reachagent.exploration import explore, survey
from mobilerl.reachagent.graph import PageGraph
from mobilerl.reachagent.identity import shape_of

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
    assert not explorer.dropped
    return made


@pytest.mark.parametrize("first_seed", [0, HELD_OUT_SEEDS])
async def test_every_page_that_the_experts_visit_is_in_the_graph(graph: PageGraph, first_seed: int) -> None:
    known: set[str] = {page.identity for page in graph.pages.values()}
    missing: Counter[tuple[str, str, str]] = Counter()
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
