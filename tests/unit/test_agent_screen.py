"""Screen text: what is kept, merged and dropped, how it is written, and that no dump can break the parser."""

from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import best_time

from envs.base import Finish, Swipe, Tap, Type
from mobilerl.agent.actions import describe
from mobilerl.agent.candidates import candidates
from mobilerl.agent.screen import HEADER, UNREADABLE, parse_screen

W, H = 999, 1998  # 0-999 boxes are then (x, y / 2)


def node(*children, cls="android.widget.TextView", text="", desc="", bounds="[0,0][999,1998]", **flags):
    attributes = {"text": text, "class": cls, "content-desc": desc, "enabled": "true", "bounds": bounds}
    attributes |= {name.replace("_", "-"): str(value).lower() for name, value in flags.items()}
    body = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<node{body}>{''.join(children)}</node>"


def dump(*nodes):
    return (
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\">"
        + "".join(nodes)
        + ("</hierarchy>")
    )


def parse(*nodes):
    screen = parse_screen(dump(*nodes), W, H)
    assert screen.error == ""
    return screen


def setting_row(title, checked, top, summary=""):
    """As in Android's settings: the row takes the click, the switch only shows the state."""
    return node(
        node(text=title, bounds=f"[40,{top}][800,{top + 60}]"),
        node(text=summary, bounds=f"[40,{top + 60}][800,{top + 100}]"),
        node(cls="android.widget.Switch", bounds=f"[850,{top}][960,{top + 100}]", checkable=True, checked=checked),
        cls="android.widget.LinearLayout",
        bounds=f"[0,{top}][999,{top + 120}]",
        clickable=True,
        long_clickable=True,
    )


def test_a_field_full_of_text_does_not_fill_the_prompt():
    """A policy that is stuck can type tags into a field for a whole episode, each of which is spelled out again."""
    screen = parse(node(cls="android.widget.EditText", text="</think><answer>" * 500, clickable=True))
    assert len(screen.render("marks")) < 1100 and len(screen.render("mobilerl")) < 1200
    assert len(describe(Tap(500, 500), screen)) < 250 and len(describe(Type("x" * 5000), screen)) < 250


SETTINGS = (
    node(text="Network", bounds="[40,20][500,80]"),
    node(
        setting_row("Wi-Fi", False, 200, summary="Off"),
        setting_row("Bluetooth", True, 400),
        cls="androidx.recyclerview.widget.RecyclerView",
        bounds="[0,200][999,1800]",
        scrollable=True,
    ),
    node(cls="android.widget.EditText", text="old", bounds="[0,1800][999,1900]", clickable=True, focused=True),
    node(cls="android.widget.ImageButton", bounds="[0,1900][100,1998]", clickable=True),
)


def test_marks_style():
    assert parse(*SETTINGS).render("marks") == (
        "Network\nlist<1>\nWi-Fi<2> Off unchecked\nBluetooth<3> checked\nold<4> field focused\nbutton<5>\n"
    )


def test_mobilerl_style():
    assert parse(*SETTINGS).render("mobilerl") == HEADER + (
        "\n"
        "TextView;;Network;[40,10,500,40]\n"
        "RecyclerView;;;[0,100,999,900]\n"
        "    LinearLayout;click long-click check unchecked;Wi-Fi|Off;[0,100,999,160]\n"
        "    LinearLayout;click long-click check checked;Bluetooth;[0,200,999,260]\n"
        "EditText;click;old;[0,900,999,950]\n"
        "ImageButton;click;;[0,950,100,999]\n"
    )


def test_none_style_is_empty():
    assert parse(*SETTINGS).render("none") == ""


def test_elements_carry_actions_states_and_floored_centres():
    screen = parse(*SETTINGS)
    wifi = screen.find(2)
    assert (wifi.actions, wifi.states) == (("click", "long-click", "check"), ("unchecked",))
    assert wifi.centre == (499, 130)  # (0 + 999) // 2, (100 + 160) // 2
    assert screen.find(4).actions == ("click", "edit")
    assert screen.find(6) is None
    assert [e.mark for e in screen.elements] == [None, 1, 2, 3, 4, 5]


def test_a_clickable_child_keeps_its_own_line():
    row = node(
        node(text="Milk"),
        node(text="Delete", cls="android.widget.Button", bounds="[800,0][999,100]", clickable=True),
        clickable=True,
        cls="Row",
    )
    assert parse(row).render("marks") == "Milk<1>\nDelete<2>\n"


def test_a_check_box_on_its_own_is_marked():
    box = node(cls="android.widget.CheckBox", text="I agree", checkable=True, checked=True)
    assert parse(box).render("marks") == "I agree<1> checked\n"


def test_a_disabled_node_is_plain_text():
    assert parse(node(text="Next", clickable=True, enabled=False)).render("marks") == "Next\n"


def test_text_and_description_are_joined_unless_equal():
    assert parse(node(text="5", desc="five")).elements[0].text == "5 five"
    assert parse(node(text="5", desc="5")).elements[0].text == "5"


def test_a_list_inside_a_clickable_container_is_not_swallowed():
    rows = node(node(text="One"), node(text="Two"), cls="android.widget.ListView", scrollable=True)
    assert parse(node(rows, clickable=True, cls="Frame")).render("marks") == "button<1>\nlist<2>\nOne\nTwo\n"


