"""The comparison of algorithms: what is chosen, what counts, the intervals, the tables and the curves' figures."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparison.__main__ import main
from benchmarks.comparison.crossed import crossed_interval, student_quantile
from benchmarks.comparison.curves import learning_curve
from benchmarks.comparison.report import BEGIN, END, gather, with_section, write
from benchmarks.comparison.runner import Runner
from benchmarks.comparison.runs import Job, read_run, run_folder
from benchmarks.comparison.table import success_of
from benchmarks.comparison.variants import read_plan
from mobilerl.config import load_recipe
from mobilerl.eval.report import EpisodeResult, build_results, write_results

ROOT = Path(__file__).parents[2]
PLAN = """
[evaluation]
config = "a.toml"
[online]
flags = ["--train.seed", "{seed}", "--train.max_env_steps", "{steps}"]
[variants.full]
title = "Full"
script = "a.sh"
[variants.no-x]
title = "w/o X"
script = "a.sh"
flags = ["--x", "false"]
[variants.graph]
title = "Graph"
script = "b.sh"
flags = ["--seed", "{seed}"]
offline = true
[variants.later]
title = "Later"
script = "missing.sh"
[groups.all]
title = "All"
members = ["full", "graph", "later"]
[groups.parts]
title = "Parts"
members = ["full", "no-x"]
"""
BUDGET = 100
WARM = "0123"
"""Digest of the warm-up's weights."""


@pytest.fixture
def plan(tmp_path):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "compare.toml").write_text(PLAN)
    for name in ("a.sh", "b.sh"):
        (folder / name).write_text("")
    return read_plan(folder / "compare.toml")


def evaluation(successes: Mapping[str, int], steps: int = 4, popup_rate: float = 0.5) -> dict:
    """Of templates with two instances each, of which so many succeed."""
    episodes = [
        EpisodeResult(f"{name}-{i}", name, "App", True, "train", 0, float(i < n), i < n, steps, "finished")
        for name, n in successes.items()
        for i in range(2)
    ]
    protocol = {"split": "test", "popup_rate": popup_rate, "weights_sha256": WARM}
    return build_results("sim", protocol, episodes)


