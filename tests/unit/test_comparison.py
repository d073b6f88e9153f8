"""The comparison of algorithms: what is chosen, what counts, the intervals, the tables and the curves' figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mobilerl.benchmarks.comparison.figures import Point, estimate_paired, gather, learning_curve, run_folder
from mobilerl.benchmarks.comparison.plan import read_plan
from mobilerl.benchmarks.comparison.report import markdown, write
from mobilerl.benchmarks.comparison.runner import Runner
from mobilerl.config import load_recipe
from mobilerl.eval.intervals import crossed
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.eval.statistics import holm, student_p, student_quantile

ROOT = Path(__file__).parents[2]
PLAN = """
online = ["--train.seed", "{seed}", "--train.max_env_steps", "{steps}"]
[evaluation]
config = "a.toml"
[variants.full]
title = "Full"
recipe = "a"
[variants.no-x]
title = "w/o X"
recipe = "a"
flags = ["--x", "false"]
[variants.graph]
title = "Graph"
recipe = "b"
flags = ["--seed", "{seed}"]
offline = true
[groups.all]
title = "All"
members = ["full", "graph"]
[groups.parts]
title = "Parts"
members = ["full", "no-x"]
"""
BUDGET = 100


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "compare.toml").write_text(PLAN)
    return folder


@pytest.fixture
def plan(folder):
    return read_plan(folder / "compare.toml")


def evaluation(successes: Mapping[str, int], steps: int = 4) -> dict:
    """Of templates with two instances each, of which so many succeed."""
    episodes = [
        EpisodeResult(f"{name}-{i}", name, "App", True, "train", 0, float(i < n), i < n, steps, "finished")
        for name, n in successes.items()
        for i in range(2)
    ]
    return build_results("sim", {"split": "test", "popup_rate": 0.5}, episodes)


def leave(folder: Path, rows: Sequence[tuple[int, int, float]], results: dict, cpu_s: float = 60.0) -> None:
    """A run's folder; `rows`: environment steps so far, episodes of the iteration, success rate among them."""
    (folder / "eval" / "sim").mkdir(parents=True)
    names = ("rollout/env_steps", "rollout/trajectories", "rollout/success_rate")
    lines = [{"iteration": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(rows, start=1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "job.json").write_text(json.dumps({"cpu_s": cpu_s}))
    write_results(folder / "eval" / "sim" / "results.json", results)


# --- what is trained -----------------------------------------------------------------------------------------------


def test_the_committed_plan_holds_settings_that_exist():
    path = ROOT / "recipes" / "compare.toml"
    plan = read_plan(path)
    for name, variant in plan.variants.items():
        loaded = load_recipe(variant.recipe, plan.flags(name, 7, 1234))
        assert loaded.train.seed == 7, f"the seeds of {name} are all the same"
        assert variant.offline or (loaded.train.max_env_steps, loaded.train.max_minutes) == (1234, None)


def test_variants_are_chosen_by_name_or_group(plan):
    def tables(*chosen: str) -> list[tuple[str, list[str]]]:
        return [(group.title, members) for group, members in plan.tables(chosen)]

    assert plan.choose(["parts", "graph"]) == ["full", "no-x", "graph"]
    assert tables("full") == [("All", ["full"])], "alone it is shown once"
    assert tables("full", "no-x") == [("Parts", ["full", "no-x"])]
    committed = read_plan(ROOT / "recipes" / "compare.toml").tables(["adagrpo", "digirl", "filtered-bc"])
    assert [group.title for group, _ in committed] == ["Algorithms", "DigiRL"], "not the same comparisons twice"
    with pytest.raises(ValueError, match="'ful'"):
        plan.choose(["ful"])


# --- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom, t", [(1, 12.7062), (2, 4.30265), (5, 2.57058), (30, 2.04227), (1e6, 1.95996)])
def test_students_quantiles_are_those_of_the_tables(freedom, t):
    assert student_quantile(freedom) == pytest.approx(t, abs=1e-4)
    assert student_p(-t, freedom) == student_p(t, freedom) == pytest.approx(0.05, abs=1e-6)


def test_holms_adjustment_worked_by_hand():
    # Sorted 0.005 * 4, 0.01 * 3, 0.03 * 2, and 0.04 * 1, which may not be below the one before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_an_interval_over_seeds_and_templates_worked_by_hand():
    # Rows 0.2 0.6 and 0.6 1.2: mean 0.65, row means 0.4 0.9, column means 0.4 0.9. V_S = 2 * 0.25^2 / (2 * 1) = 0.0625,
    # V_T the same. Rest 0.2 - 0.4 - 0.4 + 0.65 = 0.05 in all four (with signs): V_ST = 4 * 0.0025 / (1 * 4) = 0.0025.
    # Variance 0.1225, square root 0.35. Freedom 0.1225^2 / (2 * 0.0625^2 + 0.0025^2) = 1.91937.
    interval = crossed(np.array([[0.2, 0.6], [0.6, 1.2]])).interval
    half = student_quantile(0.1225**2 / (2 * 0.0625**2 + 0.0025**2)) * 0.35
    assert 4.30265 * 0.35 < half < 12.7062 * 0.35
    assert (interval.low, interval.high) == pytest.approx((0.65 - half, 0.65 + half))


def test_an_interval_of_a_difference_worked_by_hand():
    # Against the table above 0.1 0.3 and 0.5 0.3: row means 0.2 0.4, V_S = 2 * 0.1^2 / 2 = 0.01; column means 0.3 0.3,
    # rest 0.1 in all four (with signs), V_ST = 4 * 0.01 / 4 = 0.01. Differences of the column means 0.1 0.6, V_T =
    # 2 * 0.25^2 / 2 = 0.0625. Together 0.0625 + 0.0625 + 0.01 - 0.0025 - 0.01 = 0.1225.
    interval = crossed(np.array([[0.2, 0.6], [0.6, 1.2]]), np.array([[0.1, 0.3], [0.5, 0.3]])).interval
    half = student_quantile(0.1225**2 / (2 * 0.0625**2 + 2 * 0.01**2 + 0.0025**2)) * 0.35
    assert (interval.low, interval.high) == pytest.approx((0.35 - half, 0.35 + half))


def test_an_interval_is_at_least_as_wide_as_that_over_its_seeds():
    # Column means are equal; the rest is large: V_S + V_T - V_ST would be 0.04 + 0 - 0.04 = 0.
    table = np.array([[0.0, 0.8], [0.8, 0.0]]) + np.array([[0.0], [0.4]])
    assert crossed(table).interval.high - table.mean() == pytest.approx(12.7062 * 0.2, abs=1e-4)


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = np.zeros(2)
    for _ in range(300):
        templates = rng.normal(0, 0.3, (1, 20))
        tables = [templates + rng.normal(0, 0.05, (3, 1)) + rng.normal(0, 0.15, (3, 20)) for _ in range(2)]
        single, change = crossed(tables[0]).interval, crossed(*tables).interval
        held += np.array([interval.low <= 0 <= interval.high for interval in (single, change)])
    assert all(0.91 <= share <= 0.99 for share in held / 300)


# --- figures and tables --------------------------------------------------------------------------------------------

PLAYED = [(40, 10, 0.5), (80, 10, 0.5), (120, 20, 0.75)]
"""25 successes in 40 episodes and 120 steps."""


@pytest.fixture
def compared(plan, tmp_path):
    """Two seeds of the full algorithm, one and a dead one of the ablation, and a graph that failed."""
    runs = tmp_path / "runs"
    leave(runs / "sft", (), evaluation({"a": 0, "b": 1}, steps=8))
    leave(runs / "full" / "seed-0", PLAYED, evaluation({"a": 1, "b": 2}, steps=6))
    leave(runs / "full" / "seed-1", [(60, 10, 0.5), (100, 10, 1.0)], evaluation({"a": 1, "b": 1}), cpu_s=180.0)
    leave(runs / "no-x" / "seed-0", PLAYED, evaluation({"a": 0, "b": 2}))
    faults = {("no-x", 1): "broke", ("graph", 0): "broke", ("graph", 1): "broke"}
    found = gather(plan, runs, plan.choose([]), [0, 1], BUDGET, faults)
    return {**found, "command": "bash recipes/compare.sh", "jobs": 2}


def test_figures_of_a_variant_worked_by_hand(compared):
    full = compared["variants"]["full"]
    # Rates by template: 0.5 1.0 and 0.5 0.5, mean 0.625; SFT's 0.0 0.5, mean 0.25.
    assert full["success"]["mean"] == pytest.approx(0.625)
    assert full["success"]["seeds"] == 2 and full["success"]["interval"]["high"] == 1.0, "cut off at 1"
    # Column means less SFT's: 0.5 0.25, V_T = 0.015625. Row means 0.75 0.5, V_S the same. The rest is 0.125 in
    # all four: V_ST = 4 * 0.015625 / 4. Variance 0.015625, as large as either alone.
    assert full["vs_sft"]["mean"] == pytest.approx(0.375)
    assert full["vs_sft"]["interval"]["low"] == pytest.approx(0.375 - 12.7062 * 0.125, abs=1e-4)
    # From step 75 on: the iterations that end after it, 20 of 30 in seed 0 (10 * 0.5 + 20 * 0.75), 10 of 10 in seed 1.
    assert full["in_training"] == pytest.approx((20 / 30 + 1.0) / 2)
    assert full["env_steps_per_success"] == pytest.approx((120 + 100) / (25 + 15))
    assert full["episode_length"] == pytest.approx((6 + 4) / 2)
    assert full["cpu_s"] == 120.0
    assert [run["templates"] for run in full["runs"]] == [{"a": 0.5, "b": 1.0}, {"a": 0.5, "b": 0.5}]


def test_an_ablation_is_compared_with_the_reference_of_its_group(compared, tmp_path):
    text = write(compared, tmp_path)
    ablation = next(line for line in reversed(text.splitlines()) if line.startswith("| w/o X")).split(" | ")
    # 0.0 1.0 less 0.5 0.75: mean -0.125, V_T = 2 * 0.375^2 / 2; what the seeds of Full add, they have also shared.
    assert ablation[1] == "1" and ablation[5] == "-12.5 (-489.0 to +464.0, p 0.8)", "the failed seed is left out"
    assert "- w/o X, seed 1: broke\n- Graph, seed 0: broke" in text
    assert (tmp_path / "learning-curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_published_tables_are_those_of_the_published_figures():
    docs = ROOT / "docs"
    page = (docs / "results.md").read_text().replace("(images/learning-curves.png)", "(learning-curves.png)")
    assert markdown(json.loads((docs / "comparison.json").read_text())) in page
    for name, place in (("comparison-40000.json", "results.md"), ("comparison-e69e7b9.json", "tried.md")):
        tables = markdown(json.loads((docs / name).read_text()))
        rows = {line for line in tables.splitlines() if line.startswith("| ")}
        assert rows <= set((docs / place).read_text().splitlines()), name


def test_the_rates_of_the_comparison_are_the_best_of_the_tuning_trials():
    """Within one point the recipe's is used, as the protocol says; and the page shows the trials as they are."""
    plan, page = read_plan(ROOT / "recipes" / "compare.toml"), (ROOT / "docs" / "results.md").read_text()
    by_title = {variant.title: (name, variant) for name, variant in plan.variants.items()}
    for title, trials in json.loads((ROOT / "docs" / "tuning.json").read_text())["trials"].items():
        name, variant = by_title[title]
        success = {float(rate): trial["success_rate"] for rate, trial in trials.items()}
        own = load_recipe(variant.recipe, ()).algorithm.learning_rate
        close = success[own] >= max(success.values()) - 0.01
        wanted = own if close else max(success, key=success.__getitem__)
        assert load_recipe(variant.recipe, plan.flags(name, 0, 1)).algorithm.learning_rate == wanted
        cells = [f"{100 * t['success_rate']:.1f} % ({t['cpu_s'] / 60:.1f})" for t in trials.values()]
        assert f"| {title} | {' | '.join(cells)} |" in page


def test_a_curve_shares_an_iteration_among_the_parts_it_covers():
    first = [Point(40, 10, 5), Point(80, 20, 10), Point(120, 40, 25)]
    curve = learning_curve([first, [Point(60, 10, 5), Point(100, 20, 15)]], BUDGET)
    # Two parts, since the shortest run has two iterations. The first run to step 50: 10 + 10/4 episodes, half succeed;
    # from there 7.5 at 0.5 and 10 at 0.75. The second: 8.33 at 0.5, then 1.67 at 0.5 and 10 at 1.
    seeds = np.array([[0.5, (3.75 + 7.5) / 17.5], [0.5, (5 / 6 + 10) / (10 + 5 / 3)]])
    assert curve["seeds"] == 2 and curve["steps"] == [25.0, 75.0]
    assert curve["mean"] == pytest.approx(seeds.mean(axis=0))
    assert (curve["low"], curve["high"]) == (pytest.approx(seeds.min(axis=0)), pytest.approx(seeds.max(axis=0)))


def test_differences_on_page_tasks_are_paired_by_seed():
    """Changes of 0.25, 0 and 0.5: mean 0.25, standard error 0.25 / sqrt(3), Student's quantile of 2 degrees 4.3027."""
    found = estimate_paired([0.25, 0.0, 0.5])
    assert (found["mean"], found["seeds"]) == (pytest.approx(0.25), 3)
    assert found["interval"]["high"] - found["mean"] == pytest.approx(4.3027 * 0.25 / 3**0.5, rel=1e-3)
    alone = {"mean": 0.75, "interval": None, "seeds": 1, "p": None}
    assert estimate_paired([0.75]) == alone, "one seed shows no spread"


# --- running -------------------------------------------------------------------------------------------------------

TRAINS = """
echo "$*" >>"$(dirname "$0")/calls"
[[ $* != *"--x false"* ]] || { echo "mobilerl: error: the loss is NaN" >&2; echo more; exit 3; }
echo '{"iteration":1,"time_s":9.5,"rollout/env_steps":120,"rollout/trajectories":8,"rollout/success_rate":0.5}' \\
    >"$4/metrics.jsonl"
"""


@pytest.fixture
def runner(plan, folder, tmp_path, monkeypatch):
    """With a program that writes metrics, and evaluations that are only recorded."""
    program = folder / "program"
    program.write_text(TRAINS)
    evaluated: list[str] = []
    monkeypatch.setattr(Runner, "evaluate", lambda self, model, folder: evaluated.append(model.name))
    made = Runner(plan, tmp_path / "runs", tmp_path / "sft", BUDGET, program=("bash", program))
    return made, plan.choose(["parts"]), evaluated, folder / "calls"


def test_a_failed_run_is_reported_and_the_others_continue(runner, tmp_path):
    made, chosen, evaluated, calls = runner
    failed = made.run(chosen, [4], jobs=1)
    folder = run_folder(tmp_path / "runs", "no-x", 4)
    assert failed == {
        ("no-x", 4): f"ended with status 3 (mobilerl: error: the loss is NaN), see {folder / 'print-out.txt'}"
    }
    assert evaluated == ["final", "seed-4"]
    assert json.loads((folder / "job.json").read_bytes())["cpu_s"] > 0, "a failed run has used time, too"
    first, second = calls.read_text().splitlines()
    flags = "--train.seed 4 --train.max_env_steps 100"
    words = f"run a --run-dir {tmp_path}/runs/full/seed-4 --sft-dir {tmp_path}/sft --evaluate no"
    assert first == f"{words} {flags}" and second.endswith(f"{flags} --x false")


def test_called_again_it_trains_only_what_is_missing(runner):
    made, chosen, _, calls = runner
    made.run(chosen, [0], jobs=2)
    calls.unlink()
    replace(made, _stopped=False).run(chosen, [0], jobs=2)
    (only,) = calls.read_text().splitlines()
    assert only.endswith("--x false")
    replace(made, _stopped=False, steps=110).run(chosen[:1], [0], jobs=1)
    assert "--train.max_env_steps 110" in calls.read_text(), "a larger budget continues the run"


def test_a_run_from_another_sft_checkpoint_is_refused(runner, tmp_path):
    made, chosen, _, calls = runner
    made.run(chosen[:1], [0], jobs=1)
    calls.unlink()
    other = tmp_path / "other" / "final"
    other.mkdir(parents=True)
    (other / "model.safetensors").write_bytes(b"weights")
    failed = replace(made, _stopped=False, sft_dir=other.parent).run(chosen[:1], [0], jobs=1)
    assert "another checkpoint" in failed["full", 0] and not calls.exists()


@pytest.mark.parametrize(("steps", "count"), [([40, 80], 80), ([40, 100, 120], 120), ([], 0)])
def test_runs_of_another_budget_do_not_count(steps, count, runner):
    made, *_ = runner
    made._check_budget([40, 80, 120])
    with pytest.raises(RuntimeError, match=f"has {count} environment steps, with a budget of 100"):
        made._check_budget(steps)


def test_stopping_the_comparison_stops_its_runs(folder, tmp_path):
    """Even those that ignore SIGTERM, with all their processes."""
    (folder / "program").write_text("trap '' TERM\necho $$ >\"$4/pid\"\nwhile :; do sleep 0.1; done\n")
    run = run_folder(tmp_path, "full", 0)
    code = (
        "import sys, signal; from pathlib import Path; from mobilerl.benchmarks.comparison import runner\n"
        "from mobilerl.benchmarks.comparison.plan import read_plan\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "runner.Runner.evaluate, runner.PATIENCE_S = lambda self, *_: None, 0.5\n"
        "plan, runs = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "program = ('bash', plan.with_name('program'))\n"
        "runner.Runner(read_plan(plan), runs, runs, 1, program=program).run(['full', 'no-x'], [0, 1], 1)\n"
    )
    command = [sys.executable, "-c", code, str(folder / "compare.toml"), str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        until = time.monotonic() + 30
        while not (run / "pid").is_file() or not (run / "pid").read_text().strip():
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143
        assert not members(int((run / "pid").read_text()))
    finally:
        process.kill()
        for pid in members(int((run / "pid").read_text())) if (run / "pid").is_file() else ():
            os.kill(pid, signal.SIGKILL)
    assert not json.loads((run / "job.json").read_text())["finished"]
    assert not run_folder(tmp_path, "full", 1).exists(), "nothing is started after the stop"


def members(group: int) -> list[int]:
    """Processes of the group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, number = path.read_text().rpartition(")")[2].split()[:3]
            if int(number) == group and state != "Z":
                found.append(int(path.parent.name))
    return found
