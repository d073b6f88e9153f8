"""AndroidLab's compressed tree, against trees worked out by hand from its rules."""

from __future__ import annotations

import pytest

from envs.androidlab.compress import ROOT, compressed_tree

ATTRIBUTES = ("checkable", "checked", "clickable", "focusable", "scrollable", "long-clickable", "password", "selected")


def node(bounds, *inner, cls="android.view.View", text="", desc="", id="", on=()):
    """A node of a dump; `bounds` is "x1,y1,x2,y2"."""
    x1, y1, x2, y2 = bounds.split(",")
    flags = " ".join(f'{name}="{str(name in on).lower()}"' for name in ATTRIBUTES)
    return (
        f'<node index="0" text="{text}" resource-id="{id}" class="{cls}" package="p" content-desc="{desc}" {flags} '
        f'enabled="true" focused="false" bounds="[{x1},{y1}][{x2},{y2}]">{"".join(inner)}</node>'
    )


def tree(*nodes):
    xml = f"<?xml version='1.0' encoding='UTF-8' ?><hierarchy rotation=\"0\">{''.join(nodes)}</hierarchy>"
    compressed = compressed_tree(xml)
    assert list(compressed) == [ROOT]
    return compressed[ROOT]


def test_names_hold_class_actions_states_and_texts():
    field = node("0,0,9,9", cls="android.widget.EditText", text="a b", desc="Name", on=("clickable", "long-clickable"))
    assert tree(field) == {"[n0001] EditText ;click long-click ; ;;a b Name ": {"bounds": "[0,0][9,9]"}}
    switch = node("0,0,9,9", cls="android.widget.Switch", on=("checkable", "clickable"))
    assert list(tree(switch)) == ["[n0001] Switch ;click check ; unchecked ;;"]
    checked = node("0,0,9,9", cls="android.widget.Switch", on=("checkable", "checked", "scrollable"))
    assert list(tree(checked)) == ["[n0001] Switch ;scroll check ; checked ;;"]
    secret = node("0,0,9,9", cls="android.widget.EditText", on=("password", "selected", "focusable"))
    assert list(tree(secret)) == [
        "[n0001] EditText ;focusable ; password selected ; you can input password,  selected, ;"
    ]
    # The classes of plain boxes are not named, and line breaks are taken out of texts.
    for cls in ("View", "FrameLayout", "LinearLayout", "RelativeLayout"):
        assert list(tree(node("0,0,9,9", cls=f"android.x.{cls}", text="one&#10;two"))) == ["[n0001] ;; ;;onetwo "]
    assert list(tree(node("0,0,9,9", cls="android.view.ViewGroup", text="x"))) == ["[n0001] ViewGroup ;; ;;x "]


def test_what_neither_says_nor_does_anything_is_dropped_but_not_what_is_in_it():
    inner = node("0,0,9,9", text="deep")
    outer = node("0,0,99,99", node("0,0,50,50", inner), node("60,60,99,99", text="beside"), on=("focusable",))
    assert tree(outer) == {
        "[n0001] ;focusable ; ;;": {
            "bounds": "[0,0][99,99]",
            "[n0002] ;; ;;deep ": {"bounds": "[0,0][9,9]"},
            "[n0003] ;; ;;beside ": {"bounds": "[60,60][99,99]"},
        }
    }


def test_nodes_without_area_and_outside_of_their_kept_parent_are_dropped():
    flat = node("5,5,5,9", node("5,5,9,9", text="kept"), text="flat", on=("clickable",))
    assert list(tree(flat)) == ["[n0001] ;; ;;kept "]
    assert tree(node("-4,0,9,9", text="half off")) == {}
    sticking_out = node("0,0,20,20", node("10,10,30,15", text="out"), node("1,1,2,2", text="in"), on=("clickable",))
    assert list(tree(sticking_out)["[n0001] ;click ; ;;"]) == ["bounds", "[n0002] ;; ;;in "]
    # The parent that counts is the one that was kept: the small box between them is gone.
    between = node("0,0,40,40", node("0,0,20,20", node("10,10,30,15", text="out")), on=("clickable",))
    assert list(tree(between)["[n0001] ;click ; ;;"]) == ["bounds", "[n0002] ;; ;;out "]


def test_what_a_later_sibling_covers_makes_room_for_what_is_not_covered():
    page = node(
        "0,0,100,100",
        node("0,0,100,50", node("0,0,10,10", text="free"), node("0,40,90,50", text="half"), on=("clickable",)),
        node("0,50,100,100", text="covered whole"),
        text="page",
    )
    sheet = node("0,45,100,100", text="sheet")
    # The page goes; of its first child, which the sheet touches, only what the sheet does not touch moves up.
    assert list(tree(page, sheet)) == ["[n0001] ;; ;;free ", "[n0002] ;; ;;sheet "]
    # Edges that only touch do not overlap.
    assert len(tree(node("0,0,9,9", text="a"), node("9,0,20,9", text="b"))) == 2
    # What moved up is looked at in its new place: the second sheet covers it.
    second = node("0,0,20,20", text="second")
    assert list(tree(page, sheet, second)) == ["[n0001] ;; ;;sheet ", "[n0002] ;; ;;second "]


def test_the_numbers_of_a_clock_face_can_be_touched():
    face = node("0,0,99,99", node("0,0,9,9", text="6"), id="com.x:id/material_clock_face", on=("focusable",))
    assert list(tree(face)["[n0001] ;focusable ; ;;"]) == ["bounds", "[n0002] ;click; ;;6 "]
    # Also those that a sheet over the dial has moved out of it.
    assert list(tree(face, node("50,50,99,99", text="sheet"))) == ["[n0001] ;click; ;;6 ", "[n0002] ;; ;;sheet "]


def test_equal_dumps_give_equal_trees_and_ids_do_not_repeat():
    many = [node(f"0,{10 * i},9,{10 * i + 9}", text="same") for i in range(300)]
    assert tree(*many) == tree(*many) and len(tree(*many)) == 300


@pytest.mark.parametrize("xml", ["", "<hierarchy>", "<!DOCTYPE a [<!ENTITY b 'c'>]><hierarchy/>", "\ud800"])
def test_unreadable_dumps(xml):
    with pytest.raises(ValueError, match="unreadable UI dump"):
        compressed_tree(xml)


def test_nodes_without_the_attributes_of_uiautomator():
    xml = (
        '<hierarchy><node bounds="[0,0][9,9]" text="t"/><node text="no bounds"/><node bounds="x" text="y"/></hierarchy>'
    )
    assert compressed_tree(xml) == {ROOT: {"[n0001] ;; ;;t ": {"bounds": "[0,0][9,9]"}}}
