"""The formats of published models: prompts, coordinates, responses, and which model gets which."""

import hashlib
import json
import re
import time
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from mobilerl.config import AgentSection, FormatName
from mobilerl.envs.base import (
    Back,
    Enter,
    Finish,
    Home,
    Invalid,
    Launch,
    LongPress,
    Observation,
    Swipe,
    Tap,
    Task,
    Type,
    Wait,
)
from mobilerl.envs.phone.tasks.base import INFEASIBLE
from mobilerl.policy.context import ContextPolicy, build_messages, make_context, prompt_hash
from mobilerl.policy.formats import FORMATS, base
from mobilerl.policy.formats.choice import published_name, recognize_format, with_format
from mobilerl.policy.formats.pixels import LEAST, MOST, qwen_size
from mobilerl.policy.screen import HEADER, Element, Screen
from mobilerl.policy.turns import Turn
from mobilerl.rollout.episode import episode_settings

W, H = 1080, 2400
FIELD = Element(1, "EditText", ("click", "edit"), ("focused",), "Name", (100, 100, 900, 200), 0)
SCREEN, TYPING = Screen((), W, H), Screen((FIELD,), W, H)
PUBLISHED = [name for name in FORMATS if name != "mobilerl"]
POINTING = [name for name in PUBLISHED if name != "mobilerl-9b"]
"""The other formats name elements, and touch their middle."""
GLM = ("glm-v", "glm-4.5v")
CLICK = '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [1, 2]}}\n</tool_call>'


def policy(name, **changes):
    return make_context(with_format(AgentSection(format=name, **changes), ""))


def seen(i):
    return Observation(f"png{i}".encode(), W, H, "<x/>", f"App{i}", i)


def prompt(name, responses=(), instruction="DO IT", **changes):
    turns = [Turn(seen(i), response, "", Back(), "back") for i, response in enumerate(responses)]
    task = Task("t-0", "t", instruction, {}, 0, 10, "sim")
    return build_messages(task, turns, seen(len(turns)), SCREEN, policy(name, **changes))


def told(messages):
    """Roles and texts, an image written as {}."""
    parts = [(m["role"], [part.get("text", "{}") for part in m["content"]]) for m in messages]
    return [(role, "".join(texts)) for role, texts in parts]


def read(name, text, screen=SCREEN):
    return policy(name).parse(text, screen)


# --- prompts -----------------------------------------------------------------------------------------------------


def test_every_setting_has_a_format():
    assert set(get_args(FormatName)) == FORMATS.keys()
    assert base.INFEASIBLE == INFEASIBLE


# SHA-256 of the published texts, filled with the instruction "DO IT" and a screenshot of 1080 x 2400 pixels. They were
# compared with the files that the modules name as sources.
@pytest.mark.parametrize(
    ("name", "message", "digest"),
    [
        ("qwen2.5-vl", 0, "08758deb1261464319e7c8e0ad8413c64285da66736b560d809f3754271a15e2"),
        ("qwen3-vl", 0, "9d060af15f62acb31b9fb197649ec001d4096491d7fb102de929316944b3e26d"),
        ("ui-tars", 1, "c3b07d6f9d76fc45458f71fe2607aa6b73574b9788188a9204094178374d2493"),
        ("ui-tars-1.5", 1, "a5f4e146b35647522f6db33772512e2a7e7f4a96aaf6eedcc95c378a72dc15ff"),
        ("autoglm", 0, "3e2f956a26bb9cf17b0c93cdc019678bfce518a5ebdc17ad2733e1cb00c5ac8d"),
        ("glm-v", 0, "614a72d53ef7fa955cbec99f1da8c926407d167c874422247c0817a2ebac2d48"),
        ("glm-4.5v", 0, "7ca1d91059f6febe38b8aab6b3bbb8391b984da240e67eb82abce5066b578bbb"),
        ("gui-owl", 0, "5245c52cad0a064928f2cc9c508454e127d4404a63c322b71a4a42c94f33a14d"),
        ("gui-owl", 1, "bef10ab6bd268e0fee8fa7a749317783723ec27e8aa2212e62172c91b6c76cda"),
        ("gui-owl-1.5", 0, "a7b494381939614cb2e463b9380631bb249c79fd712e2cac5f1327b1a3faaa99"),
        ("mai-ui", 0, "86b907c1e936b8c92bde65e943d31a5f92379209b2ce4f31d5f3ceadd1a3edf2"),
    ],
)
def test_prompts_are_the_published_ones(name, message, digest):
    text = told(prompt(name)[0])[message][1]
    assert hashlib.sha256(text.encode()).hexdigest() == digest


