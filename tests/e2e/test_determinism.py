"""Two runs of one recipe give equal metrics, trajectories, weights, critics and replay, bit for bit.

`test_resume.py` shows it for AdaGRPO; here are the other algorithms. The two runs are processes with different hash
seeds, so an order that depends on a set's would show.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_resume import assert_equal_runs, finish, policy  # noqa: F401 - a fixture

from mobilerl.train.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.mark.parametrize("algorithm", ["gigpo", "distrl"])
def test_two_runs_of_a_recipe_are_equal(policy, tmp_path, monkeypatch, pytestconfig, algorithm):  # noqa: F811
    config: Path = pytestconfig.rootpath / "recipes" / f"{algorithm}.toml"
    settings = {"train__iterations": 3, "collect__workers": 0, "collect__max_staleness": 0}
    if algorithm != "gigpo":
        settings["algorithm__updates"] = 3
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        finish(policy, tmp_path / hash_seed, "--config", str(config), **settings)
    assert_equal_runs(tmp_path / "1", tmp_path / "2")
    rows = read_metrics(tmp_path / "1" / "metrics.jsonl")
    assert sum(row.get("train/steps") or 0 for row in rows) >= 3, "nothing was learned: equality would say little"
