"""When an evaluation on disk may be gone on with."""

from pathlib import Path

import pytest

from mobilerl.config import ConfigError
from mobilerl.eval.androidlab.store import Store
from mobilerl.eval.protocol import check_protocol

BEFORE = {"seed": 30, "servers": 2, "model": "a", "settle": [1, 2]}


def test_the_first_difference_is_named_with_both_values():
    with pytest.raises(ConfigError) as error:
        check_protocol(
            BEFORE, {"servers": 4, "settle": [1, 2], "prompt": "x" * 500, "model": "b"}, {"servers"}, Path("p")
        )
    said = str(error.value)
    assert said.startswith('p was played with prompt = null and not "xxx') and len(said) < 250
    assert said.endswith("...; choose another --out, or go on with the settings of that one")


def test_what_is_not_known_yet_and_what_may_differ_is_left_alone():
    check_protocol(BEFORE, {"seed": 30, "servers": 4}, {"servers"}, Path("p"))


def test_androidlab_also_minds_a_setting_that_is_gone(tmp_path):
    store = Store(tmp_path)
    store.begin({"rounds": 25, "snapshot": "boot", "retries": 3})
    store.begin({"rounds": 25, "snapshot": "boot"})
    with pytest.raises(ConfigError, match='was played with snapshot = "boot" and not null'):
        store.begin({"rounds": 25})


def test_two_evaluations_do_not_play_into_one_androidlab_folder(tmp_path):
    with Store(tmp_path / "out").alone():
        with pytest.raises(ConfigError, match="being written by another evaluation"), Store(tmp_path / "out").alone():
            pass
    with Store(tmp_path / "out").alone():
        pass
