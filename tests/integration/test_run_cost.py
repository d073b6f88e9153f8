"""What a whole run says that it has cost, with the judge asked here or in worker processes, and over a resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_judge_stand_in import FAILURE, SUCCESS, Asked, stand_in  # noqa: F401

from mobilerl.cli import main
from mobilerl.judge.examples import PROBE
from mobilerl.train.checkpoint import latest
from mobilerl.train.tracking import read_metrics


def answer(asked: Asked) -> str:
    """Only the question that a run asks before it begins is answered by no."""
    return FAILURE if any(PROBE.instruction in text for text in asked.texts) else SUCCESS


def cost(run: Path) -> dict[str, float]:
    """Of the newest row of metrics.jsonl."""
    row = read_metrics(run / "metrics.jsonl")[-1]
    return {name.removeprefix("cost/"): value for name, value in row.items() if name.startswith("cost/")}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_counts_what_it_spends_also_on_iterations_that_are_thrown_away(
    stand_in, tmp_path, capsys, workers  # noqa: F811
):  # fmt: skip
    import torch

    from mobilerl import tiny

    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["a word"], hidden=32, layers=2, heads=2, vision_hidden=16)
    stand_in.answer, run = answer, tmp_path / "run"
    train = ["train", "--model", str(tmp_path / "model"), "--phone.count", "4", "--collect.workers", str(workers),
             "--collect.tasks_per_iteration", "2", "--collect.group_size", "2", "--engine.threads", "1",
             "--algorithm.credit.max_refills", "0", "--train.checkpoint_every", "1", "--train.iterations", "2",
             "--run-dir", str(run), "--judge.url", stand_in.url, "--judge.model", "judge-1",
             "--judge.examples", "none", "--judge.reward", "true", "--judge.unfinished", "judge",
             "--judge.prompt_price", "2000", "--judge.completion_price", "3000"]  # fmt: skip
    assert main(train) == 0
    before = cost(run)
    assert before["judge_requests"] == len(stand_in.asked) - 1 == 8  # all but the question at the start
    assert 0 < before["device_busy_hours"] <= before["device_hours"]

    shutil.rmtree(latest(run))
    assert main([*train, "--resume"]) == 0
    total = cost(run)
    assert [row["iteration"] for row in read_metrics(run / "metrics.jsonl")] == [1, 2]
    assert total["judge_requests"] == len(stand_in.asked) - 2 == 12  # iteration 2 was played and paid for twice
    assert (total["judge_prompt_tokens"], total["judge_completion_tokens"]) == (1200, 240)
    assert total["judge_money"] == pytest.approx(12 * (100 * 2000 + 20 * 3000) / 1e6)
    seconds = read_metrics(run / "metrics.jsonl")[-1]["time_s"]
    assert before["device_hours"] < total["device_hours"] and total["device_hours"] > 0.5 * 4 * seconds / 3600

    last = json.loads((run / "cost.json").read_text())
    assert all(last[name] >= value for name, value in total.items())
    *_, line = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("cost: ") and line.endswith(" busy), 1,440 judge tokens (3.12)")
