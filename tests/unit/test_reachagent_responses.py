"""Our agent on a page graph: `input` as two responses, golden flows as rows, pairs of responses, and what is
evaluated."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from mobilerl.config import ConfigError, PagesSection
from mobilerl.envs.base import Tap, Type
from mobilerl.models import tiny
from mobilerl.models.codec import Codec
from mobilerl.policy.context import ContextPolicy
from mobilerl.reachagent.actions import BACK, COMPLETE, PageAction, action_space
from mobilerl.reachagent.agent import PageAgent, Query, Scenes, episode_task
from mobilerl.reachagent.collect import page_tasks
from mobilerl.reachagent.evaluation import evaluate, outcomes, walk
from mobilerl.reachagent.graph import Page, PageGraph, Seen
from mobilerl.reachagent.pairs import preference_pairs
from mobilerl.reachagent.responses import ResponseWriter, flow_samples, touches
from mobilerl.reachagent.rewards import Goal, Operate, Reach
from mobilerl.reachagent.tasks import PageTask
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling

CONTEXT = ContextPolicy(screenshots=1, history_thoughts=False, screen_style="marks", grounding="mark", layout="compact")
SIZE = (360, 720)
LIST, FORM, TYPED = "List", "Form", "Form typed"


def node(cls: str, at: int, text: str = "", hint: str = "", **flags: bool) -> str:
    """A node 360 wide and 80 high, the `at`-th from the top."""
    given = " ".join(f'{name}="{str(value).lower()}"' for name, value in flags.items()).replace("_", "-")
    return (
        f'<node class="android.widget.{cls}" text="{text}" hint="{hint}" {given} enabled="true" '
        f'bounds="[0,{80 * at}][360,{80 * at + 80}]"/>'
    )


def dump(*nodes: str) -> str:
    return f'<hierarchy rotation="0">{"".join(nodes)}</hierarchy>'


def button(at: int, text: str) -> str:
    return node("Button", at, text, clickable=True)


def field(at: int, text: str, focused: bool = False) -> str:
    return node("EditText", at, text or "Title", hint="Title", clickable=True, focusable=True, focused=focused)


SCREENS = {
    LIST: dump(button(0, "News"), button(1, "New"), node("ScrollView", 5, scrollable=True)),
    FORM: dump(button(0, "Save"), field(2, "")),
    TYPED: dump(button(0, "Save"), field(2, "milk", focused=True)),
}


@pytest.fixture(scope="module")
def graph() -> PageGraph:
    """List -New-> Form -Title-> Form typed -Save-> List."""
    from mobilerl.policy.screen import parse_screen
    from mobilerl.reachagent.identity import field_hints

    made = PageGraph(*SIZE, {"App": LIST})
    for name, xml in SCREENS.items():
        space = action_space(parse_screen(xml, *SIZE), field_hints(xml, *SIZE))
        made.add_page(Page(name, "App", name.split()[0], name, Seen(xml, b"", space)))
    for source, action, target in (
        (LIST, named(made, LIST, "New"), FORM),
        (FORM, typed(made, "milk"), TYPED),
        (TYPED, named(made, TYPED, "Save"), LIST),
        (FORM, BACK, LIST),
        (LIST, named(made, LIST, "News"), LIST),
    ):
        made.add_edge(source, action, target)
    return made


def named(graph: PageGraph, page: str, name: str, kind: str = "click") -> PageAction:
    return next(a for a in graph.pages[page].actions if a.name == name and a.kind == kind)


def typed(graph: PageGraph, text: str, page: str = FORM) -> PageAction:
    return replace(named(graph, page, "Title", "input"), text=text)


@pytest.fixture(scope="module")
def task(graph) -> PageTask:
    flow = (named(graph, LIST, "New"), typed(graph, "milk"), COMPLETE)
    goal = Goal(LIST, (Operate("Form", typed(graph, "milk")), Reach("Form")))
    return PageTask("App/navigation/1", "navigation", "App", "Write milk", goal, (LIST, FORM, TYPED), flow)


@pytest.fixture(scope="module")
def codec(tmp_path_factory) -> Codec:
    path = tmp_path_factory.mktemp("tiny")
    tiny.create(
        path,
        ["app App news New News Save Title milk bread tap type finish field focused history Write list"],
        hidden=32,
        layers=1,
        heads=2,
        vision_hidden=16,
    )
    return Codec.load(path)


class Script:
    """A policy that responses by the page: its last lines of text are what it sees. Counts its questions."""

    def __init__(self, codec: Codec, responses: dict[str, str]) -> None:
        self.codec, self.responses, self.prompts = codec, responses, []

    def expect(self, episodes) -> None:
        pass

    async def act(self, messages, images, sampling, key="") -> Completion:
        text = messages[-1]["content"][-1]["text"]
        self.prompts.append(text)
        page = (
            "typed" if "milk<2>" in text else "focused" if "focused" in text else "form" if "Save" in text else "list"
        )
        response = f"<answer>{self.responses[page]}</answer>"
        return Completion((), self.codec.encode_response(response), (), 0, response)


GOLDEN = {
    "list": 'do(action="Tap", element=<2>)',
    "form": 'do(action="Tap", element=<2>)',
    "focused": 'do(action="Type", text="milk")',
    "typed": 'finish(message="")',
}


def agent_of(graph: PageGraph, codec: Codec, **responses: str) -> PageAgent:
    return PageAgent(Script(codec, GOLDEN | responses), Scenes(graph), CONTEXT, Sampling(0.0, 16))


def query(graph: PageGraph, task: PageTask, page: str) -> Query:
    return Query(episode_task(task), page)


# --- what responses mean -------------------------------------------------------------------------------------------


def test_a_tap_on_a_field_and_typing_are_one_input(graph, codec, task):
    agent = agent_of(graph, codec)
    (decided,) = agent.decide([query(graph, task, FORM)])
    assert decided.action == typed(graph, "milk") and len(decided.responses) == 2
    assert [turn.summary for turn in decided.turns] == ["tap Title", "type milk"]
    first, second = agent.policy.prompts
    assert "focused" not in first and "Title<2> field focused" in second and "tap Title" in second


def test_a_tap_on_a_field_without_typing_is_a_click(graph, codec, task):
    agent = agent_of(graph, codec, focused='do(action="Back")')
    (decided,) = agent.decide([query(graph, task, FORM)])
    assert decided.action == named(graph, FORM, "Title") and len(decided.turns) == 1 and len(decided.responses) == 2


# --- rows --------------------------------------------------------------------------------------------------------


def test_a_golden_flow_as_samples(graph, task):
    writer = ResponseWriter(Scenes(graph), CONTEXT)
    rows = [written for _, responses in writer.flow(task) for written in responses]
    assert [w.write_response(CONTEXT) for w in rows] == [
        '<think>tap New<2></think><answer>do(action="Tap", element=<2>)</answer>',
        '<think>tap Title<2></think><answer>do(action="Tap", element=<2>)</answer>',
        '<think>type milk</think><answer>do(action="Type", text="milk")</answer>',
        '<think>finish</think><answer>finish(message="")</answer>',
    ]
    assert [t.summary for t in rows[-1].step.turns] == ["tap New", "tap Title", "type milk"]
    prompts = [w.step.messages(CONTEXT)[0][-1]["content"][-1]["text"] for w in rows]
    assert "milk<2>" in prompts[3] and all(p.endswith("Write milk\n") for p in prompts)


def test_the_agent_is_asked_what_it_was_taught(graph, codec, task):
    """The prompts of training and of evaluation are the same, character for character."""
    writer = ResponseWriter(Scenes(graph), CONTEXT)
    taught = [w.step.messages(CONTEXT)[0][-1]["content"][-1]["text"] for _, ws in writer.flow(task) for w in ws]
    agent = agent_of(graph, codec)
    walk(graph, [task], agent)
    assert agent.policy.prompts == taught


def test_without_alignment_touches_are_not_at_the_centre(graph, codec, task):
    context = replace(CONTEXT, grounding="point")
    writer = ResponseWriter(Scenes(graph), context)

    def texts(aligned: bool) -> list[str]:
        samples = list(flow_samples(writer, [task], codec, aligned, 0, Counter()))
        return [codec.decode(sample.response_ids) for sample in samples]

    aligned, loose = texts(True), texts(False)
    x, y = named(graph, LIST, "New").centre
    assert f"element=[{x},{y}]" in aligned[0]
    assert len(loose) == len(aligned) == 4 and loose[0] != aligned[0] and loose[1] != aligned[1]
    assert loose[2:] == aligned[2:], "typing and finishing touch nothing"
    for seed in range(50):
        (tap,) = touches(named(graph, LIST, "New"), random.Random(seed))
        x1, y1, x2, y2 = named(graph, LIST, "New").box
        assert isinstance(tap, Tap) and x1 <= tap.x <= x2 and y1 <= tap.y <= y2
    scroll = next(a for a in graph.pages[LIST].actions if a.kind == "scroll" and a.direction == "up")
    assert len({touches(scroll, random.Random(seed)) for seed in range(9)}) == 9
    assert touches(typed(graph, "milk"), random.Random(1))[1] == Type("milk")


# --- pairs -------------------------------------------------------------------------------------------------------


def pairs_of(graph, codec, task, **responses):
    writer = ResponseWriter(Scenes(graph), CONTEXT)
    counts: Counter[str] = Counter()
    made = preference_pairs(graph, [task], agent_of(graph, codec, **responses), writer, codec, 0, counts)
    return {
        int(p.id.rpartition("/")[2]): (p.note["source"], codec.decode(p.chosen_ids), codec.decode(p.rejected_ids))
        for p in made
    }, counts


def said(call: str) -> str:
    return f"<answer>{call}</answer>"


def test_what_the_agent_said_is_rejected_as_it_said_it(graph, codec, task):
    made, counts = pairs_of(graph, codec, task, list='do(action="Tap", element=<1>)', form="tapp")
    assert made[0] == (
        "agent",
        f"<think>tap New<2></think>{said(GOLDEN['list'])}",
        said('do(action="Tap", element=<1>)'),
    )
    assert made[1] == ("agent", f"<think>tap Title<2></think>{said(GOLDEN['form'])}", said("tapp"))
    assert counts["agent"] == 2 and counts["random"] == 1 and counts["agent: not an action of the page"] == 1


# --- metrics -----------------------------------------------------------------------------------------------------


def evaluated(graph, codec, task, **responses):
    writer = ResponseWriter(Scenes(graph), CONTEXT)
    return evaluate(graph, [task], agent_of(graph, codec, **responses), writer, {"model": "script"})


def test_a_golden_agent_has_everything_right(graph, codec, task):
    results = evaluated(graph, codec, task)
    assert results["success_rate"] == 1.0 and results["suite"] == "pages"
    assert results["accuracy"] == {
        "step_iou": 1.0,
        "step_text": 1.0,
        "task_iou": 1.0,
        "task_text": 1.0,
        "steps": 3,
        "tasks": 1,
    }


def test_single_steps_are_asked_on_the_golden_flow_and_success_on_the_agents_own(graph, codec, task):
    """It takes the wrong button on the first page, where it stays then; from any other page it is right."""
    results = evaluated(graph, codec, task, list='do(action="Tap", element=<1>)')
    assert results["flows"]["App/navigation/1"]["text"] == [False, True, True]
    assert results["success_rate"] == 0.0 and results["instances"][0]["steps"] == 15
    assert outcomes(results, "task_text") == {"pages/App/navigation/1": [0.0]}


def test_responses_that_cannot_be_read_are_counted(graph, codec, task):
    invalid = evaluated(graph, codec, task, form="tapp")["invalid_replies"]
    assert invalid["count"] == invalid["reasons"]["malformed"]["count"] >= 1 and 0 < invalid["rate"] < 1
    assert "tapp" in invalid["reasons"]["malformed"]["first"]


# --- sets and bad input ------------------------------------------------------------------------------------------


def test_a_graph_without_tasks_is_an_error_of_one_line(graph, tmp_path):
    few = PageGraph(graph.width, graph.height, dict(graph.homes))
    few.add_page(graph.pages[LIST])
    with pytest.raises(ConfigError, match="no tasks can be made: .*; explore more"):
        page_tasks(few, PagesSection(), 0, tmp_path, print)
