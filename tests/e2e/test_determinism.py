"""Two runs of one recipe give equal metrics, trajectories, weights, critics and replay, bit for bit.

`test_resume.py` shows it of AdaGRPO; here are the recipes with critics and with replay of their own. The two runs are
processes with different hash seeds, so an order that hangs on a set's would show.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_resume import assert_equal_runs, finish, policy  # noqa: F401 - a fixture

from mobilerl.train.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {"train__iterations": 3, "train__updates": 3, "algorithm__loss__kl_coef": 0.0}


@pytest.mark.parametrize("recipe", ["distrl", "filtered_bc"])
def test_two_runs_of_a_recipe_are_equal(policy, tmp_path, monkeypatch, pytestconfig, recipe):  # noqa: F811
    config: Path = pytestconfig.rootpath / "recipes" / f"{recipe}.toml"
    for hash_seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", hash_seed)
        finish(policy, tmp_path / hash_seed, "--config", str(config), "--collect.workers", "0",
               "--collect.max_staleness", "0", **SETTINGS)  # fmt: skip
    assert_equal_runs(tmp_path / "1", tmp_path / "2")
    rows = read_metrics(tmp_path / "1" / "metrics.jsonl")
    assert sum(row.get("train/steps") or 0 for row in rows) >= 3, "nothing was learned: equality says little"