def leave(run_dir: Path, variant: str, seed: int, rows: Sequence[tuple[int, int, float]] = (), finished: bool = True,
          results: dict | None = None, wall_s: float = 60.0, warm_up: str = WARM) -> None:  # fmt: skip
    """A run's folder; `rows`: environment steps so far, episodes of the iteration, success rate among them."""
    folder = run_folder(run_dir, variant, seed)
    (folder / "eval" / "sim").mkdir(parents=True)
    names = ("rollout/env_steps", "rollout/trajectories", "rollout/success_rate")
    lines = [
        {"iteration": i, "time_s": wall_s * i / len(rows), **dict(zip(names, row, strict=True))}
        for i, row in enumerate(rows, start=1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Job(["--flag"], warm_up, wall_s, finished).write(folder)
    if results:
        write_results(folder / "eval" / "sim" / "results.json", results)


# --- what is trained -----------------------------------------------------------------------------------------------


def test_the_committed_plan_holds_settings_that_exist():
    plan = read_plan(ROOT / "recipes" / "compare.toml")
    for variant in plan.variants.values():
        recipe = plan.folder / variant.script.replace(".sh", ".toml")
        loaded = load_recipe(recipe, plan.words(variant, 7, 1234))
        assert 7 in (loaded.train.seed, loaded.dpo.seed), f"the seeds of {variant.name} are all the same"
        assert variant.offline or (loaded.train.max_env_steps, loaded.train.max_minutes) == (1234, None)
    assert len({(v.script, v.flags) for v in plan.variants.values()}) == len(plan.variants), "two variants are the same"


def test_flags_of_a_run(plan):
    online = ["--train.seed", "3", "--train.max_env_steps", "100"]
    assert plan.words(plan.variants["no-x"], 3, BUDGET, ["--more", "1"]) == [*online, "--x", "false", "--more", "1"]
    assert plan.words(plan.variants["graph"], 3, BUDGET, ["--more", "1"]) == ["--seed", "3"]


def test_variants_are_chosen_by_their_name_or_their_groups(plan):
    assert [v.name for v in plan.choose(["parts", "graph"])] == ["full", "no-x", "graph"]
    assert [(g.name, g.members) for g in plan.shown(["full", "no-x", "graph"])] == [
        ("all", ("full", "graph")),
        ("parts", ("full", "no-x")),
    ]
    assert [g.name for g in plan.shown(["full"])] == ["all"], "alone it is shown once"
    assert [(g.name, g.members) for g in plan.shown(["full", "no-x"])] == [("parts", ("full", "no-x"))]


def test_a_missing_script_is_an_error_only_when_it_is_chosen(plan):
    plan.choose(["full"])
    for names in (["later"], []):
        with pytest.raises(ValueError, match="'later' is trained by .*missing.sh, which is not there"):
            plan.choose(names)
    with pytest.raises(ValueError, match="no variant or group 'ful'; choose from all, parts, full"):
        plan.choose(["ful"])


@pytest.mark.parametrize(
    "old, new, says",
    [
        ('"full", "no-x"]', '"full", "no-y"]', "'parts' has a member 'no-y'"),
        ("offline = true", "ofline = true", "there is no field 'ofline'"),
        ('script = "b.sh"', "", "missing or of the wrong kind: 'script'"),
        ('["--x", "false"]', '"--x false"', "flags are a list"),
        ("[variants.no-x]", '[variants."../x"]', "names a folder"),
        ('"graph", "later"]', '"graph"]', "'later' is in no group"),
    ],
)
def test_a_faulty_plan_is_one_line(old, new, says, tmp_path):
    path = tmp_path / "compare.toml"
    assert old in PLAN
    path.write_text(PLAN.replace(old, new))
    with pytest.raises(ValueError, match=says) as error:
        read_plan(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


# --- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("freedom, t", [(1, 12.7062), (2, 4.30265), (5, 2.57058), (30, 2.04227), (1e6, 1.95996)])
def test_students_quantiles_are_those_of_the_tables(freedom, t):
    assert student_quantile(freedom) == pytest.approx(t, abs=1e-4)


def test_an_interval_over_seeds_and_templates_worked_by_hand():
    # Rows 0.2 0.6 and 0.6 1.2: mean 0.65, row means 0.4 0.9, column means 0.4 0.9. V_S = 2 * 0.25^2 / (2 * 1) = 0.0625,
    # V_T the same. Rest 0.2 - 0.4 - 0.4 + 0.65 = 0.05 in all four (with signs): V_ST = 4 * 0.0025 / (1 * 4) = 0.0025.
    # Variance 0.1225, square root 0.35. Freedom 0.1225^2 / (2 * 0.0625^2 + 0.0025^2) = 1.91937.
    interval = crossed_interval(np.array([[0.2, 0.6], [0.6, 1.2]]))
    half = student_quantile(0.1225**2 / (2 * 0.0625**2 + 0.0025**2)) * 0.35
    assert 4.30265 * 0.35 < half < 12.7062 * 0.35
    assert (interval.low, interval.high) == pytest.approx((0.65 - half, 0.65 + half))


def test_an_interval_of_a_difference_worked_by_hand():
    # Against the table above 0.1 0.3 and 0.5 0.3: row means 0.2 0.4, V_S = 2 * 0.1^2 / 2 = 0.01; column means 0.3 0.3,
    # rest 0.1 in all four (with signs), V_ST = 4 * 0.01 / 4 = 0.01. Differences of the column means 0.1 0.6, V_T =
    # 2 * 0.25^2 / 2 = 0.0625. Together 0.0625 + 0.0625 + 0.01 - 0.0025 - 0.01 = 0.1225.
    interval = crossed_interval(np.array([[0.2, 0.6], [0.6, 1.2]]), np.array([[0.1, 0.3], [0.5, 0.3]]))
    half = student_quantile(0.1225**2 / (2 * 0.0625**2 + 2 * 0.01**2 + 0.0025**2)) * 0.35
    assert (interval.low, interval.high) == pytest.approx((0.35 - half, 0.35 + half))


def test_an_interval_is_never_narrower_than_its_seeds_make_it():
    # Column means are equal; the rest is large: V_S + V_T - V_ST would be 0.04 + 0 - 0.04 = 0.
    table = np.array([[0.0, 0.8], [0.8, 0.0]]) + np.array([[0.0], [0.4]])
    assert crossed_interval(table).high - table.mean() == pytest.approx(12.7062 * 0.2, abs=1e-4)


def test_with_one_seed_an_interval_is_over_templates():
    # Mean 0.5, sum of squares 0.5, variance of the mean 0.5 / (3 * 2).
    interval = crossed_interval(np.array([[0.0, 0.5, 1.0]]))
    assert interval.high - 0.5 == pytest.approx(4.30265 * math.sqrt(0.5 / 6), abs=1e-4)
    assert crossed_interval(np.array([[0.3]])) is None


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = np.zeros(2)
    for _ in range(300):
        templates = rng.normal(0, 0.3, (1, 20))
        tables = [templates + rng.normal(0, 0.05, (3, 1)) + rng.normal(0, 0.15, (3, 20)) for _ in range(2)]
        single, change = crossed_interval(tables[0]), crossed_interval(*tables)
        held += np.array([interval.low <= 0 <= interval.high for interval in (single, change)])
    assert all(0.91 <= share <= 0.99 for share in held / 300)


def test_where_nothing_ever_succeeds_the_interval_is_not_a_point():
    # Wilson for 0 of 4: z^2 / (4 + z^2).
    estimate = success_of([evaluation({"a": 0, "b": 0})] * 3)
    assert (estimate.mean, estimate.interval.low) == (0, 0)
    assert estimate.interval.high == pytest.approx(3.8415 / 7.8415, abs=1e-4)


# --- what counts ---------------------------------------------------------------------------------------------------

PLAYED = [(40, 10, 0.5), (80, 10, 0.5), (120, 20, 0.75)]
"""25 successes in 40 episodes and 120 steps."""


@pytest.fixture
def compared(plan, tmp_path):
    """Two seeds of the full algorithm, one and a dead one of the ablation, and a graph that was not evaluated."""
    run_dir = tmp_path / "runs"
    (run_dir / "warm-up" / "eval" / "sim").mkdir(parents=True)
    write_results(run_dir / "warm-up" / "eval" / "sim" / "results.json", evaluation({"a": 0, "b": 1}, steps=8))
    leave(run_dir, "full", 0, PLAYED, results=evaluation({"a": 1, "b": 2}, steps=6))
    leave(run_dir, "full", 1, [(60, 10, 0.5), (100, 10, 1.0)], results=evaluation({"a": 1, "b": 1}), wall_s=180.0)
    leave(run_dir, "no-x", 0, PLAYED, results=evaluation({"a": 0, "b": 2}))
    leave(run_dir, "no-x", 1, [(40, 10, 0.5)], finished=False)
    leave(run_dir, "graph", 0)
    chosen = plan.choose(["full", "no-x", "graph"])
    return lambda: gather(run_dir, plan, chosen, [0, 1], BUDGET, 2, "STEPS=100 bash recipes/compare.sh")


def test_figures_of_a_variant_worked_by_hand(compared):
    full = compared().summaries["full"]
    # Rates by template: 0.5 1.0 and 0.5 0.5, mean 0.625; the warm-up 0.0 0.5, mean 0.25.
    assert full.success.mean == pytest.approx(0.625)
    assert full.success.seeds == 2 and full.success.interval.high == 1.0, "cut off at 1"
    # Column means less the warm-up's: 0.5 0.25, V_T = 0.015625. Row means 0.75 0.5, V_S the same. The rest is 0.125 in
    # all four: V_ST = 4 * 0.015625 / 4. Variance 0.015625, as large as either alone.
    assert full.to_warm_up.mean == pytest.approx(0.375)
    assert full.to_warm_up.interval.low == pytest.approx(0.375 - 12.7062 * 0.125, abs=1e-4)
    # From step 75 on: the iterations that end after it, 20 of 30 in seed 0 (10 * 0.5 + 20 * 0.75), 10 of 10 in seed 1.
    assert full.in_training == pytest.approx((20 / 30 + 1.0) / 2)
    assert full.steps_per_success == pytest.approx((120 + 100) / (25 + 15))
    assert full.episode_length == pytest.approx((6 + 4) / 2)
    assert full.wall_s == 120.0


def test_what_died_or_was_not_evaluated_is_left_out_and_said(compared):
    found = compared()
    assert found.faults == [
        "w/o X, seed 1: did not come to its end (40 environment steps)",
        "Graph, seed 0: was not evaluated",
        "Graph, seed 1: was not run",
    ]
    assert found.summaries["graph"].success is None
    assert found.summaries["no-x"].success.seeds == 1


@pytest.mark.parametrize(
    "rows, budget, says",
    [
        (PLAYED, 120, ""),
        (PLAYED, 81, ""),
        (PLAYED, 121, "stopped at 120 of 121 environment steps"),
        (PLAYED, 80, "went on to 120 environment steps, where 80 are the budget"),
        ([], 80, "stopped at 0 of 80 environment steps"),
        ([], None, ""),
    ],
)
def test_runs_of_another_budget_do_not_count(rows, budget, says, tmp_path):
    leave(tmp_path, "full", 0, rows, results=evaluation({"a": 1}))
    assert read_run(tmp_path, "full", 0, budget, WARM).fault == says


def test_iterations_without_steps_are_no_points(tmp_path):
    """Learning from stored trajectories is logged as iteration 0, which has not played."""
    leave(tmp_path, "full", 0, PLAYED)
    path = run_folder(tmp_path, "full", 0) / "metrics.jsonl"
    path.write_text('{"iteration":0,"replay/size":3}\n' + path.read_text())
    assert [p.steps for p in read_run(tmp_path, "full", 0, BUDGET, WARM).points] == [40, 80, 120]


def test_evaluations_of_other_tasks_are_refused(compared, tmp_path):
    path = run_folder(tmp_path / "runs", "full", 1) / "eval" / "sim" / "results.json"
    write_results(path, evaluation({"a": 1, "b": 1}, popup_rate=0.0))
    with pytest.raises(ValueError, match="warm-up and full, seed 1 differ in popup_rate"):
        compared()
    write_results(path, evaluation({"a": 1, "c": 1}))
    with pytest.raises(ValueError, match="are of different instances"):
        compared()


# --- tables and curves ---------------------------------------------------------------------------------------------


def test_the_tables_are_paired_with_their_groups_reference(compared, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "results.md").write_text(f"# Results\n\n{BEGIN}\nold\n{END}\n\n## After\n")
    text = write(compared(), tmp_path / "runs", docs)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    tables = {rows[i][5]: rows[i + 2 : i + 5] for i in (0, 5)}
    assert list(tables) == ["to Full"] and len(rows) == 10, "each group has its own table"
    warm_up, full, ablation = rows[7:10]
    assert warm_up[0] == "warm-up" and warm_up[2].startswith("25.0 % (0.0 to ")
    assert full[:2] == ["Full", "2"] and full[3] == "75.0, 50.0" and full[5] == ""
    assert full[6:] == ["83.3 %", "5.5", "5.0", "2.0"]
    # 0.0 1.0 less 0.5 0.75: mean -0.125, V_T = 2 * 0.375^2 / 2; what the seeds of Full add, they have also shared.
    assert ablation[:2] == ["w/o X", "1 of 2"] and ablation[5] == "-12.5 (-489.0 to +464.0)"
    assert rows[4][:3] == ["Graph", "0 of 2", "--"]
    assert "- w/o X, seed 1: did not come to its end" in text and "STEPS=100 bash recipes/compare.sh" in text

    page = (docs / "results.md").read_text()
    assert page.startswith("# Results\n\n") and page.endswith(f"{END}\n\n## After\n") and "old" not in page
    assert "(images/learning-curves.png)" in page and "(learning-curves.png)" in text
    for folder in (tmp_path / "runs", docs / "images"):
        assert (folder / "learning-curves.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((docs / "comparison.json").read_text())
    assert content["variants"]["full"]["success"]["mean"] == pytest.approx(0.625)
    assert content["groups"][1]["to_reference"]["no-x"]["mean"] == pytest.approx(-0.125)
    assert content["variants"]["no-x"]["runs"][1]["fault"] and content["left_out"]
    assert str(tmp_path) not in page + json.dumps(content), "what is published names no folder of this machine"


def test_a_curve_shares_an_iteration_among_the_parts_it_covers(tmp_path):
    leave(tmp_path, "full", 0, PLAYED)
    leave(tmp_path, "full", 1, [(60, 10, 0.5), (100, 10, 1.0)])
    leave(tmp_path, "full", 2, [(40, 10, 0.0)], finished=False)
    curve = learning_curve([read_run(tmp_path, "full", seed, BUDGET, WARM) for seed in range(3)], BUDGET)
    # Two parts, since the shortest run has two iterations. Seed 0 to step 50: 10 + 10/4 episodes, half succeed; from
    # there 7.5 at 0.5 and 10 at 0.75. Seed 1: 8.33 at 0.5, then 1.67 at 0.5 and 10 at 1. The dead run is not there.
    seeds = np.array([[0.5, (3.75 + 7.5) / 17.5], [0.5, (5 / 6 + 10) / (10 + 5 / 3)]])
    assert curve.seeds == 2 and curve.steps == (25.0, 75.0)
    assert curve.mean == pytest.approx(seeds.mean(axis=0))
    assert (curve.low, curve.high) == (pytest.approx(seeds.min(axis=0)), pytest.approx(seeds.max(axis=0)))


def test_a_page_keeps_what_is_around_the_section():
    once = with_section("# Results\n\ntext\n", "new")
    assert once == f"# Results\n\ntext\n\n{BEGIN}\nnew\n{END}\n"
    assert with_section(once, "newer") == once.replace("new", "newer")
    for page in (f"{BEGIN}\nold\n", f"{END}\nold\n{BEGIN}\n"):
        with pytest.raises(ValueError, match="has not both"):
            with_section(page, "new")


# --- running -------------------------------------------------------------------------------------------------------

TRAINS = """
echo "$RUN_DIR $SFT_DIR $EVALUATE $SKIP_INSTALL [$CONFIG] [$MODEL] $*" >>"$(dirname "$0")/calls"
[[ $* != *"--x false"* ]] || exit 3
echo '{"iteration":1,"time_s":9.5,"rollout/env_steps":120,"rollout/trajectories":8,"rollout/success_rate":0.5}' \\
    >"$RUN_DIR/metrics.jsonl"
"""


@pytest.fixture
def runner(plan, tmp_path, monkeypatch):
    """With a script that writes metrics, and evaluations that are only noted down."""
    (plan.folder / "a.sh").write_text(TRAINS)
    monkeypatch.setenv("CONFIG", "of another run")
    evaluated: list[str] = []
    monkeypatch.setattr(Runner, "evaluate", lambda self, model, folder: evaluated.append(model.name))
    made = Runner(plan, tmp_path / "runs", tmp_path / "sft", BUDGET)
    return made, plan.choose(["parts"]), evaluated, plan.folder / "calls"


def test_a_failed_run_is_reported_and_the_others_go_on(runner, tmp_path):
    made, chosen, evaluated, calls = runner
    (failed,) = made.run(chosen, [4], jobs=1)
    folder = run_folder(tmp_path / "runs", "no-x", 4)
    assert failed == f"w/o X, seed 4: ended with status 3, see {folder / 'print-out.txt'}"
    assert evaluated == ["final", "seed-4"]
    first, second = calls.read_text().splitlines()
    flags = "--train.seed 4 --train.max_env_steps 100"
    assert first == f"{tmp_path}/runs/full/seed-4 {tmp_path}/sft no yes [] [] {flags}"
    assert second.endswith(f"{flags} --x false")


def test_called_again_only_what_is_missing_is_trained(runner, tmp_path):
    made, chosen, _, calls = runner
    made.run(chosen, [0], jobs=2)
    calls.unlink()
    again = Runner(made.plan, made.run_dir, made.sft_dir, BUDGET)
    again.run(chosen, [0], jobs=2)
    (only,) = calls.read_text().splitlines()
    assert only.endswith("--x false")
    Runner(made.plan, made.run_dir, made.sft_dir, 110).run(chosen[:1], [0], jobs=1)
    assert "--train.max_env_steps 110" in calls.read_text(), "a larger budget goes on with the run"


def test_a_run_is_not_taken_for_one_of_another_warm_up(runner, tmp_path):
    made, chosen, _, calls = runner
    made.run(chosen[:1], [0], jobs=1)
    calls.unlink()
    other = tmp_path / "other" / "final"
    other.mkdir(parents=True)
    (other / "model.safetensors").write_bytes(b"weights")
    (failed,) = Runner(made.plan, made.run_dir, other.parent, BUDGET).run(chosen[:1], [0], jobs=1)
    assert "begun from another warm-up" in failed and "choose another RUN_DIR" in failed and not calls.exists()
    leave(tmp_path, "full", 1, PLAYED, results=evaluation({"a": 1}), warm_up="4567")
    assert read_run(tmp_path, "full", 1, BUDGET, WARM).fault == "began from another warm-up"


def stop_when_begun(plan, runs: Path, pid_file: Path, evaluate: str = "None", patience_s: float = 60.0) -> None:
    """Stops a comparison once the process of `pid_file` is there. Nothing of that one's group may be left then."""
    code = ("import sys, signal; from pathlib import Path; from benchmarks.comparison import runner\n"
            "from benchmarks.comparison.variants import read_plan\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
            f"runner.Runner.evaluate = lambda self, *_: {evaluate}\n"
            f"runner.PATIENCE_S = {patience_s}\n"
            "plan, runs = read_plan(Path(sys.argv[1])), Path(sys.argv[2])\n"
            "runner.Runner(plan, runs, runs, 1).run(plan.choose(['parts']), [0, 1], 1)\n")  # fmt: skip
    command = [sys.executable, "-c", code, str(plan.folder / "compare.toml"), str(runs)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        until = time.monotonic() + 30
        while not pid_file.is_file() or not pid_file.read_text().strip():
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143
        assert not members(int(pid_file.read_text()))
    finally:
        process.kill()
        for pid in members(int(pid_file.read_text())) if pid_file.is_file() else ():
            os.kill(pid, signal.SIGKILL)


def with_a_child(pid_file: str) -> str:
    """A script that waits for another program; one that bash has not made of its copy yet does not hear SIGTERM."""
    return f'sleep 300 & while [[ $(</proc/$!/comm) != sleep ]]; do :; done; echo $$ >{pid_file}; wait\n'


def members(group: int) -> list[int]:
    """Processes of the group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, number = path.read_text().rpartition(")")[2].split()[:3]
            if int(number) == group and state != "Z":
                found.append(int(path.parent.name))
    return found


def test_stopping_the_comparison_stops_its_runs(plan, tmp_path):
    (plan.folder / "a.sh").write_text(with_a_child('"$RUN_DIR/pid"'))
    folder = run_folder(tmp_path, "full", 0)
    stop_when_begun(plan, tmp_path, folder / "pid")
    assert not Job.read(folder).finished
    assert not run_folder(tmp_path, "full", 1).exists(), "nothing was begun after the stop"


def test_a_run_that_does_not_stop_in_time_is_killed(plan, tmp_path):
    (plan.folder / "a.sh").write_text("trap '' TERM\necho $$ >\"$RUN_DIR/pid\"\nwhile :; do sleep 0.1; done\n")
    folder = run_folder(tmp_path, "full", 0)
    stop_when_begun(plan, tmp_path, folder / "pid", patience_s=0.5)
    assert not Job.read(folder).finished


def test_stopping_the_comparison_stops_the_evaluation_of_the_warm_up(plan, tmp_path):
    script = with_a_child(f"'{tmp_path}/pid'")
    evaluate = f"self._call(['bash', '-c', {script!r}], {str(tmp_path / 'print-out')!r})"
    stop_when_begun(plan, tmp_path, tmp_path / "pid", evaluate)
    assert not run_folder(tmp_path, "full", 0).exists()


def test_mistakes_are_found_before_anything_is_trained(plan, tmp_path, capsys):
    common = ["--plan", str(plan.folder / "compare.toml"), "--sft-dir", "s", "--run-dir", str(tmp_path / "runs"),
              "--steps", "9"]  # fmt: skip
    assert main([*common, "--variants", "later"]) == 2
    assert "missing.sh, which is not there" in capsys.readouterr().err
    assert main([*common, "--variants", "full", "--seeds", "1 1"]) == 2
    assert "seeds are different whole numbers" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main([*common, "--list"]) == 0, "a list of what there is wants no script"
    listed = capsys.readouterr().out.splitlines()
    assert "parts: full no-x" in listed and "no-x: a.sh --x false" in listed and "later: missing.sh" in listed
