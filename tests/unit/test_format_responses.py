"""What the published agents and reward scripts read in a response, and what we read: a table for each format.

The middle column is what upstream reads: SAME for the action on the right, else what it does instead. It was found by
running upstream's parsers on these responses. Where we read more, a response that upstream cannot read is no response
that asks for something else; where we read less, upstream's reading is an accident.
"""

from dataclasses import dataclass

import pytest

from mobilerl.config import AgentSection
from mobilerl.envs.base import Action, Back, Enter, Finish, Home, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.policy.context import make_context
from mobilerl.policy.formats.choice import with_format
from mobilerl.policy.screen import Element, Screen

FIELD = Element(1, "EditText", ("click", "edit"), ("focused",), "Name", (0, 0, 999, 200), 0)
SCREEN = Screen((FIELD,), 1080, 2400)
SAME, ERROR = "the same", "an error"


@dataclass(frozen=True)
class Refused:
    """Any invalid action."""

    def __eq__(self, other):
        return isinstance(other, Invalid)


REFUSED = Refused()
Row = tuple[str, str, Action | Refused]


def check(name, row, grounding=None):
    response, _, expected = row
    section = AgentSection(format=name, **({"grounding": grounding} if grounding else {}))
    assert make_context(with_format(section, "")).parse(response, SCREEN).action == expected


def ids(row):
    return row[0][-60:] if isinstance(row, tuple) else None


# --- AutoGLM -----------------------------------------------------------------------------------------------------

# zai-org/Open-AutoGLM at 6b18d7b: phone_agent/model/client.py (_parse_response) splits off everything from
# "finish(message=" on, else from the first "do(action=" on; phone_agent/actions/handler.py (parse_action) takes the
# text of Type and finish up to the last two characters, and reads other calls with ast. What it cannot read ends the
# task, with the response as the message (agent.py); here it is invalid.
ENDS = "ends the task"
AUTOGLM: list[Row] = [
    ('<think>t</think>\n<answer>do(action="Tap", element=[500,250])</answer>', ENDS, Tap(500, 250)),  # for "</answer>"
    ('t\ndo(action="Tap", element=[500,250])', SAME, Tap(500, 250)),
    ('do(action="Tap", element=(500, 250),)', SAME, Tap(500, 250)),
    ('do(action="Tap", element=[500.0, 250.2])', SAME, Tap(500, 250)),
    ('do(action="Tap", element=[0500, 0250])', ENDS, Tap(500, 250)),
    ('do(action="Tap", message="pay, now", element=[500,250])', SAME, Tap(500, 250)),
    ('do(action="Tap", element=[400,200,600,300])', "taps (400, 200), a corner of the box", Tap(500, 250)),
    ('do(action="Tap", element=[[400,200,600,300]])', ENDS, Tap(500, 250)),
    ('do(action="Tap", element=[1000,1000])', SAME, Tap(999, 999)),
    ('do(action="Tap", element=[1001,1000])', "taps outside the screen", REFUSED),
    ('do(action="Type", text="a "b" (c), d="e"")', SAME, Type('a "b" (c), d="e"')),
    ('do(action="Type", text="see "x") and y")', SAME, Type('see "x") and y')),
    ('do(action="Type_Name", text="Ann "Annie" Lee")', SAME, Type('Ann "Annie" Lee')),
    ('do(action="Type", text="one\ntwo")', SAME, Type("one\ntwo")),
    (r'do(action="Type", text="one\ntwo")', "types a backslash and an n", Type("one\ntwo")),
    ('do(action="Type", text="hello', "types hel", REFUSED),
    ('finish(message="It is "5".\nDone.")', SAME, Finish('It is "5".\nDone.')),
    ('do(action="Back")\nfinish(message="done")', SAME, Finish("done")),
    ('do(action="Back")\ndo(action="Home")', ENDS, REFUSED),
    ('<think>not do(action="Back")</think><answer>do(action="Home")</answer>', ENDS, Home()),
    ('not do(action="Back")\n<answer>do(action="Home")</answer>', ENDS, Home()),
    ('<answer>do(action="Home")\nThis is the way.</answer>', ENDS, Home()),
    ('<answer>do(action="Home") is the way.</answer>', ENDS, Home()),
    ('点击do(action="Home")', SAME, Home()),
    ('```python\ndo(action="Home")\n```', ENDS, Home()),
    ('<|begin_of_box|>I see icons.<|end_of_box|>\n<|begin_of_box|>do(action="Home")<|end_of_box|>', ENDS, Home()),
    ('do(action="Wait", duration="2.5 seconds")', SAME, Wait(2.5)),
    ('do(action="Tap", element=[eval("1"),2])', ENDS, REFUSED),
    ('[{\'Type", text="x")', ENDS, REFUSED),
]


