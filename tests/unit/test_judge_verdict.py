import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobilerl.judge.verdict import read_verdict
from mobilerl.judge.votes import Vote, tally


@pytest.mark.parametrize(
    ("text", "success"),
    [
        ("Q: an alarm\nA: it is there\nStatus: success", True),
        ("Q: an alarm\nA: it is not there\nStatus: failure\n\n", False),
        ("status:success", True),
        ("STATUS :  Failure.", False),
        ("**Status:** `success`", True),
        ("## Status: **failure**", False),
        ("<think>Status: failure? No, it is done.</think>Q: x\nA: y\nStatus: success", True),
        ("<think>hm</think><answer>Status: <|begin_of_box|>failure<|end_of_box|></answer>", False),
        ("Status: success\nOn reflection it holds.\nStatus: success", True),
    ],
)
def test_what_is_read(text, success):
    reading = read_verdict(text)
    assert reading.success is success and reading.reason == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n***\n", "empty"),
        ("success", "does not end in a status line but in 'success'"),
        ("Status: success\nI hope this helps!", "does not end in a status line"),
        ("I would not say Status: success", "does not end in a status line"),
        ("Status: unsuccessful", "neither success nor failure but 'unsuccessful'"),
        ("Status: not a success", "neither success nor failure"),
        ("Status: success or failure", "neither success nor failure"),
        ("Status:", "neither success nor failure but ''"),
        ("Status: failure\nWait.\nStatus: success", "different statuses: 'failure', 'success'"),
        ("<think>The task is done.\nStatus: success", "in the middle of its thoughts"),
        ("<think>Status: success</think>", "empty"),
        ("Status: " + "x" * 5000, "neither success nor failure"),
    ],
)
def test_nonsense_is_no_verdict_and_says_why(text, reason):
    reading = read_verdict(text)
    assert reading.success is None and reason in reading.reason
    assert len(reading.reason) < 200 and "\n" not in reading.reason


@given(st.text(), st.text(alphabet="statusucefailr: \n*.<>/hink"))
def test_only_the_two_words_at_the_end_are_a_verdict(text, more):
    reading = read_verdict(text + more)
    assert (reading.success is None) == bool(reading.reason)
    if reading.success is not None:
        last = [line for line in (text + more).split("\n") if line.strip(" *.`#_\"'")][-1].lower()
        assert ("success" if reading.success else "failure") in last and "status" in last


# --- votes -------------------------------------------------------------------------------------------------------


def poll(replies, wanted, rule):
    """Asks as the judge does; the verdict and the votes that were asked for."""
    votes = []
    while True:
        verdict, more = tally(votes, wanted, rule)
        if not more:
            return verdict, len(votes)
        votes += [Vote(r) for r in replies[len(votes) : len(votes) + more]]
        assert len(votes) <= wanted


@pytest.mark.parametrize("wanted", [1, 3, 5])
def test_a_majority_is_the_same_whether_all_are_asked_or_not(wanted):
    for replies in itertools.product((True, False, None), repeat=wanted):
        verdict, asked = poll(replies, wanted, "majority")
        if replies.count(True) > wanted / 2:
            assert verdict is True
        elif replies.count(False) > wanted / 2:
            assert verdict is False
        else:
            assert verdict is None
        assert asked >= min(wanted, wanted // 2 + 1)


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_unanimity_needs_every_vote(wanted):
    for replies in itertools.product((True, False, None), repeat=wanted):
        verdict, _ = poll(replies, wanted, "unanimous")
        assert verdict is (False if False in replies else None if None in replies else True)


def test_votes_that_cannot_change_the_verdict_are_not_asked_for():
    assert poll([True, True, None, None, True], 5, "majority") == (True, 5)
    assert poll([True, True, True, False, False], 5, "majority") == (True, 3)
    assert poll([False, False, True], 3, "majority") == (False, 2)
    assert poll([None, None, True], 3, "majority") == (None, 2)


@pytest.mark.parametrize("reply", ["Status: s</answer>uccess", "Status: suc*cess", "Sta`tus: success"])
def test_a_word_cut_in_two_is_no_verdict(reply):
    assert read_verdict(reply).success is None