def test_history_of_qwen():
    """Both are the notebooks' examples."""
    opened = CLICK.replace('"click", "coordinate": [1, 2]', '"open", "text": "File Manager"')
    assert told(prompt("qwen2.5-vl", [opened])[0])[1] == (
        "user",
        "The user query: DO IT\nTask progress (You have done the following operation on the current device): "
        'Step 1: {"name": "mobile_use", "arguments": {"action": "open", "text": "File Manager"}}; {}',
    )
    said = f'Thought: Open it.\nAction: "I opened the X app from the home screen."\n{CLICK}'
    assert told(prompt("qwen3-vl", [said])[0])[1] == (
        "user",
        "The user query: DO IT.\nTask progress (You have done the following operation on the current device): "
        "Step 1: I opened the X app from the home screen.; .\n{}",
    )


@pytest.mark.parametrize(("name", "screenshots"), [("ui-tars-1.5", 5), ("mai-ui", 3)])
def test_newest_responses_have_their_screenshots(name, screenshots):
    responses = [f"Thought: t\nAction: click(start_box='({i},2)')" for i in range(7)]
    messages, images = prompt(name, responses)
    roles = [role for role, _ in told(messages)][-(7 + screenshots) :]
    assert roles == ["assistant"] * (8 - screenshots) + ["user", "assistant"] * (screenshots - 1) + ["user"]
    assert images == [b"png%d" % i for i in range(8 - screenshots, 8)]
    if name == "ui-tars-1.5":  # the tokens that a server leaves out are put back
        assert told(messages)[-2][1] == "Thought: t\nAction: click(start_box='<|box_start|>(6,2)<|box_end|>')"


def test_gui_owl_lists_what_has_no_screenshot_any_more():
    messages, images = prompt("gui-owl-1.5", [f"Action: did {i}\n{CLICK}" for i in range(6)])
    assert told(messages)[1][1].endswith("Previous actions:\nStep1: did 0\nStep2: did 1{}")
    assert [role for role, _ in told(messages)] == ["system", *["user", "assistant"] * 4, "user"]
    assert images == [b"png%d" % i for i in range(2, 7)]


def test_the_third_prompt_of_mobilerl_9b():
    """Earlier turns as text, the last one again with its screenshot and the app that is in front now."""
    button = Element(1, "Button", ("click",), (), "OK", (10, 20, 30, 40), 0)
    turns = [
        Turn(seen(0), "<think>\nlook\n</think>\n<answer>\nnonsense\n</answer>", "look", Invalid("no"), "?"),
        Turn(seen(1), '<think>\ngo\n</think>\n<answer>\ndo(action="Back")\n</answer>', "go", Back(), "", "no app"),
    ]
    task = Task("t-0", "t", "DO IT", {}, 0, 10, "sim")
    messages, images = build_messages(task, turns, seen(2), Screen((button,), W, H), policy("mobilerl-9b"))
    assert told(messages)[1:] == [
        ("user", 'DO IT\n\n{"current_app": "App0"}'),
        ("assistant", turns[0].response),
        ("user", '** Screen Info **\n\n{"current_app": "App1"}'),
        ("assistant", turns[1].response),
        ("user", '{}** Screen Info **\n\n{"current_app": "App2"}'),
        ("user", '{}** Screen Info **\n\n{"current_app": "App2"}\n\n' + f"{HEADER}\nButton;click;OK;[10,20,30,40]\n"),
    ]
    assert messages[0]["role"] == "system" and images == [b"png1", b"png2"]
    first = told(build_messages(task, (), seen(0), SCREEN, policy("mobilerl-9b"))[0])
    assert [role for role, _ in first] == ["system", "user"] and first[1][1].startswith('{}DO IT\n\n{"current_app"')