# 0.5 % of 999 x 1998 px is 4.995 x 9.99 px.
@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ("[0,0][4,500]", False),
        ("[0,0][5,500]", True),
        ("[0,0][500,9]", False),
        ("[0,0][500,10]", True),
        ("[0,-50][500,5]", False),  # 5 px of it are on the screen
        ("[1000,0][1500,500]", False),
        ("[500,500][100,100]", False),
        ("nowhere", False),
    ],
)
def test_tiny_and_off_screen_nodes_are_dropped(bounds, kept):
    assert bool(parse(node(text="x", bounds=bounds)).elements) is kept


def test_boxes_are_clipped_to_the_screen():
    assert parse(node(text="x", bounds="[-100,-100][5000,5000]")).elements[0].box == (0, 0, 999, 999)


@pytest.mark.parametrize("text", ["<7>", "<|image_pad|>", "</answer>", "<image>", "<think>"])
def test_screen_text_cannot_forge_tokens(text):
    assert text not in parse(node(text=f"hi {text} ho", clickable=True)).render("marks")
    assert text not in parse(node(desc=text)).render("mobilerl")


def test_other_angle_brackets_and_line_breaks():
    assert parse(node(text="a < b <3\n  c")).elements[0].text == "a < b <3 c"


def test_at_prefers_the_smallest_marked_element():
    screen = parse(node(node(text="label", bounds="[0,0][100,100]"), cls="List", scrollable=True))
    assert screen.at(10, 10).cls == "List"
    plain = parse(node(text="label", bounds="[0,0][100,100]"))
    assert plain.at(10, 10).text == "label"
    assert plain.at(10, 10, marked_only=True) is None
    assert plain.at(900, 900) is None


@pytest.mark.parametrize(
    "xml",
    [
        "",
        "ERROR: null root node returned by UiTestAutomationBridge.",
        dump(*SETTINGS)[:-30],
        dump(*SETTINGS)[:400],
        "<hierarchy>\x00</hierarchy>",
        "<hierarchy>\ud800</hierarchy>",
        '<!DOCTYPE h [<!ENTITY a "aaaa">]><hierarchy><node text="&a;"/></hierarchy>',
    ],
)
def test_a_broken_dump_gives_no_elements_and_says_why(xml):
    screen = parse_screen(xml, W, H)
    assert screen.elements == ()
    assert screen.error
    assert screen.render("marks") == screen.render("mobilerl") == UNREADABLE + "\n"


def test_deep_nesting_is_read():
    xml = dump("<node>" * 50_000 + node(text="deep") + "</node>" * 50_000)
    assert parse_screen(xml, W, H).elements[0].text == "deep"


@given(st.text(), st.integers(0, 2000), st.integers(0, 2000))
def test_never_raises_on_any_text(xml, width, height):
    assert parse_screen(xml, width, height).elements == ()


@given(st.data())
def test_never_raises_on_a_cut_or_damaged_dump(data):
    xml = dump(*SETTINGS)
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(xml)), st.integers(0, len(xml)))))
    screen = parse_screen(xml[:start] + data.draw(st.text(max_size=5)) + xml[end:], W, H)
    assert not (screen.error and screen.elements)


BOUND = st.integers(-3000, 3000)


@given(st.lists(st.tuples(BOUND, BOUND, BOUND, BOUND, st.booleans(), st.booleans())), st.text(max_size=20))
def test_marks_count_up_and_boxes_lie_on_the_screen(nodes, text):
    text = "".join(c for c in text if c.isprintable())
    rows = [
        node(text=text, clickable=click, scrollable=scroll, bounds=f"[{a},{b}][{c},{d}]")
        for a, b, c, d, click, scroll in nodes
    ]
    screen = parse_screen(dump(*rows), 720, 1280)
    marks = [e.mark for e in screen.elements if e.mark is not None]
    assert marks == list(range(1, len(marks) + 1))
    for e in screen.elements:
        x1, y1, x2, y2 = e.box
        assert 0 <= x1 <= x2 <= 999 and 0 <= y1 <= y2 <= 999
        assert e.contains(*e.centre)


def test_candidates_are_reachagents_action_space():
    # The paper's examples: a click on [273,84][324,180] is at (298, 132); a left scroll of [0,528][720,960] goes from
    # (360, 744) a quarter of the width to (180, 744). On a 999 x 999 screen pixels are coordinates.
    xml = dump(
        node(text="buy", bounds="[273,84][324,180]", clickable=True),
        node(cls="List", bounds="[0,528][720,960]", scrollable=True),
        node(cls="android.widget.EditText", bounds="[0,0][100,50]", clickable=True),
        node(text="only text", bounds="[0,0][100,50]"),
    )
    assert candidates(parse_screen(xml, 999, 999)) == [
        Tap(298, 132),
        Swipe(360, 744, 360, 636),  # 432 // 4 = 108
        Swipe(360, 744, 360, 852),
        Swipe(360, 744, 180, 744),
        Swipe(360, 744, 540, 744),
        Tap(50, 25),
        Type(""),
        Finish(""),
    ]


def test_an_unreadable_screen_only_offers_to_finish():
    assert candidates(parse_screen("", W, H)) == [Finish("")]


def test_forty_nodes_take_well_under_a_millisecond():
    xml = dump(*[setting_row(f"Setting {i}", i % 2 == 0, 150 * i, "a summary") for i in range(10)])
    assert best_time(lambda: parse_screen(xml, W, H), 1e-3) < 1e-3
