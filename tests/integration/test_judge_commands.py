"""The judge from the command line, against a stand-in server: in an evaluation, and as the reward of a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from judge_stand_in import FAILURE, SUCCESS, Asked, StandIn, stand_in  # noqa: F401

from mobilerl.cli import main
from mobilerl.eval.report import read_results
from mobilerl.judge.examples import PROBE
from mobilerl.models import tiny
from mobilerl.training.checkpoint import latest
from mobilerl.training.tracking import read_metrics


def flags(server: StandIn) -> list[str]:
    return f"--judge.url {server.url} --judge.model judge-1 --judge.examples none".split()


def likes_notes(asked: Asked) -> str:
    """A judge that calls everything about notes a success."""
    return SUCCESS if "note" in " ".join(asked.texts).lower() else FAILURE


def likes_all_but_the_probe(asked: Asked) -> str:
    return FAILURE if any(PROBE.instruction in text for text in asked.texts) else SUCCESS


def evaluate(folder: Path, *words: str) -> int:
    command = f"""eval sim --agent expert --instances 2 --split train --out {folder} --phone.popup_rate 0
        --template NotesDelete --template MusicPause"""
    return main([*command.split(), *words])


def train_command(folder: Path, stand_in: StandIn) -> list[str]:  # noqa: F811
    torch.manual_seed(0)
    tiny.create(folder / "model", ["a word"], hidden=32, layers=2, heads=2, vision_hidden=16)
    command = f"""train --config base/tiny-model --model {folder}/model --run-dir {folder}/run --fleet.count 4
        --algorithm.group_size 2 --engine.threads 1 --judge.reward true --judge.unfinished judge"""
    return [*command.split(), *flags(stand_in)]


def test_an_evaluation_reports_the_agreement_of_the_judge(stand_in, tmp_path):  # noqa: F811
    stand_in.answer = likes_notes
    assert evaluate(tmp_path, *flags(stand_in)) == 0
    results = read_results(tmp_path / "results.json")
    assert results["success_rate"] == 1.0 and results["protocol"]["judge.model"] == "judge-1"
    judge = results["judge"]
    assert (judge["true_positive"], judge["false_negative"], judge["accuracy"]) == (2, 2, 0.5)
    assert judge["verdicts"] == 4 and judge["prompt_tokens"] > 0


def test_a_run_learns_from_the_judge_and_not_from_the_tasks(stand_in, tmp_path):  # noqa: F811
    stand_in.answer = likes_notes
    more = "--train.iterations 1 --rollout.tasks_per_iteration 4 --train.trajectories_every 1".split()
    templates = ["--tasks.templates", json.dumps(["NotesDelete", "MusicPause"])]
    assert main([*train_command(tmp_path, stand_in), *more, *templates]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run/trajectories/iter-000001.jsonl").read_text().splitlines()]
    assert rows and {r["reward"] for r in rows if r["task"]["template"] == "MusicPause"} <= {0.0}
    assert {r["reward"] for r in rows if r["task"]["template"] == "NotesDelete"} <= {1.0}  # though nothing was deleted
    (metrics,) = read_metrics(tmp_path / "run/metrics.jsonl")
    assert metrics["judge/verdicts"] == metrics["rollout/trajectories"] and metrics["judge/no_verdicts"] == 0


def test_an_unusable_judge_ends_the_command_at_once(stand_in, tmp_path, capsys):  # noqa: F811
    stand_in.answers = ("I cannot see pictures.",)
    assert evaluate(tmp_path, *flags(stand_in)) != 0
    assert "gives no verdict" in capsys.readouterr().err and not (tmp_path / "results.json").exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_the_cost_of_a_run_includes_iterations_that_were_lost(stand_in, tmp_path, capsys, workers):  # noqa: F811
    stand_in.answer, run = likes_all_but_the_probe, tmp_path / "run"

    def cost() -> dict[str, float]:
        row = read_metrics(run / "metrics.jsonl")[-1]
        return {name.removeprefix("cost/"): value for name, value in row.items() if name.startswith("cost/")}

    more = f"""--rollout.workers {workers} --rollout.tasks_per_iteration 2 --algorithm.dynamic_sampling false
        --train.checkpoint_every 1 --train.iterations 2"""
    train = [*train_command(tmp_path, stand_in), *more.split()]
    assert main(train) == 0
    before = cost()
    assert before["judge_requests"] == len(stand_in.asked) - 1 == 8  # all but the question at the start
    assert 0 < before["device_busy_hours"] <= before["device_hours"]

    shutil.rmtree(latest(run))
    assert main([*train, "--resume"]) == 0
    total = cost()
    assert total["judge_requests"] == len(stand_in.asked) - 2 == 12  # iteration 2 was collected and paid for twice
    assert (total["judge_prompt_tokens"], total["judge_completion_tokens"]) == (1200, 240)
    assert before["device_hours"] < total["device_hours"]
    last = json.loads((run / "cost.json").read_text())
    assert all(last[name] >= value for name, value in total.items())
    assert "1,440 judge tokens" in capsys.readouterr().out