@pytest.mark.parametrize("row", AUTOGLM, ids=ids)
def test_autoglm(row):
    check("autoglm", row)


# --- GLM-V -------------------------------------------------------------------------------------------------------

# zai-org/GLM-V at 8fc9756. The agents, examples/gui-agent/glm-41v/gui_agent_41v.py and glm-45v/gui_agent_45v.py
# (parse_mobile_response), read the text behind "Action:", or in the box, as JSON, and only if nothing else is there.
# The reward, glmv_reward/scripts/gui_agent/AndroidWorld.py (extract_answer_obj), reads the first box as JSON, without
# leading zeros in the box_2d, or else with eval(), instead of which we read literals. It gives 0 to boxes that go
# beyond 999. The forms in single quotes are from glmv_reward/tests/cogagent/test_android_world_verifier.py.
AGENT, REWARD = "the same: the agent", "the same: the reward"
HEAD = "Memory: None\nReason: next\nAction: "


def boxed(code):
    return f"{HEAD}<|begin_of_box|>{code}<|end_of_box|>"


def typed(text, quote="'"):
    members = (
        ("action_type", f": {quote}input_text{quote}"),
        ("text", f": {text}"),
        ("box_2d", ": [[38, 115, 961, 140]]"),
    )
    return ", ".join(f"{quote}{key}{quote}{value}" for key, value in members)


