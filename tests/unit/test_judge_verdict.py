"""Reading verdicts, and the judge's agreement with the verifier."""

import pytest
from scripted_env import make_task

from mobilerl.eval.judge_audit import agreement, audit_pairs
from mobilerl.judge.verdict import Verdict, Vote, read_verdict
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

    asked = Vote(True)
    trajectories = [played(1.0), played(0.0), played(0.0, Status.INFRA_ERROR), played(0.0), played(1.0)]
    verdicts = [
        Verdict(True, asked),
        Verdict(True, asked),
        Verdict(None),
        Verdict(False, reason="the agent did not say that it was done"),
        Verdict(None, Vote(None), "nonsense"),
    ]
    assert audit_pairs(trajectories, verdicts) == [(True, True), (False, True), (True, None)]
