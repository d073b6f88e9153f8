"""Golden pairs of a recorded and a proposed action, by kind: whether the proposal's thought is kept."""

import pytest

from mobilerl.envs.base import Back, Enter, Finish, Home, Invalid, Launch, LongPress, Swipe, Tap, Type, Wait
from mobilerl.policy.screen import Screen, parse_screen
from mobilerl.sft.matching import matches, token_f1

XML = """<hierarchy>
<node class="Button" text="Save" clickable="true" bounds="[0,0][50,50]"/>
<node class="Row" text="Song" clickable="true" bounds="[0,50][100,100]">
  <node class="Button" text="Delete" clickable="true" bounds="[80,60][100,90]"/>
</node>
<node class="List" scrollable="true" bounds="[0,100][100,200]">
  <node class="Text" text="Wi-Fi" bounds="[0,100][100,120]"/>
  <node class="Text" text="Sound" bounds="[0,120][100,140]"/>
</node>
</hierarchy>"""
SCREEN = parse_screen(XML, 100, 200)
BARE = Screen((), 100, 200)
"""A screen whose elements are not known."""
SAVE, SAVE_EDGE, SONG, DELETE = Tap(250, 125), Tap(10, 10), Tap(250, 375), Tap(900, 375)
WIFI, SOUND, BLANK = Tap(100, 550), Tap(100, 650), Tap(500, 900)


@pytest.mark.parametrize(
    ("recorded", "proposed", "same"),
    [
        (SAVE, SAVE_EDGE, True),  # another point of the same button
        (SAVE, SONG, False),
        (SONG, DELETE, False),  # a button inside the row
        (DELETE, SONG, False),
        (SAVE, LongPress(250, 125), False),
        (LongPress(250, 125), LongPress(10, 10), True),
        (WIFI, Tap(900, 550), True),  # a row that cannot be acted on by itself, in a list
        (WIFI, SOUND, False),
        (BLANK, Tap(500, 800), True),  # the rest of the list, 0.1 of the screen's height away
        (BLANK, Tap(500, 720), False),  # 0.18
        (BLANK, SOUND, False),
    ],
)
def test_touches_of_known_elements(recorded, proposed, same):
    assert matches(proposed, recorded, SCREEN) is same


@pytest.mark.parametrize(
    ("proposed", "same"),
    # 0.14 of 999 is 139.86
    [
        (Tap(639, 500), True),
        (Tap(640, 500), False),
        (Tap(500, 361), True),
        (Tap(600, 600), False),
        (Tap(598, 598), True),
    ],
)
def test_touches_where_no_element_is_known(proposed, same):
    assert matches(proposed, Tap(500, 500), BARE) is same


@pytest.mark.parametrize(
    ("recorded", "proposed", "same"),
    [
        (Swipe(499, 499, 499, 0), Swipe(500, 700, 500, 600), True),  # both up; distance and place do not matter
        (Swipe(499, 499, 499, 0), Swipe(499, 499, 499, 999), False),
        (Swipe(499, 499, 0, 499), Swipe(800, 400, 300, 420), True),  # both left
        (Type("Milk"), Type(" milk "), True),
        (Type("buy milk and two eggs today"), Type("Buy milk and 2 eggs today"), True),  # F1 5 / 6
        (Type("buy milk and eggs"), Type("buy bread and eggs"), False),  # 3 / 4
        (Type("17"), Type("18"), False),
        (Type("7:30"), Type("7.30"), True),
        (Type("!?"), Type("!?"), True),
        (Type("!?"), Type("?"), False),
        (Launch("Zoho Meeting"), Launch("zoho-meeting"), True),
        (Launch("Maps"), Launch("Google Maps"), False),
        (Finish("17"), Finish("17 "), True),
        (Finish("17"), Finish("It is 17"), False),
        (Finish(), Finish("The note is saved."), True),  # no answer was recorded
        (Finish(), Finish("Infeasible"), False),
        (Finish("infeasible"), Finish(), False),
        (Wait(), Wait(5.0), True),
        (Back(), Back(), True),
        (Back(), Home(), False),
        (Enter(), Enter(), True),
        (Tap(1, 2), Invalid("x"), False),
    ],
)
def test_other_actions(recorded, proposed, same):
    assert matches(proposed, recorded, BARE) is same


def test_repeated_words_count_as_often_as_they_occur():
    assert token_f1("a a b", "a b b") == pytest.approx(2 / 3)
    assert token_f1("a", "") == 0.0 and token_f1("", "") == 1.0