GLM: list[Row] = [
    (HEAD + '{"action_type": "click", "box_2d": [[400,200,600,300]]}', AGENT, Tap(500, 250)),
    (boxed('{"box_2d": [[400,200,600,300]], "action_type": "click"}'), SAME, Tap(500, 250)),
    (boxed("{" + typed("'Finance'") + "}"), REWARD, Type("Finance")),
    (boxed("{" + typed("'Finance'") + ", 'override': True}"), REWARD, Type("Finance")),
    (boxed("{" + typed("'Finance'") + ", 'override': true}"), REWARD, Type("Finance")),
    (boxed("{'action_type': 'click', 'box_2d': [[0400,0200,600,300]]}"), REWARD, Tap(500, 250)),
    (boxed('{{"box_2d": [[400,200,600,300]], "action_type": "click"}}'), ERROR, REFUSED),
    ('<|begin_of_box|>{"action_type": "wait"}<|end_of_box|>', REWARD, Wait()),
    (boxed('{"action_type": "wait"}') + boxed('{"action_type": "navigate_back"}'), REWARD, Wait()),
    ('<|begin_of_box|>I see.<|end_of_box|><|begin_of_box|>{"action_type": "wait"}<|end_of_box|>', ERROR, Wait()),
    (HEAD + '{"action_type": "wait"}\nAction: {"action_type": "navigate_back"}', ERROR, REFUSED),
    (HEAD + '{"action_type": "wait"}\n{"action_type": "navigate_back"}', ERROR, REFUSED),
    (HEAD + '{"action_type": "wait"}\nThis gives it time.', ERROR, Wait()),
    (HEAD + '```json\n{"action_type": "wait"}\n```', ERROR, Wait()),
    ('<think>t</think><answer>```json\n{"action_type": "wait"}\n```</answer>', ERROR, Wait()),
    ('Memory: m\nReason: the Action: follows\nAction: {"action_type": "wait"}', ERROR, Wait()),
    (boxed("{" + typed('"Action: buy"', '"') + "}"), SAME, Type("Action: buy")),
    (boxed("{" + typed('"one\ntwo"', '"') + "}"), ERROR, Type("one\ntwo")),
    (boxed("{" + typed('"say "hi", Ann"', '"') + "}"), ERROR, Type('say "hi", Ann')),
    (boxed("{" + typed("5551234", '"') + "}"), "the same, with AndroidWorld's JSONAction", Type("5551234")),
    (HEAD + '{"action_type": "click", "box_2d": [400,200,600,300]}', "no box for the reward", Tap(500, 250)),
    (HEAD + '{"action_type": "click", "box_2d": [[500,250]]}', "no box for the reward", Tap(500, 250)),
    (HEAD + '{"action_type": "click", "box_2d": [[400,200],[600,300]]}', "no box for the reward", Tap(500, 250)),
    (HEAD + '{"action_type": "click", "box_2d": [[400.5,200,599.5,300]]}', "no box for the reward", Tap(500, 250)),
    (HEAD + '{"action_type": "click", "box_2d": [[400,200,600,300],[0,0,9,9]]}', AGENT, Tap(500, 250)),
    (HEAD + '{"action_type": "click", "box_2d": [[1000,1000,1000,1000]]}', "no box for the reward", Tap(999, 999)),
    (HEAD + '{"action_type": "click", "box_2d": [[1001,5,1001,5]]}', "no box for the reward", REFUSED),
    (HEAD + '{"action_type": "swipe", "direction": "up", "box_2d": [[]]}', AGENT, Swipe(499, 499, 499, 319)),
    (HEAD + '{"action_type": "click", "box_2d": [[400,200,600,300]]', ERROR, REFUSED),
    (boxed("{'action_type': 'answer', 'text': __import__('os').name}"), "runs it", REFUSED),
    (boxed("{'action_type': 'click', 'box_2d': [[200 * 2, 200, 600, 300]]}"), "calculates", REFUSED),
]


@pytest.mark.parametrize("name", ["glm-v", "glm-4.5v"])
@pytest.mark.parametrize("row", GLM, ids=ids)
def test_glm(name, row):
    check(name, row)


# --- mobile_use: Qwen, GUI-Owl, MAI-UI ---------------------------------------------------------------------------


# - QwenLM/Qwen3-VL at 9658872, cookbooks/mobile_agent.ipynb: the first <tool_call> as JSON. QwenLM/Qwen-Agent at
#   31a4d36, qwen_agent/llm/fncall_prompts/nous_fncall_prompt.py: every <tool_call> behind the thought as JSON5 (single
#   quotes, trailing commas). Tongyi-MAI/MobileWorld at 6a4dec2, src/mobile_world/agents/implementations/qwen3vl.py: the
#   center of a box.
# - X-PLUG/MobileAgent at 11cea57, android_world/agents/gui_owl.py: GUI-Owl (android_world_v3) reads the first
#   {"name": "mobile_use" as JSON, GUI-Owl-1.5 (android_world_v3.5) the last <tool_call>; mobile_agent_utils_new.py
#   beside it reads arguments that are a text as JSON, and "tap" as a click.
# - Tongyi-MAI/MAI-UI at 4dd07b9, src/mai_naivigation_agent.py: the first <tool_call> behind </thinking> or </think> as
#   JSON; the center of a box.
def use(arguments):
    return f'<tool_call>\n{{"name": "mobile_use", "arguments": {arguments}}}\n</tool_call>'


