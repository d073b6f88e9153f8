"""ReachAgent's variants on page tasks: what is read, what is paired with what, and the intervals, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.comparison.pages import PageRun, page_table, pages_json, read_page_run, to_reference
from benchmarks.comparison.variants import Group, Variant

GROUP = Group("reachagent-paper", "ReachAgent", ("reachagent", "no-dpo", "no-reach"))
TITLES = {"reachagent": "ReachAgent", "no-dpo": "w/o DPO", "no-reach": "w/o reach"}
VARIANTS = {name: Variant(name, title, "reachagent.sh", offline=True) for name, title in TITLES.items()}
ACCURACY = {"step_iou": 0.5, "step_text": 0.25, "task_iou": 0.1, "task_text": 0.0}


def results(success: float, tasks: int = 4) -> dict:
    """Of `tasks` tasks; the first ones are the successes."""
    episodes = [{"task_id": f"pages/Notes/navigation/{i}", "success": i < success * tasks} for i in range(tasks)]
    protocol = {"tasks_sha256": f"of {tasks} tasks"}
    return {"schema": 1, "suite": "pages", "protocol": protocol, "success_rate": success, "accuracy": ACCURACY,
            "instances": episodes}  # fmt: skip


def runs(*rates: tuple[float, float], tasks: int = 4) -> list[PageRun]:
    return [PageRun(seed, results(before, tasks), results(after, tasks)) for seed, (before, after) in enumerate(rates)]


def put(folder: Path, **evaluations: dict) -> Path:
    for name, content in evaluations.items():
        out = folder / "eval" / name.replace("_", "-")
        out.mkdir(parents=True)
        (out / "results.json").write_text(json.dumps(content))
    return folder


def test_the_last_policy_counts_and_without_dpo_that_is_stage_1(tmp_path):
    stages = {"pages_before": results(0.0), "pages_stage1": results(0.25)}
    whole = read_page_run(put(tmp_path / "a", **stages, pages_after=results(0.75)), 7)
    assert (whole.seed, whole.change()) == (7, 0.75)
    assert read_page_run(put(tmp_path / "b", **stages), 0).change() == 0.25
    assert read_page_run(put(tmp_path / "c", pages_before=results(0.0)), 0) is None, "killed before stage 1"
    assert read_page_run(tmp_path, 0) is None, "plays no page tasks"


def test_evaluations_of_different_page_tasks_are_refused(tmp_path):
    folder = put(tmp_path, pages_before=results(0.0), pages_after=results(0.5, tasks=6))
    with pytest.raises(ValueError, match="different tasks: evaluate both anew"):
        read_page_run(folder, 0)
    with pytest.raises(ValueError, match="two variants with seed 0 .* different page tasks"):
        to_reference(runs((0.0, 0.5)), runs((0.0, 0.5), tasks=6))


def test_differences_are_paired_by_seed():
    """Changes of 0.25, 0 and 0.5: mean 0.25, standard error 0.25 / sqrt(3), Student's quantile of 2 degrees 4.3027."""
    reference = runs((0.0, 0.25), (0.0, 0.5), (0.0, 0.25))
    found = to_reference(reference, runs((0.0, 0.5), (0.0, 0.5), (0.0, 0.75)))
    assert (found.mean, found.seeds) == (pytest.approx(0.25), 3)
    assert found.interval.high - found.mean == pytest.approx(4.3027 * 0.25 / 3**0.5, rel=1e-3)
    of_one = to_reference(reference, runs((0.0, 1.0)))
    assert (of_one.mean, of_one.interval) == (0.75, None), "one seed shows no spread"
    assert to_reference(reference, [PageRun(9, results(0.0), results(1.0))]) is None


def test_the_table_has_the_warm_up_and_every_variant_that_has_page_tasks():
    table = page_table(GROUP, VARIANTS, {"reachagent": runs((0.0, 0.5), (0.25, 0.75)), "no-dpo": runs((0.0, 0.25))})
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    assert header[-1] == "to ReachAgent" and all(len(row) == len(header) for row in rows)
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    assert [c["policy"] for c in cells] == ["warm-up", "ReachAgent", "w/o DPO"]
    assert [c["task success"] for c in cells] == ["12.5 %", "62.5 %", "25.0 %"]
    assert [c["task success by seed"] for c in cells] == ["0.0, 25.0", "50.0, 75.0", "25.0"]
    assert [c["to the warm-up"] for c in cells] == ["", "+50.0 (+50.0 to +50.0)", "+25.0"]
    assert [c["to ReachAgent"] for c in cells] == ["", "", "-25.0"]
    assert cells[0]["step text"] == "25.0 %"
    assert page_table(GROUP, VARIANTS, {"no-dpo": runs((0.0, 0.25))}) == "", "nothing to compare with"


def test_the_figures_behind_the_table():
    found = pages_json(runs((0.0, 0.5)))
    assert found["to_warm_up"] == {"mean": 0.5, "interval": None, "seeds": 1}
    (run,) = found["runs"]
    assert (run["seed"], run["tasks"], run["policy"]["success"]) == (0, 4, 0.5)
    assert run["warm_up"] == ACCURACY | {"success": 0.0}