def test_the_agent_of_mobilerl_9b():
    agent = with_format(AgentSection(), "xuyifan/MobileRL-9B")
    assert (agent.format, agent.screenshots, agent.max_new_tokens, agent.max_invalid) == ("mobilerl-9b", 2, 4096, 1)
    assert episode_settings(agent).most_equal == 5 and episode_settings(AgentSection()).most_equal is None
    assert make_context(agent).stop == ("</answer>", "<|user|>", "<|observation|>")


@pytest.mark.parametrize("name", PUBLISHED)
def test_agent_settings_of_every_format(name):
    messages, images = prompt(name, ["response 0", "response 1"], screenshots=1, history_steps=1, system_prompt="SYS")
    text = json.dumps(messages)
    assert images == [b"png2"] and text.count('"image"') == 1
    assert "response 0" not in text
    assert "SYS" in text
    assert b"png" not in b"".join(prompt(name, ["response"], screenshots=0)[1])


@pytest.mark.parametrize("name", PUBLISHED)
def test_texts_from_elsewhere_add_no_tokens(name):
    messages, images = prompt(name, [f"Action: <|image_pad|>\n{CLICK}"] * 6, instruction="<|im_end|><image>")
    text = json.dumps(messages)
    assert "<|im" not in text and "<image>" not in text
    assert text.count('{"type": "image"}') == len(images)


def test_demonstrated_turns_are_written_in_the_models_format():
    turn = Turn(seen(0), "", "because", Tap(500, 250), "tap it")
    task = Task("t-0", "t", "DO IT", {}, 0, 10, "sim")
    text = told(build_messages(task, [turn], seen(1), SCREEN, policy("ui-tars-1.5"))[0])[-2][1]
    assert text == "Thought: because\nAction: click(start_box='<|box_start|>(547,603)<|box_end|>')"
    small = replace(policy("ui-tars-1.5"), size_seen=lambda width, height: (1200, 540))
    text = told(build_messages(task, [turn], seen(1), SCREEN, small)[0])[-2][1]
    assert "(270,300)" in text


# --- responses -----------------------------------------------------------------------------------------------------


def call(**arguments):
    return f"<tool_call>\n{json.dumps({'name': 'mobile_use', 'arguments': arguments})}\n</tool_call>"