CLICK, BACK = use('{"action": "click", "coordinate": [500, 250]}'), use('{"action": "system_button", "button": "Back"}')
TOOL: list[Row] = [
    (f"<think>t</think>\n{CLICK}", SAME, Tap(500, 250)),
    (f"<think>first {BACK}?</think>\n{CLICK}", "the same: Qwen-Agent, GUI-Owl-1.5 and MAI-UI", Tap(500, 250)),
    (f"t\n{CLICK}\nThis opens it {{at once}}.", SAME, Tap(500, 250)),
    (CLICK.replace("\n", ""), "the same: GUI-Owl-1.5 and MAI-UI", Tap(500, 250)),
    (CLICK.replace("\n{", "\n```json\n{").replace("}\n", "}\n```\n"), "the same: GUI-Owl", Tap(500, 250)),
    (CLICK.replace('"', "'"), "the same: Qwen-Agent", Tap(500, 250)),
    (CLICK.replace("}}", ",}}"), "the same: Qwen-Agent", Tap(500, 250)),
    (CLICK.replace("[500, 250]", "(500, 250)"), ERROR, Tap(500, 250)),
    (CLICK.replace("[500, 250]", "[0500, 0250]"), ERROR, Tap(500, 250)),
    (CLICK.replace("[500, 250]", "[500.2, 249.9]"), SAME, Tap(500, 250)),
    (CLICK.replace("[500, 250]", '["500", "250"]'), ERROR, Tap(500, 250)),
    (CLICK.replace("[500, 250]", '"(500, 250)"'), ERROR, Tap(500, 250)),
    (CLICK.replace("[500, 250]", "[[500, 250]]"), ERROR, Tap(500, 250)),
    (CLICK.replace("[500, 250]", "[400, 200, 600, 300]"), "the same: MobileWorld and MAI-UI", Tap(500, 250)),
    (CLICK.replace("500", "1000"), SAME, Tap(999, 250)),
    (CLICK.replace("500", "1001"), "outside the screen", REFUSED),
    (CLICK.replace("500", "-1"), "outside the screen", REFUSED),
    (use(r'"{\"action\": \"click\", \"coordinate\": [500, 250]}"'), "the same: GUI-Owl-1.5", Tap(500, 250)),
    (CLICK.replace('"click"', '"tap"'), "the same: GUI-Owl", Tap(500, 250)),
    (use('{"action": "type", "text": "one\ntwo"}'), ERROR, Type("one\ntwo")),
    (use('{"action": "type", "text": "say "hi", Ann"}'), ERROR, Type('say "hi", Ann')),
    (use('{"action": "type", "text": 5551234}'), "the same: GUI-Owl", Type("5551234")),
    (CLICK.replace("}}", "}"), ERROR, REFUSED),
    (CLICK[:60], ERROR, REFUSED),
    (CLICK.replace("500", "len([1])"), ERROR, REFUSED),
    (CLICK.replace("500", "500 + 1"), ERROR, REFUSED),
]


@pytest.mark.parametrize("name", ["qwen3-vl", "gui-owl-1.5", "mai-ui"])
@pytest.mark.parametrize("row", TOOL, ids=ids)
def test_mobile_use(name, row):
    check(name, row)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("qwen3-vl", Tap(500, 250)), ("gui-owl", Tap(457, 104)), ("gui-owl-1.5", Back()), ("mai-ui", Tap(500, 250))],
)
def test_which_of_several_calls_counts(name, expected):
    check(name, (f"<thinking>\nt\n</thinking>\n{CLICK}\n{BACK}", SAME, expected))


# --- UI-TARS -----------------------------------------------------------------------------------------------------

