"""The judge from the command line, against a stand-in server: as the reward of a run, and audited by an evaluation."""

from __future__ import annotations

import json

import pytest
from test_judge_stand_in import FAILURE, SUCCESS, Asked, StandIn, completion, error, stand_in  # noqa: F401

from mobilerl.cli import main
from mobilerl.eval.report import read_results
from mobilerl.train.tracking import read_metrics


def flags(server: StandIn, **wanted: object) -> list[str]:
    values = {"url": server.url, "model": "judge-1", "examples": "none"} | wanted
    return [word for name, value in values.items() for word in (f"--judge.{name}", str(value))]


def likes_notes(asked: Asked):
    """A judge that calls everything about notes a success."""
    return completion(SUCCESS if "note" in " ".join(asked.texts).lower() else FAILURE)


def evaluated(folder, *words: str) -> dict:
    templates = [w for name in ("NotesDelete", "MusicPause") for w in ("--template", name)]
    assert main(["eval", "sim", "--agent", "expert", "--instances", "2", "--split", "train", "--out", str(folder),
                 "--phone.popup_rate", "0", *templates, *words]) == 0  # fmt: skip
    return read_results(folder / "results.json")


def test_an_evaluation_says_how_far_the_judge_agrees(stand_in, tmp_path, capsys):  # noqa: F811
    stand_in.answer = likes_notes
    results = evaluated(tmp_path, *flags(stand_in))
    assert results["success_rate"] == 1.0 and results["protocol"]["judge.model"] == "judge-1"
    judge = results["judge"]
    assert (judge["true_positive"], judge["false_negative"], judge["accuracy"]) == (2, 2, 0.5)
    assert judge["verdicts"] == 4 and judge["prompt_tokens"] > 0
    assert "judge" not in evaluated(tmp_path / "without")


def test_what_was_played_is_kept_when_the_judge_fails_and_judged_later(stand_in, tmp_path, capsys):  # noqa: F811
    asked = 0

    def broke(question: Asked):
        nonlocal asked
        asked += 1
        return likes_notes(question) if asked <= 2 else error(402, "no money left")

    stand_in.answer = broke
    with pytest.raises(AssertionError):
        evaluated(tmp_path, *flags(stand_in), "--keep")
    assert f"the results without the judge are in {tmp_path / 'results.json'}" in capsys.readouterr().err
    results = read_results(tmp_path / "results.json")
    assert results["success_rate"] == 1.0 and "judge" not in results and (tmp_path / "trajectories").is_dir()
    stand_in.answer = likes_notes
    assert evaluated(tmp_path, *flags(stand_in), "--keep", "--reuse")["judge"]["verdicts"] == 4


def test_a_run_learns_from_the_judge_and_not_from_the_tasks(stand_in, tmp_path):  # noqa: F811
    import torch

    from mobilerl import tiny

    stand_in.answer = likes_notes
    torch.manual_seed(0)
    tiny.create(tmp_path / "model", ["a word"], hidden=32, layers=2, heads=2, vision_hidden=16)
    train = ["train", "--model", str(tmp_path / "model"), "--phone.count", "4", "--train.iterations", "1",
             "--collect.tasks_per_iteration", "4", "--collect.group_size", "2", "--engine.threads", "1",
             "--tasks.templates", json.dumps(["NotesDelete", "MusicPause"]), "--train.trajectories_every", "1",
             "--run-dir", str(tmp_path / "run")]  # fmt: skip
    assert main([*train, *flags(stand_in, reward="true", unfinished="judge")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run/trajectories/iter-000001.jsonl").read_text().splitlines()]
    assert rows and {r["reward"] for r in rows if r["task"]["template"] == "MusicPause"} <= {0.0}
    assert {r["reward"] for r in rows if r["task"]["template"] == "NotesDelete"} <= {1.0}  # though nothing was deleted
    (metrics,) = read_metrics(tmp_path / "run/metrics.jsonl")
    assert metrics["judge/verdicts"] == metrics["rollout/trajectories"] and metrics["judge/no_verdicts"] == 0


def test_a_judge_that_is_no_judge_ends_the_command_at_once(stand_in, tmp_path, capsys):  # noqa: F811
    stand_in.answer = lambda asked: completion("I cannot see pictures.")
    with pytest.raises(AssertionError):
        evaluated(tmp_path, *flags(stand_in))
    assert "gives no verdict" in capsys.readouterr().err and not (tmp_path / "results.json").exists()