# 1080 x 2400 is seen as 1092 x 2408: 28 x 39 and 28 x 86.
@pytest.mark.parametrize(
    ("name", "text", "thought", "action"),
    [
        ("qwen2.5-vl", call(action="click", coordinate=[546, 602]), "", Tap(500, 250)),
        ("qwen2.5-vl", "So.\n" + call(action="key", text="enter"), "So.", Enter()),
        ("qwen2.5-vl", call(action="open", text="File Manager"), "", Launch("File Manager")),
        ("qwen3-vl", "Thought: a\nAction: b\n" + call(action="click", coordinate=[447, 81]), "a", Tap(447, 81)),
        (
            "qwen3-vl",
            "<think>deep</think>Action: b\n" + call(action="swipe", coordinate=[9, 8.4], coordinate2=[7, 6]),
            "deep",
            Swipe(9, 8, 7, 6),
        ),
        ("qwen3-vl", call(action="answer", text="42"), "", Finish("42")),
        ("qwen3-vl", call(action="terminate", status="failure"), "", Finish(INFEASIBLE)),
        ("qwen3-vl", call(action="terminate", status="success"), "", Finish("")),
        ("qwen3-vl", call(action="wait", time=3), "", Wait(3.0)),
        ("ui-tars", "Thought: t\nAction: click(start_box='(235,512)')", "t", Tap(235, 511)),
        (
            "ui-tars",
            "Thought: t\nAction: scroll(start_box='<|box_start|>(500,800)<|box_end|>', "
            "end_box='<|box_start|>(500,200)<|box_end|>')",
            "t",
            Swipe(500, 799, 500, 200),
        ),
        ("ui-tars-1.5", "Thought: t\nAction: type(content='it's \"so\"\\n')", "t", Type('it\'s "so"')),
        ("ui-tars-1.5", "Thought: t\nAction: type(content='\\n')", "t", Enter()),
        (
            "ui-tars-1.5",
            "Thought: t\nAction: scroll(start_box='(546,1204)', direction='down')",
            "t",
            Swipe(500, 500, 500, 320),
        ),
        ("ui-tars-1.5", "Thought: t\nAction: press_home()\n\nAction: press_back()", "t\nAction: press_home()", Back()),
        ("ui-tars-1.5", "Thought: t\nAction: call_user()", "t", Finish(INFEASIBLE)),
        ("autoglm", '<think>t</think>\n<answer>\ndo(action="Tap", element=[500,1000])\n</answer>', "t", Tap(500, 999)),
        ("autoglm", 't\ndo(action="Tap", element=[0,0], message="pay")', "t", Tap(0, 0)),
        ("autoglm", 'done finish(message="It is "5".")', "done", Finish('It is "5".')),
        ("gui-owl", f"<thinking>\nt\n</thinking>\n{CLICK}\n<conclusion>\nc\n</conclusion>", "t", Tap(1, 1)),
        ("gui-owl-1.5", "Action: tap it\n" + call(action="click", coordinate=[1000, 500]), "tap it", Tap(999, 500)),
        (
            "mai-ui",
            "<thinking>t</thinking>" + call(action="drag", start_coordinate=[1, 2], end_coordinate=[3, 4]),
            "t",
            Swipe(1, 2, 3, 4),
        ),
        ("mai-ui", "t</think>" + call(action="swipe", direction="up"), "t", Swipe(499, 499, 499, 319)),
        ("mai-ui", call(action="system_button", button="back"), "", Back()),
        ("mai-ui", call(action="click", coordinate=[0, 0, 100, 200]), "", Tap(50, 100)),
        ("ui-venus", "<think>t</think><action>Click(box=(546, 602))</action>", "t", Tap(500, 250)),
        ("ui-venus-1.5", "<action>Type(content='box=(1,2), it's')</action>", "", Type("box=(1,2), it's")),
        ("ui-venus-1.5", "<action>CallUser(content='42')</action>", "", Finish("42")),
        (
            "glm-v",
            'Memory: m\nReason: r\nAction: <|begin_of_box|>{"action_type": "click", "box_2d": [[0,0,99,199]]}'
            "<|end_of_box|>",
            "Memory: m\nReason: r",
            Tap(50, 100),
        ),
        ("glm-v", 'Action: {"action_type": "status", "goal_status": "infeasible"}', "", Finish(INFEASIBLE)),
    ],
)
def test_responses(name, text, thought, action):
    response = read(name, text)
    assert (response.thought, response.action) == (thought, action)


def test_glm_types_once_the_field_has_the_focus():
    text = 'Action: {"action_type": "input_text", "text": "Ann", "box_2d": [[100,100,900,200]], "override": true}'
    assert read("glm-v", text, TYPING).action == Type("Ann")
    assert read("glm-v", text, Screen((replace(FIELD, states=()),), W, H)).action == Tap(500, 150)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("qwen3-vl", "I am done.", "no <tool_call>"),
        ("qwen3-vl", "<tool_call>{'name'", "not valid JSON"),
        ("qwen3-vl", "<tool_call>" + '{"a":' * 10_000, "not valid JSON"),
        ("qwen3-vl", '<tool_call>{"name": "computer_use", "arguments": {}}', "mobile_use"),
        ("qwen3-vl", call(action="system_button", button="Menu"), "only Back, Home and Enter"),
        ("qwen3-vl", call(action="click", coordinate=[1001, 5]), "not on the screen"),
        ("qwen3-vl", '<tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [NaN, 1]}}', ""),
        ("gui-owl-1.5", call(action="interact", text="which?"), "nobody is there"),
        ("ui-tars", "I click(start_box='(1,2)')", 'no line "Action:"'),
        ("ui-tars-1.5", "Action: click(start_box='(1093,5)')", "not on the screen"),
        ("ui-tars-1.5", "Action: right_single(start_box='(1,5)')", "unknown action"),
        ("autoglm", 'do(action="Take_over", message="log in")', "nobody is there"),
        ("autoglm", 'do(action="Double Tap", element=[1,2])', "unknown action"),
        ("ui-venus", "<action>PressRecent()</action>", "recent apps"),
        ("glm-v", 'Action: {"action_type": "click"}', "a point must be"),
    ],
)
def test_bad_responses_say_why(name, text, reason):
    action = read(name, text).action
    assert isinstance(action, Invalid) and reason in action.reason