# PYTHON: bytedance/UI-TARS at 582f3a7, codes/ui_tars/action_parser.py (parse_action_to_structure_output): the text
# behind the last "Action: ", in which an empty line separates actions, each read with ast. DESKTOP: bytedance/
# UI-TARS-desktop at 239b654, packages/ui-tars/action-parser/src/actionParser.ts: the same, read with patterns.
PYTHON, DESKTOP = "the same: python", "the same: desktop"
THOUGHT = "Thought: t\nAction: "
UI_TARS: list[Row] = [
    (THOUGHT + "click(start_box='(546,602)')", SAME, Tap(500, 250)),
    (THOUGHT + "click(start_box='<|box_start|>(546,602)<|box_end|>')", DESKTOP, Tap(500, 250)),
    (THOUGHT + "click(start_box='(446,502,646,702)')", SAME, Tap(500, 250)),
    (THOUGHT + "click(start_box='[446, 502, 646, 702]')", DESKTOP, Tap(500, 250)),
    (THOUGHT + "click(start_box='546, 602')", SAME, Tap(500, 250)),
    (THOUGHT + "click(start_box=(546,602))", ERROR, Tap(500, 250)),
    (THOUGHT + 'click(start_box="(546.0,602.0)")', SAME, Tap(500, 250)),
    (THOUGHT + "click(start_box='(0546,0602)')", SAME, Tap(500, 250)),
    (THOUGHT + "click(point='<point>546 602</point>')", SAME, Tap(500, 250)),
    (THOUGHT + "click(point='<point>546 602</point>)", ERROR, Tap(500, 250)),
    (THOUGHT + "click(start_box='<bbox>446 502 646 702</bbox>')", DESKTOP, Tap(500, 250)),
    (THOUGHT + "click(start_box='(546,602)'", PYTHON, Tap(500, 250)),
    (THOUGHT + "left_single(start_box='(546,602)')", PYTHON, Tap(500, 250)),
    (THOUGHT + "long_press(start_box='(546,602)', time='')", SAME, LongPress(500, 250)),
    (THOUGHT + "click(start_box='(1093,602)')", "outside the screen", REFUSED),
    (THOUGHT + "click(start_box='=')", ERROR, REFUSED),
    (THOUGHT + "press_home()\n\npress_back()", "the same, and then the other", Home()),
    (THOUGHT + "press_home()\npress_back()", ERROR, REFUSED),
    (THOUGHT + "press_home()\nThought: u\nAction: press_back()", SAME, Back()),
    (THOUGHT + "press_back()\nThis is the way.", ERROR, Back()),
    ("Thought: t\nAction：press_back()", DESKTOP, Back()),
    ("```\nThought: t\nAction: press_back()\n```", ERROR, Back()),
    ("Thought: t\nAction: ```python\npress_back()\n```", ERROR, Back()),
    ("Reflection: r\nAction_Summary: s\nAction: press_back()", SAME, Back()),
    ("press_back()", DESKTOP, Back()),
    (THOUGHT + "type(content='it's 'so'')", PYTHON, Type("it's 'so'")),
    (THOUGHT + 'type(content="it\'s")', DESKTOP, Type("it's")),
    (THOUGHT + r"type(content='it\'s\na (b)')", PYTHON, Type("it's\na (b)")),
    (THOUGHT + "type(content='one\ntwo')", DESKTOP, Type("one\ntwo")),
    (THOUGHT + "finished(content='It's done.')", ERROR, Finish("It's done.")),
    (THOUGHT + "finished(", "the same as finished()", REFUSED),
    (THOUGHT + "type(content='hello", ERROR, REFUSED),
    (THOUGHT + "hotkey(key='enter')", SAME, Enter()),
    (THOUGHT + "scroll(direction='down')", PYTHON, Swipe(499, 499, 499, 319)),
    (THOUGHT + "type(content=open('/etc/passwd').read())", ERROR, REFUSED),
]


@pytest.mark.parametrize("row", UI_TARS, ids=ids)
def test_ui_tars(row):
    check("ui-tars-1.5", row)  # 1080 x 2400 is seen as 1092 x 2408


# --- UI-Venus ----------------------------------------------------------------------------------------------------

# inclusionAI/UI-Venus at c3a1442. NAVI: models/navigation/utils.py (parse_answer) and ui_venus_navi_agent.py, which
# clamps points to the screen. FRAMEWORK: Venus_framework/policy/ui_venus_policy.py (_parse_response), tags optional.
NAVI, FRAMEWORK = "the same: navi", "the same: framework"


def act(code):
    return f"<think>t</think>\n<action>{code}</action>\n<conclusion>c</conclusion>"


