"""Reading verdicts, counting votes, and the judge's agreement with the verifier."""

import itertools

import pytest
from scripted_env import make_task

from mobilerl.eval.judge_audit import agreement, audit_pairs
from mobilerl.judge.verdict import Verdict, Vote, read_verdict, tally
from mobilerl.records import Status, Trajectory


@pytest.mark.parametrize(
    ("text", "success"),
    [
        ("Q: an alarm\nA: it is there\nStatus: success", True),
        ("STATUS :  Failure.\n\n", False),
        ("**Status:** `success`", True),
        ("## Status: **failure**", False),
        ("<think>Status: failure? No, it is done.</think>Q: x\nA: y\nStatus: success", True),
        ("<think>hm</think><answer>Status: <|begin_of_box|>failure<|end_of_box|></answer>", False),
        ("Status: success\nOn reflection it holds.\nStatus: success", True),
    ],
)
def test_what_is_read(text, success):
    assert read_verdict(text).success is success


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("Status: success\nI hope this helps!", "status line"),
        ("I would not say Status: success", "status line"),
        ("Status: not a success", "neither"),
        ("Status: success or failure", "neither"),
        ("Status: failure\nWait.\nStatus: success", "different statuses"),
        ("<think>The task is done.\nStatus: success", "reasoning"),
        ("<think>Status: success</think>", "empty"),
        ("Status: " + "x" * 5000, "neither"),
    ],
)
def test_nonsense_is_no_verdict_and_says_why(text, reason):
    reading = read_verdict(text)
    assert reading.success is None and reason in reading.reason
    assert len(reading.reason) < 200 and "\n" not in reading.reason


def poll(responses, wanted):
    """Asks as the judge does; the verdict and the votes that were asked for."""
    votes = []
    while True:
        verdict, more = tally(votes, wanted)
        if not more:
            return verdict, len(votes)
        votes += [Vote(r) for r in responses[len(votes) : len(votes) + more]]
        assert len(votes) <= wanted


@pytest.mark.parametrize("wanted", [1, 3, 5])
def test_a_majority_is_the_same_whether_all_are_asked_or_not(wanted):
    for responses in itertools.product((True, False, None), repeat=wanted):
        verdict, asked = poll(responses, wanted)
        if responses.count(True) > wanted / 2:
            assert verdict is True
        elif responses.count(False) > wanted / 2:
            assert verdict is False
        else:
            assert verdict is None
        assert asked >= min(wanted, wanted // 2 + 1)


def test_votes_that_cannot_change_the_verdict_are_not_asked_for():
    assert poll([True, True, None, None, True], 5) == (True, 5)
    assert poll([True, True, True, False, False], 5) == (True, 3)
    assert poll([False, False, True], 3) == (False, 2)
    assert poll([None, None, True], 3) == (None, 2)


PAIRS = [(True, True)] * 20 + [(False, True)] * 5 + [(True, False)] * 10 + [(False, False)] * 15 + [(True, None)] * 3


def test_agreement_by_hand():
    # Cohen's own kind of table: p_o = 35/50 = 0.7; judge says success 25/50, verifier 30/50:
    # p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5; kappa = (0.7 - 0.5) / (1 - 0.5) = 0.4
    found = agreement(PAIRS)
    counts = ("true_positive", "false_positive", "false_negative", "true_negative", "judged", "no_verdict")
    assert [found[name] for name in counts] == [20, 5, 10, 15, 50, 3]
    assert found["accuracy"] == pytest.approx(0.7)
    assert found["precision"] == pytest.approx(20 / 25)
    assert found["recall"] == pytest.approx(20 / 30)
    assert found["kappa"] == pytest.approx(0.4)
    # Wilson, n = 50, p = 0.7, z^2 = 3.841459: center (0.7 + 0.0384146) / 1.0768292 = 0.685730,
    # half 1.959964 * sqrt(0.0042 + 0.000384146) / 1.0768292 = 0.123234
    assert found["accuracy_ci95"] == pytest.approx([0.562496, 0.808964], abs=1e-6)


def test_infrastructure_errors_and_verdicts_by_rule_are_left_out():
    def played(reward, status=Status.FINISHED):
        return Trajectory("t", make_task(), (), reward, status, "d0")

    asked = (Vote(True),)
    trajectories = [played(1.0), played(0.0), played(0.0, Status.INFRA_ERROR), played(0.0), played(1.0)]
    verdicts = [
        Verdict(True, asked),
        Verdict(True, asked),
        Verdict(None),
        Verdict(False, reason="the agent did not say that it was done"),
        Verdict(None, (Vote(None),), "nonsense"),
    ]
    assert audit_pairs(trajectories, verdicts) == [(True, True), (False, True), (True, None)]