POINTS = st.integers(0, 999)
# Responses with tags in their texts are read as models' own agents read them, which take them for the response's.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\t"), max_size=20).filter(
    lambda text: not re.search("</?(think|thinking|tool_call|answer|action)>", text)
)
ACTIONS = st.one_of(
    st.builds(Tap, POINTS, POINTS),
    st.builds(LongPress, POINTS, POINTS),
    st.builds(Swipe, POINTS, POINTS, POINTS, POINTS),
    st.builds(Type, TEXTS.map(lambda text: f"a{text}b")),
    st.builds(Launch, TEXTS),
    st.builds(Finish, TEXTS),
    st.sampled_from([Back(), Home(), Enter(), Wait(5.0), Finish(INFEASIBLE)]),
)


@pytest.mark.parametrize("name", POINTING)
@given(action=ACTIONS)
@settings(max_examples=60)
def test_a_written_action_is_read_again(name, action):
    """To within a pixel; GLM's swipes have one of four directions, UI-Venus' reasons and some waits no written form."""
    context = policy(name)
    written = context.write_response(action, TYPING, "because")
    read = context.parse(written, TYPING)
    assert (read.thought, type(read.action)) == (
        "Memory: \nReason: because" if name in GLM else "because",
        type(action),
    )
    assert context.parse(context.write_response(action, TYPING), TYPING).action == read.action
    if isinstance(action, Wait) or name in GLM and isinstance(action, Swipe):
        return
    for field in ("x", "y", "x2", "y2"):
        assert abs(getattr(read.action, field, 0) - getattr(action, field, 0)) <= 1
    for field in ("text", "app", "message"):
        assert getattr(read.action, field, "") == getattr(action, field, "")


@pytest.mark.parametrize("name", PUBLISHED)
@given(action=ACTIONS, data=st.data())
@settings(max_examples=60)
def test_a_response_that_was_cut_off_is_no_other_action(name, action, data):
    context = policy(name)
    written = context.write_response(action, TYPING, "because")
    cut = data.draw(st.integers(0, len(written)))
    assert context.parse(written[:cut], TYPING).action in (context.parse(written, TYPING).action, AnyInvalid())


class AnyInvalid:
    def __eq__(self, other):
        return isinstance(other, Invalid)


@pytest.mark.parametrize("name", list(FORMATS))
def test_long_responses_are_read_in_linear_time(name):
    heads = (
        "",
        "Action: ",
        "Action: type(content='",
        '<tool_call>{"name": "',
        "<action>Launch(app=",
        '<answer>do(action="',
    )
    began = time.process_time()
    for head in heads:
        for piece in (
            " ",
            "\\",
            '"',
            "'",
            '", "',
            "', a=",
            '{"a":',
            "[",
            "1,",
            "do(action=",
            "Action:",
            "<think>",
            "(",
        ):
            read(name, head + piece * (40_000 // len(piece)))
    assert time.process_time() - began < 20


PIECES = """<tool_call> </tool_call> {"name":"mobile_use","arguments":{"action": "click" "coordinate":[ ]}} <think>
</think> <thinking> </thinking> <action> </action> <answer> </answer> Action: Thought: click( start_box='
do(action="Tap" element=[ finish(message=" Click(box=( Type(content=' ) ' " { } [ ] , 1e999 NaN 12 -3 4.5 null
\\ Action:{"action_type":"click" "box_2d":[[ "text": "direction": scroll( drag( swipe <point> </point>
Scroll(start=( end=( Memory: \ud800""".split()


@pytest.mark.parametrize("name", PUBLISHED)
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join),
        st.dictionaries(
            st.sampled_from("action coordinate coordinate2 text time button status direction".split()),
            st.one_of(
                st.sampled_from("click swipe type open wait key system_button answer terminate drag up 1".split()),
                st.floats(),
                st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=3)), max_size=5),
            ),
        ).map(lambda arguments: call(**arguments)),
    )
)
@settings(max_examples=80)
def test_no_response_raises_or_leaves_the_screen(name, text):
    action = read(name, text).action
    for field in ("x", "y", "x2", "y2"):
        assert 0 <= getattr(action, field, 0) <= 999
    for field in ("text", "app", "message", "reason"):
        getattr(action, field, "").encode()  # may be stored and sent
    if isinstance(action, Invalid):
        assert "\n" not in action.reason and "<|" not in action.reason and len(action.reason) < 300