UI_VENUS: list[Row] = [
    (act("Click(box=(500,250))"), SAME, Tap(500, 250)),
    (act(" Click(box=(500.2, 249.8)) "), NAVI, Tap(500, 250)),
    (act("Click(box=(0500, 0250))"), SAME, Tap(500, 250)),
    (act("Click(box='(500,250)')"), NAVI, Tap(500, 250)),
    (act("Click(box=[500,250])"), ERROR, Tap(500, 250)),
    (act("Click(box=(400,200,600,300))"), ERROR, Tap(500, 250)),
    (act("Click(box=(1000,250))"), SAME, Tap(999, 250)),
    (act("Click(box=(1001,250))"), "outside the screen", REFUSED),
    (act("Click(box=(500,250))\nType(content='a')"), SAME, Tap(500, 250)),
    (act("Click(box=(500,250)), Type(content='a')"), SAME, Tap(500, 250)),
    (act("PressBack()") + act("PressHome()"), SAME, Back()),
    (act("I go back: PressBack()"), ERROR, Back()),
    (act("```\nPressBack()\n```"), ERROR, Back()),
    ("PressBack()", FRAMEWORK, Back()),
    ("I go back.\nPressBack()", ERROR, REFUSED),
    ("<think>t</think>\n<action>PressBack()", NAVI, Back()),
    (act("Type(content='it's, well (so), a=b')"), "types it's", Type("it's, well (so), a=b")),
    (act("Type(content='one\ntwo')"), NAVI, Type("one\ntwo")),
    (act("Type(content=one two)"), SAME, Type("one two")),
    (act('Type(content="one")'), FRAMEWORK, Type("one")),
    (act("Launch(app=Google Maps)"), SAME, Launch("Google Maps")),
    (act("Scroll(start=(5,9), end=(5,1), direction='up')"), SAME, Swipe(5, 9, 5, 1)),
    (act("Scroll(direction=down)"), NAVI, Swipe(499, 499, 499, 319)),
    (act("Click(box=(500,250)"), ERROR, REFUSED),
    (act("Type(content='one"), ERROR, REFUSED),
    (act("Click(box=(print(1),2))"), ERROR, REFUSED),
]


@pytest.mark.parametrize("row", UI_VENUS, ids=ids)
def test_ui_venus(row):
    check("ui-venus-1.5", row)


def test_ui_venus_clamps_pixels():
    check("ui-venus", (act("Click(box=(2000,602))"), NAVI, Tap(999, 250)))
    check("ui-venus", (act("Click(box=(-1,602))"), ERROR, REFUSED))


# --- mobilerl ----------------------------------------------------------------------------------------------------

# THUDM/MobileRL at 82f3b7e, android_lab/evaluation/utils.py (extract_think_ans) and android_lab/page_executor/
# text_executor.py (TextOnlyExecutor_v4), which strips leading zeros, escapes quotes in texts and calls exec().
MOBILERL: list[Row] = [
    ('<think>t</think>\n<answer>\ndo(action="Tap", element=[400,200,600,300])\n</answer>', SAME, Tap(500, 250)),
    ('<answer>do(action="Tap", element=[0400,0200,0600,0300])</answer>', SAME, Tap(500, 250)),
    ('<answer>do(action="Tap", element=[400.0,200.5,600.0,300.5])</answer>', SAME, Tap(500, 250)),
    ('<answer>do(action="Tap", element=(400,200,600,300))</answer>', ERROR, Tap(500, 250)),
    ('<answer>do(action="Tap", element=[900,900,1000,1000])</answer>', "reads all four as pixels", Tap(949, 949)),
    ('<answer>do(action="Tap", element=[900,900,1001,1000])</answer>', "reads all four as pixels", REFUSED),
    ('<answer>do(action="Type", text="a "b" c")</answer>', SAME, Type('a "b" c')),
    ('<answer>do(action="Type", text="one\ntwo")</answer>', SAME, Type("one\ntwo")),
    ('<answer>finish(message="It is "5".")</answer>', SAME, Finish('It is "5".')),
    ('<answer>```\ndo(action="Back")\n```</answer>', SAME, Back()),
    ('<answer><|begin_of_box|>do(action="Back")<|end_of_box|></answer>', ERROR, Back()),
    ('<answer>do(action="Back")\ndo(action="Home")</answer>', ERROR, REFUSED),
    ('<answer>do(action="Back") to return</answer>', ERROR, REFUSED),
    ('<answer>do(action="Back"); import os</answer>', "runs it", REFUSED),
    ('<answer>do(action="Type", text=open("a").read())</answer>', "runs it", REFUSED),
    ('<answer>do(action="Type", text="a</answer>', ERROR, REFUSED),
]


