"""Mobile3M from its files to the tables: import, stage 1, pairs, DPO, metrics, with a tiny model and without a phone.

The app is made by `mobile3m_files` in the published layout; the data set itself is not here.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mobile3m_files import write_app
from small_policies import GRAMMAR, tiny_agent

from mobilerl.cli import main
from mobilerl.eval.report import read_results
from mobilerl.models import tiny
from mobilerl.models.checkpoint_folder import save_agent
from mobilerl.reachagent.agent import Scenes
from mobilerl.reachagent.graph_files import load_graph
from mobilerl.reachagent.naming import NAVIGATE, OPEN, OPERATE, PHRASES, REACH
from mobilerl.reachagent.pair_files import StoredPairs
from mobilerl.training.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KINDS = ("navigation", "reaching", "operation")
SMALL = """--pages.test_share 0.15 --pages.epochs 2 --pages.learning_rate 5e-3 --dpo.epochs 1
    --sft.batch_size 8 --train.checkpoint_every 50 --fleet.count 16 --engine.micro_batch_tokens 4096""".split()
TINY = "--engine.lora_rank 0 --engine.gradient_checkpointing false --engine.max_pixels null --engine.threads 1".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two apps, their graph, and a model that knows their words."""
    folder = tmp_path_factory.mktemp("mobile3m")
    for name in ("shop", "bazaar"):
        write_app(folder / "data", name, index=name == "shop")
    assert main(["import-mobile3m", str(folder / "data"), str(folder / "graph")]) == 0
    graph = load_graph(folder / "graph")
    shown = [Scenes(graph).see(page).screen.render("marks") for page in graph.pages]
    phrases = [text for texts in PHRASES.values() for text in texts]
    texts = [*shown, *REACH, *OPEN, *OPERATE, *NAVIGATE, *phrases, "tea shop bazaar", GRAMMAR]
    tiny.create(folder / "model", texts, hidden=32, layers=2, heads=2, vision_hidden=16, max_pixels=4 * 28 * 28)
    save_agent(tiny_agent(max_new_tokens=24), folder / "model")
    return folder


def test_from_the_data_set_to_the_tables(folder, capsys):
    run, graph = folder / "run", folder / "graph"
    command = ["pages", "--config", "mobile3m", "--pages.graph", str(graph), "--model", str(folder / "model")]
    assert main([*command, "--run-dir", str(run), *SMALL, *TINY]) == 0
    said = capsys.readouterr().out
    tasks = json.loads((run / "pages" / "tasks.json").read_text())
    assert {task["kind"] for task in tasks["train"]} == {*KINDS} and tasks["test"]
    assert not (run / "pages" / "graph.json").exists(), "no phone was explored"

    pairs = StoredPairs(run)
    levels = ("invalid", "incomplete", "longer", "golden")
    assert len(pairs) > 10
    assert all(levels.index(p.note["rejected_level"]) < levels.index(p.note["chosen_level"]) for p in pairs)
    assert {p.note["chosen_level"] for p in pairs} == {"golden"}

    rows = read_metrics(run / "metrics.jsonl")
    stage1 = [row["sft/loss"] for row in rows if row["stage"] == "stage1"]
    assert stage1[-1] < stage1[0] and any(row["stage"] == "dpo" for row in rows)
    results = [read_results(run / "eval" / f"pages-{name}" / "results.json") for name in ("before", "stage1", "after")]
    assert all(result["trials"] == len(tasks["test"]) for result in results)
    assert results[0]["accuracy"]["step_iou"] < results[1]["accuracy"]["step_iou"]
    for line in ("| task success | DPO |", "| navigation | stage 1 |", "| reaching | DPO |"):
        assert line in said and line in (run / "eval" / "pages.md").read_text()