# --- sizes -------------------------------------------------------------------------------------------------------


@given(width=st.integers(40, 6000), height=st.integers(40, 6000))
def test_size_seen_is_the_image_processors(width, height):
    assert qwen_size(width, height) == tuple(smart_resize(height, width, 28, LEAST, MOST))


# --- which format ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("xuyifan/MobileRL-9B", "mobilerl-9b"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl"),
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl"),
        ("ByteDance-Seed/UI-TARS-1.5-7B", "ui-tars-1.5"),
        ("ByteDance-Seed/UI-TARS-7B-DPO", "ui-tars"),
        ("zai-org/AutoGLM-Phone-9B", "autoglm"),
        ("zai-org/GLM-4.1V-9B-Thinking", "glm-v"),
        ("zai-org/GLM-4.5V-FP8", "glm-4.5v"),
        ("zai-org/GLM-4.6V", "glm-4.5v"),
        ("Qwen/Qwen3.5-9B", "qwen3-vl"),
        ("mPLUG/GUI-Owl-7B", "gui-owl"),
        ("mPLUG/GUI-Owl-1.5-8B-Instruct", "gui-owl-1.5"),
        ("Tongyi-MAI/MAI-UI-8B", "mai-ui"),
        ("inclusionAI/UI-Venus-Navi-7B", "ui-venus"),
        ("inclusionAI/UI-Venus-1.5-8B", "ui-venus-1.5"),
        ("final", None),
    ],
)
def test_published_names(model, name):
    assert recognize_format(model) == name


def test_a_folder_is_named_by_the_hubs_cache_or_its_config(tmp_path):
    cached = tmp_path / "models--Qwen--Qwen3-VL-4B-Instruct" / "snapshots" / "abc"
    cached.mkdir(parents=True)
    assert published_name(cached) == "Qwen/Qwen3-VL-4B-Instruct"
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"_name_or_path": "Qwen/Qwen2.5-VL-3B-Instruct"}')
    assert recognize_format(published_name(folder)) == "qwen2.5-vl"
    (folder / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    assert recognize_format(published_name(folder)) is None


def test_settings_that_only_our_format_has_mean_our_format():
    name = "Qwen/Qwen3-VL-8B-Instruct"
    chosen = with_format(AgentSection(max_new_tokens=77), name)
    assert (chosen.format, chosen.screenshots, chosen.max_new_tokens) == ("qwen3-vl", 1, 77)
    ours = AgentSection(grounding="box")
    assert with_format(ours, name) is ours
    assert with_format(AgentSection(grounding="box", format="mai-ui"), name).screenshots == 3
    assert with_format(AgentSection(format="mobilerl"), name) == AgentSection(format="mobilerl")


def test_prompt_hashes():
    """Our format's are those of mobilerl 0.1, which checkpoints and results have."""
    assert prompt_hash(ContextPolicy()) == "361fd432099a3f86"
    assert prompt_hash(ContextPolicy(layout="compact", grounding="mark")) == "5fb6edb78cc7d354"
    assert len({prompt_hash(policy(name)) for name in FORMATS}) == len(FORMATS)
    sized = replace(policy("qwen2.5-vl"), size_seen=qwen_size)
    assert prompt_hash(sized) == prompt_hash(policy("qwen2.5-vl"))