@pytest.mark.parametrize("row", MOBILERL, ids=ids)
def test_mobilerl(row):
    check("mobilerl", row, "box")


# --- MobileRL-9B ---------------------------------------------------------------------------------------------------

# THUDM/MobileRL at 82f3b7e runs the last line of code with exec(), by which any error ends the episode.
MOBILERL_9B: list[Row] = [
    ('<think>\nt\n</think>\n<answer>\ndo(action="Tap", element=[400,200,600,300])\n</answer>', SAME, Tap(500, 250)),
    ('<think>t</think><answer>do(action="Tap", element=[400,200,600,300])', SAME, Tap(500, 250)),
    ('<think>t</think><ans>do(action="Back")</ans>', SAME, Back()),
    ('<think>t</think>do(action="Back")', SAME, Back()),
    ('do(action="Press Back")', SAME, Back()),
    ('<think>t</think><answer>```python\nx = 1\ndo(action="Home")\n```</answer>', SAME, Home()),
    ('<answer>do(action="Tap", element=[500,250])</answer>', SAME, Tap(500, 250)),
    ('<answer>do(action="Tap", element=[0400,0200,600,300])</answer>', SAME, Tap(500, 250)),
    ('<answer>do(action="Tap", element=[432,1200,648,1200])</answer>', SAME, Tap(499, 499)),  # 540, 1200 of 1080, 2400
    ('<answer>do(action="Long Press", element=[0,0,1000,600])</answer>', SAME, LongPress(462, 124)),
    ('<answer>do(action="Tap", element=[0,0,2000,600])</answer>', "taps beside the screen", REFUSED),
    (
        '<answer>do(action="Swipe", direction="up", dist="short", element=[0,0,998,998])</answer>',
        SAME,
        Swipe(499, 499, 499, 409),
    ),
    ('<answer>do(action="Swipe", direction="left")</answer>', ERROR, Swipe(499, 499, 0, 499)),
    ('<answer>do(action="Type", text="a "b"\nc")</answer>', SAME, Type('a "b"\nc')),
    ('<answer>do(action="Wait")</answer>', SAME, Wait(5.0)),
    ('<answer>finish(message="It is "5".")</answer>', SAME, Finish('It is "5".')),
    ('<answer>do(action="Tap", element=[1e999,2])</answer>', ERROR, REFUSED),
    ("<answer>do(action='Back') and do(action='Home')</answer>", ERROR, REFUSED),
    ("I am done.", ERROR, REFUSED),
    ('<answer>__import__("os").system("true")</answer>', "runs it", REFUSED),
]


@pytest.mark.parametrize("row", MOBILERL_9B, ids=ids)
def test_mobilerl_9b(row):
    check("mobilerl-9b", row)


def test_mobilerl_9b_writes_the_elements_that_it_touches():
    context = make_context(with_format(AgentSection(format="mobilerl-9b"), ""))
    written = context.write_response(Tap(5, 5), SCREEN, "t")
    assert written == '<think>\nt\n</think>\n<answer>\ndo(action="Tap", element=[0,0,999,200])\n</answer>'
    assert context.parse(written, SCREEN).action == Tap(499, 100) and context.parse(written, SCREEN).thought == "t"
    assert context.write_response(Back(), SCREEN) == '<answer>\ndo(action="Back")\n</answer>'
