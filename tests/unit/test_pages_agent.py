"""Our agent on a page graph: `input` as two replies, golden flows as rows, pairs of replies, and what is evaluated."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from envs.base import Tap, Type
from mobilerl import tiny
from mobilerl.agent.context import ContextPolicy
from mobilerl.config import ConfigError, PagesSection, PhoneSection
from mobilerl.engines.base import Sampling
from mobilerl.engines.codec import Codec
from mobilerl.records import Completion
from sft.pages.actions import BACK, COMPLETE, PageAction, action_space
from sft.pages.agent import PageAgent, Place, Scenes, episode_task
from sft.pages.collect import page_graph, page_tasks, trained_on
from sft.pages.evaluation import evaluate, outcomes, table, walk
from sft.pages.graph import Page, PageGraph
from sft.pages.preferences import preference_pairs
from sft.pages.rewards import Goal, Operate, Reach
from sft.pages.tasks import PageTask
from sft.pages.writing import UNKNOWN_WORDS, Writer, flow_samples, touches

CONTEXT = ContextPolicy(screenshots=1, history_thoughts=False, screen_style="marks", grounding="mark", layout="compact")
SIZE = (360, 720)
LIST, FORM, TYPED = "List", "Form", "Form typed"


def node(cls: str, at: int, text: str = "", hint: str = "", **flags: bool) -> str:
    """A node 360 wide and 80 high, the `at`-th from the top."""
    given = " ".join(f'{name}="{str(value).lower()}"' for name, value in flags.items()).replace("_", "-")
    return (f'<node class="android.widget.{cls}" text="{text}" hint="{hint}" {given} enabled="true" '
            f'bounds="[0,{80 * at}][360,{80 * at + 80}]"/>')  # fmt: skip


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
    from mobilerl.agent.screen import parse_screen
    from sft.pages.identity import field_hints

    made = PageGraph(*SIZE, {"App": LIST})
    for name, xml in SCREENS.items():
        space = action_space(parse_screen(xml, *SIZE), field_hints(xml, *SIZE))
        made.add_page(Page(name, "App", name.split()[0], name, xml, b"", space))
    for source, action, target in ((LIST, named(made, LIST, "New"), FORM), (FORM, typed(made, "milk"), TYPED),
                                   (TYPED, named(made, TYPED, "Save"), LIST), (FORM, BACK, LIST),
                                   (LIST, named(made, LIST, "News"), LIST)):  # fmt: skip
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
    return PageTask(
        "App/navigation/1", "navigation", "App", "Write milk", ("", "", ""), goal, (LIST, FORM, TYPED), flow
    )


@pytest.fixture(scope="module")
def codec(tmp_path_factory) -> Codec:
    path = tmp_path_factory.mktemp("tiny")
    tiny.create(path, ["app App news New News Save Title milk bread tap type finish field focused history Write list"],
                hidden=32, layers=1, heads=2, vision_hidden=16)  # fmt: skip
    return Codec.load(path)


class Script:
    """A policy that replies by the page: its last lines of text are what it sees. Counts its questions."""

    def __init__(self, codec: Codec, replies: dict[str, str]) -> None:
        self.codec, self.replies, self.prompts = codec, replies, []

    async def act(self, messages, images, sampling, key="") -> Completion:
        text = messages[-1]["content"][-1]["text"]
        self.prompts.append(text)
        page = (
            "typed" if "milk<2>" in text else "focused" if "focused" in text else "form" if "Save" in text else "list"
        )
        reply = f"<answer>{self.replies[page]}</answer>"
        return Completion((), self.codec.encode_reply(reply), (), 0, reply)


GOLDEN = {
    "list": 'do(action="Tap", element=<2>)', "form": 'do(action="Tap", element=<2>)',
    "focused": 'do(action="Type", text="milk")', "typed": 'finish(message="")',
}  # fmt: skip


def agent_of(graph: PageGraph, codec: Codec, **replies: str) -> PageAgent:
    return PageAgent(Script(codec, GOLDEN | replies), Scenes(graph), CONTEXT, Sampling(0.0, 16))


def place(graph: PageGraph, task: PageTask, page: str) -> Place:
    return Place(episode_task(task), page)


# --- what replies mean -------------------------------------------------------------------------------------------


def test_a_tap_on_a_field_and_typing_are_one_input(graph, codec, task):
    agent = agent_of(graph, codec)
    (decided,) = agent.decide([place(graph, task, FORM)])
    assert decided.action == typed(graph, "milk") and len(decided.said) == 2
    assert [turn.summary for turn in decided.turns] == ["tap Title", "type milk"]
    first, second = agent.policy.prompts
    assert "focused" not in first and "Title<2> field focused" in second and "tap Title" in second


def test_a_tap_on_a_field_without_typing_is_a_click(graph, codec, task):
    agent = agent_of(graph, codec, focused='do(action="Back")')
    (decided,) = agent.decide([place(graph, task, FORM)])
    assert decided.action == named(graph, FORM, "Title") and len(decided.turns) == 1 and len(decided.said) == 2


def test_typing_needs_a_field_with_the_focus(graph, codec, task):
    typing = 'do(action="Type", text="milk")'
    agent = agent_of(graph, codec, form=typing, typed=typing)
    without, with_focus = agent.decide([place(graph, task, FORM), place(graph, task, TYPED)])
    assert without.action is None and with_focus.action == typed(graph, "milk", TYPED)


def test_what_no_page_offers_is_no_action(graph, codec, task):
    agent = agent_of(graph, codec, list='do(action="Home")', form="nonsense")
    assert [d.action for d in agent.decide([place(graph, task, p) for p in (LIST, FORM)])] == [None, None]


# --- rows --------------------------------------------------------------------------------------------------------


def test_a_golden_flow_as_rows(graph, task):
    writer = Writer(Scenes(graph), CONTEXT, thoughts=True)
    rows = [written for _, replies in writer.flow(task) for written in replies]
    assert [w.reply(CONTEXT) for w in rows] == [
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
    writer = Writer(Scenes(graph), CONTEXT, thoughts=False)
    taught = [w.step.messages(CONTEXT)[0][-1]["content"][-1]["text"] for _, ws in writer.flow(task) for w in ws]
    agent = agent_of(graph, codec)
    walk(graph, [task], agent)
    assert agent.policy.prompts == taught


def test_without_alignment_touches_are_not_at_the_centre(graph, codec, task):
    context = replace(CONTEXT, grounding="point")
    writer = Writer(Scenes(graph), context, thoughts=False)

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


def test_words_that_the_checkpoint_cannot_spell_are_counted(graph, codec, task):
    counts: Counter[str] = Counter()
    writer = Writer(Scenes(graph), CONTEXT, thoughts=True)
    odd = replace(task, instruction="Write \u6f22")
    samples = list(flow_samples(writer, [task, odd], codec, True, 0, counts))
    assert len(samples) == counts["samples"] == 4 and counts[UNKNOWN_WORDS] == 4


# --- pairs -------------------------------------------------------------------------------------------------------


def pairs_of(graph, codec, task, **replies):
    writer = Writer(Scenes(graph), CONTEXT, thoughts=False)
    made, counts = preference_pairs(graph, [task], agent_of(graph, codec, **replies), writer, codec, 0)
    return {int(p.id.rpartition("/")[2]): (p.note["source"], codec.decode(p.chosen_ids), codec.decode(p.rejected_ids))
            for p in made}, counts  # fmt: skip


def said(call: str) -> str:
    return f"<answer>{call}</answer>"


def test_what_the_agent_said_is_rejected_as_it_said_it(graph, codec, task):
    made, counts = pairs_of(graph, codec, task, list='do(action="Tap", element=<1>)', form="tapp")
    assert made[0] == ("agent", said(GOLDEN["list"]), said('do(action="Tap", element=<1>)'))
    assert made[1] == ("agent", said(GOLDEN["form"]), said("tapp"))
    assert counts["agent"] == 2 and counts["random"] == 1 and counts["agent: no action of the page"] == 1


def test_of_two_texts_in_one_field_the_typing_makes_the_pair(graph, codec, task):
    made, _ = pairs_of(graph, codec, task, focused='do(action="Type", text="bread")')
    assert made[1] == ("agent", said(GOLDEN["focused"]), said('do(action="Type", text="bread")'))


def test_a_field_that_is_tapped_and_left_is_told_by_the_second_reply(graph, codec, task):
    made, _ = pairs_of(graph, codec, task, focused='do(action="Back")')
    assert made[1] == ("agent", said(GOLDEN["focused"]), said('do(action="Back")'))


def test_where_the_agent_is_right_a_random_action_is_rejected(graph, codec, task):
    made, counts = pairs_of(graph, codec, task)
    assert {source for source, _, _ in made.values()} == {"random"} and counts["pairs"] == len(made)
    assert all(chosen != rejected for _, chosen, rejected in made.values())
    assert made[2][1] == said(GOLDEN["typed"])


# --- metrics -----------------------------------------------------------------------------------------------------


def evaluated(graph, codec, task, **replies):
    writer = Writer(Scenes(graph), CONTEXT, thoughts=False)
    return evaluate(graph, [task], agent_of(graph, codec, **replies), writer, {"model": "script"})


def test_a_golden_agent_has_everything_right(graph, codec, task):
    results = evaluated(graph, codec, task)
    assert results["success_rate"] == 1.0 and results["suite"] == "pages"
    assert results["accuracy"] == {"step_iou": 1.0, "step_text": 1.0, "task_iou": 1.0, "task_text": 1.0, "steps": 3,
                                   "tasks": 1}  # fmt: skip


def test_single_steps_are_asked_on_the_golden_flow_and_success_on_the_agents_own(graph, codec, task):
    """It takes the wrong button on the first page, where it stays then; from any other page it is right."""
    results = evaluated(graph, codec, task, list='do(action="Tap", element=<1>)')
    assert results["flows"]["App/navigation/1"]["text"] == [False, True, True]
    assert results["success_rate"] == 0.0 and results["instances"][0]["steps"] == 15
    assert outcomes(results, "task_text") == {"pages/App/navigation/1": [0.0]}


def test_the_table_says_n_intervals_and_paired_differences(graph, codec, task):
    two = [task, replace(task, id="App/navigation/2")]
    writer = Writer(Scenes(graph), CONTEXT, thoughts=False)
    wrong, right = (evaluate(graph, two, agent_of(graph, codec, **r), writer, {})
                    for r in ({"list": 'do(action="Back")'}, {}))  # fmt: skip
    lines = table([("before", wrong), ("after", right)]).splitlines()
    success = [line for line in lines if "task success" in line]
    assert "| before | 0.0% |" in success[0] and "| after | 100.0% |" in success[1]
    assert "2 tasks" in success[1] and "+100.0 (100.0 to 100.0) to before" in success[1]
    assert any("step text | before | 66.7% | 66.7 to 66.7 | 6 steps of 2 tasks" in line for line in lines)


# --- sets and bad input ------------------------------------------------------------------------------------------


def test_the_sets_that_are_trained_on(task):
    tasks = [replace(task, kind=kind) for kind in ("navigation", "reaching", "operation")]

    def kinds(**settings: bool) -> list[str]:
        return [t.kind for t in trained_on(tasks, PagesSection(**settings))]

    assert kinds() == ["navigation", "reaching", "operation"]
    assert kinds(reaching=False) == ["navigation", "operation"]
    assert kinds(operation=False) == ["navigation", "reaching"]


def read_graph(graph: PageGraph, folder: Path) -> tuple[PageGraph, list[str]]:
    graph.save(folder)
    said: list[str] = []
    return page_graph(PagesSection(graph=str(folder)), PhoneSection(), folder / "unused", said.append), said


def test_pages_that_cannot_be_reached_are_left_out_with_a_word(graph, tmp_path):
    more = graph.without([])
    more.add_page(replace(graph.pages[LIST], id="Lost"))
    more.add_edge("Lost", BACK, LIST)
    found, lines = read_graph(more, tmp_path)
    assert "Lost" not in found.pages and len(found.pages) == 3
    assert lines[0].startswith("1 pages that no app's home leads to are left out, such as Lost")


def test_a_graph_of_another_format_is_an_error_of_one_line(graph, tmp_path):
    graph.save(tmp_path)
    file = tmp_path / "graph.json"
    file.write_text(file.read_text().replace("page graph 1", "page graph 9"))
    with pytest.raises(ValueError, match="graph.json is not a page graph: its format is not 'mobilerl page graph 1'"):
        page_graph(PagesSection(graph=str(tmp_path)), PhoneSection(), tmp_path, print)


def test_a_graph_without_tasks_is_an_error_of_one_line(graph, tmp_path):
    few, _ = read_graph(graph.without([FORM, TYPED]), tmp_path)
    with pytest.raises(ConfigError, match="no tasks can be made: .*; explore more"):
        page_tasks(few, PagesSection(walks=5), tmp_path, print)


def test_an_app_that_the_phone_lacks_is_named(tmp_path):
    with pytest.raises(ConfigError, match="pages.apps: the phone has no app 'Chess'; it has "):
        page_graph(PagesSection(apps=("Chess",)), PhoneSection(), tmp_path, print)
