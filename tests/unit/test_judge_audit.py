import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_env import make_task

from mobilerl.judge.audit import agreement, audit_pairs
from mobilerl.judge.votes import Verdict, Vote
from mobilerl.records import Status, Trajectory

PAIRS = [(True, True)] * 20 + [(False, True)] * 5 + [(True, False)] * 10 + [(False, False)] * 15 + [(True, None)] * 3


def test_agreement_by_hand():
    # Cohen's own kind of table: p_o = 35/50 = 0.7; judge says success 25/50, verifier 30/50:
    # p_e = 0.5 * 0.6 + 0.5 * 0.4 = 0.5; kappa = (0.7 - 0.5) / (1 - 0.5) = 0.4
    found = agreement(PAIRS)
    assert (found.true_positive, found.false_positive, found.false_negative, found.true_negative) == (20, 5, 10, 15)
    assert (found.judged, found.no_verdict) == (50, 3)
    assert found.accuracy == pytest.approx(0.7)
    assert found.precision == pytest.approx(20 / 25)
    assert found.recall == pytest.approx(20 / 30)
    assert found.kappa == pytest.approx(0.4)
    # Wilson, n = 50, p = 0.7, z^2 = 3.841459: centre (0.7 + 0.0384146) / 1.0768292 = 0.685730,
    # half 1.959964 * sqrt(0.0042 + 0.000384146) / 1.0768292 = 0.123234
    assert found.accuracy_ci95.low == pytest.approx(0.562496, abs=1e-6)
    assert found.accuracy_ci95.high == pytest.approx(0.808964, abs=1e-6)


def test_rates_that_do_not_exist_are_none():
    nothing = agreement([(True, None)])
    assert (nothing.accuracy, nothing.precision, nothing.recall, nothing.kappa) == (None, None, None, None)
    assert (nothing.accuracy_ci95.low, nothing.accuracy_ci95.high) == (0.0, 1.0)
    always = agreement([(True, True)] * 7)
    assert always.accuracy == always.precision == always.recall == 1.0 and always.kappa is None
    assert agreement([(False, False)] * 4).precision is None


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([True, False, None])), max_size=30))
def test_a_report_is_json_and_kappa_has_its_known_values(pairs):
    found = agreement(pairs)
    report = json.loads(json.dumps(found.report(), allow_nan=False))
    assert report["judged"] + report["no_verdict"] == len(pairs)
    if found.kappa is not None:
        assert -1 <= found.kappa <= 1
        assert (found.kappa == 1) == (found.accuracy == 1)
    # A judge that always says the same is right by chance alone.
    same = agreement([(truth, True) for truth, _ in pairs] + [(False, True)])
    assert same.kappa == 0


def test_what_says_nothing_of_the_model_is_left_out():
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
