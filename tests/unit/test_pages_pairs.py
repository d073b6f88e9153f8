"""Preference pairs: the agent's own action where it is worse, else a random worse one; one per step."""

from __future__ import annotations

from page_graphs import LIST, NEWS, OPEN, SAVE, TYPED, small_graph

from sft.pages.actions import BACK, COMPLETE, PageAction
from sft.pages.pairs import Prompt, make_pairs, prompts
from sft.pages.rewards import Goal, Level, Operate, Reach
from sft.pages.tasks import PageTask

GRAPH = small_graph()
TASK = PageTask(
    "App/navigation/1", "navigation", "App", "See the list and type a title", ("", "", "", ""),
    Goal("A", (Reach("l"), Operate("e", TYPED))), ("A", "L", "E", "T"), (LIST, OPEN, TYPED, COMPLETE),
)  # fmt: skip


def test_the_agents_worse_actions_are_rejected() -> None:
    own = {"A": NEWS, "L": OPEN, "E": BACK, "T": SAVE}
    pairs, counts = make_pairs(GRAPH, [TASK], lambda prompt: own[prompt.page])
    assert [p.chosen for p in pairs] == [LIST, OPEN, TYPED, COMPLETE]
    assert [p.source for p in pairs] == ["agent", "random", "agent", "agent"]
    assert [p.rejected for p in pairs if p.source == "agent"] == [NEWS, BACK, SAVE]
    assert all(p.chosen_level is Level.GOLDEN > p.rejected_level for p in pairs)
    assert counts == {"agent": 3, "random": 1, "agent: unreadable": 0}


def test_an_equally_good_action_is_not_rejected() -> None:
    pairs, _ = make_pairs(GRAPH, [TASK], lambda prompt: OPEN if prompt.page == "A" else None)
    first = pairs[0]
    assert first.source == "random" and first.rejected not in (OPEN, LIST), "both begin a shortest flow"


def test_an_action_that_the_page_does_not_offer_is_invalid_and_rejected() -> None:
    pairs, _ = make_pairs(GRAPH, [TASK], lambda prompt: PageAction("click", "Nothing", (1, 1, 2, 2)))
    assert {p.rejected_level for p in pairs} == {Level.INVALID} and {p.source for p in pairs} == {"agent"}


def test_random_actions_are_seeded_and_come_from_the_action_space() -> None:
    draws = [tuple(p.rejected for p in make_pairs(GRAPH, [TASK], lambda prompt: None, seed)[0]) for seed in range(20)]
    again = [tuple(p.rejected for p in make_pairs(GRAPH, [TASK], lambda prompt: None, seed)[0]) for seed in range(20)]
    assert draws == again and len(set(draws)) > 5
    for drawn in draws:
        for page, action in zip(TASK.pages, drawn, strict=True):
            assert action.slot in GRAPH.pages[page].actions
    assert make_pairs(GRAPH, [TASK], lambda prompt: None)[1]["agent: unreadable"] == 4


def test_prompts_hold_the_page_and_what_came_before() -> None:
    second = prompts(GRAPH, TASK)[1]
    assert second == Prompt(
        TASK.id, TASK.instruction, "L", "<L/>", b"", 360, 720, GRAPH.pages["L"].actions, (LIST,)
    )  # fmt: skip
