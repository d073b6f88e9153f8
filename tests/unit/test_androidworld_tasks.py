"""AndroidWorld's facts, seeds, names, and the guard between training and testing."""

from __future__ import annotations

import pytest

from mobilerl.envs.androidworld.tasks import EVAL_SEEDS, TRAINING_SEED, resolve, trainable


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("markor app", "Markor"),
        ("Calendar", "Simple Calendar Pro"),
        ("simple-sms-messenger", "Simple SMS Messenger"),
        ("Tasks.org", "Tasks"),
        ("OSMAnd", "OsmAnd"),
        ("Phone", "Dialer"),
        ("app", None),
        ("$(reboot)", None),
    ],
)
def test_names_people_use(name, label):
    assert resolve(name) == label


def test_what_is_trained_on():
    assert TRAINING_SEED not in EVAL_SEEDS
    # The folder's name is the clock of the server; the reward of the other is free by design.
    assert trainable(["NotesIsTodo", "MarkorCreateFolder", "SystemWifiTurnOnVerify"]) == ["NotesIsTodo"]
    assert len(trainable()) == 109 and len(trainable(free_reward=True)) == 115
