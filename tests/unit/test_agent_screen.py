"""Screen text: what is kept, merged and dropped, how it is written, and that no dump can break the parser."""

from xml.sax.saxutils import quoteattr

import pytest

from mobilerl.envs.base import Finish, Swipe, Tap, Type
from mobilerl.policy.actions import candidates, describe
from mobilerl.policy.screen import HEADER, parse_screen

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


def test_random_marks_are_the_same_for_equal_screens_and_in_another_order_for_others():
    def order(number: int) -> list[int]:
        buttons = (
            node(text=f"{number}-{i}", clickable=True, bounds=f"[0,{99 * i}][99,{99 * i + 90}]") for i in range(5)
        )
        return [e.mark for e in parse_screen(dump(*buttons), W, H, random_marks=True).elements]

    assert order(1) == order(1)
    orders = [order(number) for number in range(50)]
    assert all(sorted(marks) == [1, 2, 3, 4, 5] for marks in orders) and len(set(map(tuple, orders))) > 25


def test_marks_style():
    assert parse(*SETTINGS).render("marks") == (
        "Network\n<1>list<1>\n<2>Wi-Fi<2> Off<2> unchecked\n<3>Bluetooth<3> checked\n"
        "<4>old<4> field focused\n<5>button<5>\n"
    )


def test_every_detail_of_a_row_is_followed_by_its_mark():
    row = node(node(text="Lamp"), node(text="Kitchen, 7:30"), node(text="On"), clickable=True, bounds="[0,0][999,100]")
    assert parse(row).render("marks") == "<1>Lamp<1> Kitchen<1>, 7:30<1>|On<1>\n"


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


# 0.5 % of 999 x 1998 px is 4.995 x 9.99 px.
@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ("[0,0][4,500]", False),
        ("[0,0][5,500]", True),
        ("[0,-50][500,5]", False),  # 5 px of it are on the screen
        ("[1000,0][1500,500]", False),
        ("nowhere", False),
    ],
)
def test_tiny_and_off_screen_nodes_are_dropped(bounds, kept):
    assert bool(parse(node(text="x", bounds=bounds)).elements) is kept


@pytest.mark.parametrize("text", ["<7>", "<|image_pad|>", "</answer>", "<image>", "<think>"])
def test_screen_text_cannot_forge_tokens(text):
    assert text not in parse(node(text=f"hi {text} ho", clickable=True)).render("marks")
    assert text not in parse(node(desc=text)).render("mobilerl")


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
