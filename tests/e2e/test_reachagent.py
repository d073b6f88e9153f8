"""recipes/reachagent.sh from an SFT checkpoint to the report, at the smallest size that does it all."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from installed import pretend_installed
from small_policies import HEIGHT, WIDTH, demonstrate, fine_tune, tiny_agent

from mobilerl.envs.phone.tasks import suite
from mobilerl.eval.report import read_results
from mobilerl.reachagent.graph_files import load_graph
from mobilerl.reachagent.pair_files import StoredPairs
from mobilerl.training.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
SCREEN = ["--phone.width", str(WIDTH), "--phone.height", str(HEIGHT), "--fleet.count", "4"]
PAGES = {"apps": '["Notes"]', "epochs": 2}
TRAIN = {"checkpoint_every": 1}
SECTIONS = {"pages": PAGES, "dpo": {"epochs": 1}, "sft": {"batch_size": 8}, "train": TRAIN}
EVAL = [*SCREEN, "--instances", "2", "--template", "MusicPause"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Holds an environment in which everything is installed already, and an SFT checkpoint."""
    folder = tmp_path_factory.mktemp("reachagent")
    pretend_installed(folder / "venv")
    steps = demonstrate([suite.make_task(name, 0) for name in ("NotesDelete", "MusicPause") if name in suite.TEMPLATES])
    fine_tune(folder / "made", tiny_agent(max_new_tokens=16), steps, epochs=2).rename(folder / "final")
    return folder


def flags_of(sections: dict[str, dict[str, object]]) -> list[str]:
    return [w for section, given in sections.items() for k, v in given.items() for w in (f"--{section}.{k}", str(v))]


def recipe(
    folder: Path, *flags: str, sections: dict = SECTIONS, run: str = "run", code: int = 0, evaluated: str = "yes"
) -> str:
    env = {
        **os.environ,
        "VENV": str(folder / "venv"),
        "SFT_DIR": str(folder),
        "RUN_DIR": str(folder / run),
        "EVAL_FLAGS": " ".join(EVAL),
        "PYTHONPATH": str(ROOT),
        "EVALUATE": evaluated,
    }
    done = subprocess.run(
        ["bash", str(ROOT / "recipes" / "reachagent.sh"), *SCREEN, *flags_of(sections), *flags],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(folder) -> str:
    return recipe(folder)


def test_a_whole_run(folder, trained):
    run = folder / "run"
    assert not load_graph(run / "pages").unreachable()
    tasks = json.loads((run / "pages" / "tasks.json").read_text())
    assert tasks["train"] and tasks["test"]
    pairs = StoredPairs(run)
    assert pairs and all(p.chosen_ids != p.rejected_ids for p in pairs)
    assert {p.note["source"] for p in pairs} <= {"agent", "random"}

    rows = read_metrics(run / "metrics.jsonl")
    assert [row["stage"] for row in rows] == sorted((row["stage"] for row in rows), reverse=True), "stage 1, then DPO"
    learned = [row for row in rows if row["stage"] == "dpo"]
    assert len(learned) == -(-len(pairs) // 8)
    assert learned[0]["train/loss"] == pytest.approx(0.6931, abs=1e-3), "the reference is stage 1"

    for name in ("pages-before", "pages-stage1", "pages-after"):
        results = read_results(run / "eval" / name / "results.json")
        assert results["trials"] == len(tasks["test"]) and 0 <= results["accuracy"]["step_iou"] <= 1
    weights = {
        n: read_results(run / "eval" / n / "results.json")["protocol"]["weights_sha256"]
        for n in ("pages-before", "pages-stage1", "pages-after")
    }
    assert len({*weights.values()}) == 3
    after = read_results(run / "eval" / "sim-after" / "results.json")
    assert after["protocol"]["weights_sha256"] == weights["pages-after"], "final/ is what DPO made"
    table = (run / "eval" / "pages.md").read_text()
    assert "| task success | DPO |" in table and "to SFT; " in table and table in trained
    assert (run / "view" / "index.html").is_file() and str(run / "view" / "index.html") in trained


def test_a_second_call_repeats_nothing(folder, trained):
    run = folder / "run"
    kept = {
        name: (run / name).stat().st_mtime_ns
        for name in ("pairs.jsonl", "pages/graph.json", "metrics.jsonl", "eval/pages-after/results.json")
    }
    said = recipe(folder)
    assert {name: (run / name).stat().st_mtime_ns for name in kept} == kept
    assert "stage1: already there" in said and "DPO: already there" in said


def test_a_run_without_dpo_ends_after_stage_1(folder, trained):
    """The graph of the first run is used, so that the tasks are the same; another recipe needs another folder."""
    pages = {"graph": folder / "run" / "pages", "reaching": "false", "epochs": PAGES["epochs"]}
    other = {**SECTIONS, "pages": pages, "dpo": {"epochs": 0}}
    assert "belongs to another recipe" in recipe(folder, sections=other, code=2)
    recipe(folder, sections=other, run="ablation", evaluated="no")
    run = folder / "ablation"
    assert not (run / "pairs.jsonl").exists() and not (run / "checkpoints").exists()
    assert not any(row["stage"] == "dpo" for row in read_metrics(run / "metrics.jsonl"))
    assert (run / "pages" / "tasks.json").read_bytes() == (folder / "run" / "pages" / "tasks.json").read_bytes()
    less, all_ = (json.loads((folder / name / "pages" / "counts.json").read_text()) for name in ("ablation", "run"))
    assert 0 < less["samples"] < all_["samples"]
