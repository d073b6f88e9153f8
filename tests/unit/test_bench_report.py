"""`mobilerl bench report`: which figures count as regressions, and parts measured as their baselines were."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compare
from benchmarks.report import Figure, judge
from mobilerl.cli import main, make_parser
from mobilerl.commands.bench.plans import committed, read_plan
from mobilerl.commands.completion import FOLDERS, commands_of

IDLE, BUSY = 0.0, 1000.0
PHONE = {f"steps_per_{s}_{name}": 1e-3 for s in ("s", "cpu_s") for name in ("png_uncached", "png", "xml_only")}


def baseline(part: str) -> dict[str, Any]:
    return compare.load(committed() / f"{part}.json")


def judged(before: dict, after: dict, load: float = IDLE) -> dict[str, Figure]:
    return {figure.change.name: figure for figure in judge(before, after, 1.25, load)[0]}


def counted(part: str, load: float = IDLE, **machine: Any) -> set[str]:
    """Names of the figures that count where the same was measured on a machine that differs in `machine`."""
    after = baseline(part)
    after["machine"] |= machine
    return {name for name, figure in judged(baseline(part), after, load).items() if not figure.reason}


# --- what counts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["phone", "rollout", "replay", "learner", "refresh"])
def test_an_unchanged_baseline_has_no_regression(part):
    figures = judged(baseline(part), baseline(part))
    assert any(not f.reason for f in figures.values()) and not any(f.worse for f in figures.values())


def test_a_slower_competitor_is_no_regression_and_a_lost_lead_is():
    after = baseline("learner")
    sides = {side["side"]: side for side in after["results"]["sides"]}
    ratios = {(r["side"], r["against"]): r for r in after["results"]["ratios"]}
    sides["trl"]["rows_per_cpu_s"] /= 10
    ratios["mobilerl", "trl"]["cpu_speed"] /= 1.3
    ratios["mobilerl", "hf"]["cpu_speed"] /= 1.2
    ratios["mobilerl", "hf"]["wall_speed_max"] /= 10
    ratios["mobilerl-recompute", "mobilerl"]["cpu_speed"] /= 10  # as when the faster one became faster still
    found = [name for name, f in judged(baseline("learner"), after).items() if f.regression]
    assert found == ["ratios.mobilerl trl.cpu_speed"]


@pytest.mark.parametrize("slower, regression", [(1.5, False), (1.6, True)])
def test_times_of_two_runs_may_differ_by_the_factor_twice(slower, regression):
    after = baseline("learner")
    after["results"]["sides"][0]["rows_per_cpu_s"] /= slower
    assert judged(baseline("learner"), after)["sides.mobilerl.rows_per_cpu_s"].regression == regression


def test_on_another_class_of_machine_times_do_not_count():
    assert counted("phone", cores=64) == set()
    assert {name.rsplit(".")[-1] for name in counted("rollout", cores=64)} == {"utilisation"}
    assert {name.rsplit(".")[-1] for name in counted("learner", cores=64)} == {
        "wall_speed", "cpu_speed", "memory", "peak_mb", "held_mb", "process_peak_mb",
    }  # fmt: skip
    assert counted("learner", gpu="H100") == set()
    assert counted("refresh", gpu="H100") == {"lost", "of_a_wrong_version", "of_mixed_versions"}


def test_on_a_busy_machine_the_clock_on_the_wall_does_not_count():
    assert counted("phone", BUSY) == {name for name in PHONE if "cpu_s" in name}
    assert {name.rsplit(".")[-1] for name in counted("replay", BUSY)} == {
        "held_gib", "resident_growth_gib", "screens_gib", "mean_png_kb", "collated_rows_per_cpu_s",
    }  # fmt: skip
    assert {name.rsplit(".")[-1] for name in counted("rollout", BUSY)} == {"utilisation", "cpu_ms_per_step"}


def test_times_are_compared_at_equal_pace():
    before, after = baseline("learner") | {"pace": {"zlib": 100.0, "matmul": 400.0}}, baseline("learner")
    after["pace"] = {"zlib": 25.0, "matmul": 100.0, "of later releases": 1.0}
    for side in after["results"]["sides"]:
        side["rows_per_cpu_s"] /= 4
    found = judged(before, after)
    assert found["sides.mobilerl.rows_per_cpu_s"].change.ratio == pytest.approx(1.0)
    assert found["sides.mobilerl.rows_per_s"].change.ratio == pytest.approx(4.0)
    assert found["sides.mobilerl.peak_mb"].change.ratio == found["ratios.mobilerl trl.cpu_speed"].change.ratio == 1.0
    (said,) = [line for line in judge(before, after, 1.25, IDLE)[1] if line.startswith("pace")]
    assert "0.25 times as fast" in said


def test_what_devices_decide_does_not_follow_the_pace():
    before, after = baseline("rollout") | {"pace": {"zlib": 100.0}}, baseline("rollout") | {"pace": {"zlib": 50.0}}
    ratios = {name: f.change.ratio for name, f in judged(before, after).items()}
    assert ratios["64 trajectory.steps_per_min"] == ratios["64 trajectory.utilisation"] == 1.0
    assert ratios["64 trajectory.cpu_ms_per_step"] == 2.0


def test_a_first_fault_and_a_speed_of_zero_are_worse():
    after = baseline("refresh")
    after["results"] |= {"lost": 1, "refreshed_gb_per_s": 0.0}
    found = {name: f.change.ratio for name, f in judged(baseline("refresh"), after).items() if f.regression}
    assert found == {"lost": 0.0, "refreshed_gb_per_s": 0.0}


def test_what_was_measured_differently_is_said():
    after = copy.deepcopy(baseline("learner"))
    after["machine"]["cores"] = 64
    after["results"]["sides"] = [s for s in after["results"]["sides"] if not s["side"].startswith("trl")]
    before = baseline("learner")
    _, differ = judge(before, after | {"versions": {"torch": "3.0"}}, 1.25, IDLE)
    assert "machine.cores: 2 before, 64 now" in differ
    assert "sides.trl: not measured now" in differ
    assert f"versions.torch: {before['versions']['torch']} before, 3.0 now" in differ
    _, differ = judge({k: v for k, v in before.items() if k != "versions"}, after, 1.25, IDLE)
    assert any("baseline does not say" in line for line in differ)
    older = after | {"versions": {"torch": "2.13.0", "trl": "1.16.0"}}
    _, differ = judge(older, after | {"versions": {"torch": "3.0"}}, 1.25, IDLE)
    assert differ == ["versions.torch: 2.13.0 before, 3.0 now", "versions.trl: 1.16.0 before, none now"]


# --- the command ---------------------------------------------------------------------------------------------------


def put(folder: Path, part: str, command: str, results: Any) -> None:
    folder.mkdir(exist_ok=True)
    content = {"schema": compare.SCHEMA, "part": part, "command": command, "machine": compare.machine()}
    compare.write(folder / f"{part}.json", content | {"results": results})


@pytest.fixture
def idle(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (IDLE,) * 3)


def test_a_part_is_measured_as_its_baseline_was_and_another_is_skipped(tmp_path, capfd, idle):
    put(tmp_path / "old", "phone", "mobilerl bench phone --steps 20 --width 180", PHONE)
    put(tmp_path / "old", "learner", "mobilerl bench learner --network 1T", {"rows": 1})
    words = ("--parts", "learner", "phone", "--baselines", str(tmp_path / "old"), "--save", str(tmp_path / "new"))
    assert main(["bench", "report", *words, "--json"]) == 0
    learner, phone = json.loads(capfd.readouterr().out)["parts"]
    assert (learner["state"], "--network is '1T'" in learner["reason"]) == ("skipped", True)
    assert (phone["state"], phone["regressions"], len(phone["figures"])) == ("measured", 0, len(PHONE))
    assert all(figure["counts"] and figure["times as good"] > 1 for figure in phone["figures"])
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["phone.json"]
    saved = compare.load(tmp_path / "new" / "phone.json")
    assert saved["command"] == "mobilerl bench phone --steps 20 --width 180" and "numpy" in saved["versions"]
    assert {f["figure"]: f["now"] for f in phone["figures"]} == saved["results"]


def test_a_regression_and_a_part_that_breaks_exit_with_1(tmp_path, capfd, idle):
    put(tmp_path, "phone", "mobilerl bench phone --steps 20", {name: 1e9 for name in PHONE})
    assert main(["bench", "report", "--parts", "phone", "--baselines", str(tmp_path)]) == 1
    said = capfd.readouterr().out
    assert f"phone: {len(PHONE)} of {len(PHONE)} figures got worse" in said and "steps_per_s_png_uncached" in said
    put(tmp_path, "phone", f"mobilerl bench phone --width {10**9}", PHONE)
    assert main(["bench", "report", "--parts", "phone", "--baselines", str(tmp_path)]) == 1
    assert "phone: failed: InfraError" in capfd.readouterr().out


def test_when_nothing_could_be_measured_nothing_is_right(tmp_path, capfd):
    put(tmp_path, "phone", "mobilerl bench phone --steps 0", PHONE)
    assert main(["bench", "report", "--parts", "phone", "--baselines", str(tmp_path)]) == 2
    said = capfd.readouterr()
    assert "phone: skipped: --steps is 0" in said.out and "no part could be measured here" in said.err


@pytest.mark.parametrize(
    "command, says",
    [
        ("mobilerl bench phone; touch {dir}/x", "is not of `mobilerl bench phone`"),
        ("mobilerl bench phone --steps 20; touch {dir}/x", "invalid int value: '20;'"),
        ("mobilerl bench phone --steps 20 $(touch {dir}/x)", "'$(touch' is not known"),
        ("mobilerl bench phone --help", "its command cannot be used"),
        ("mobilerl bench report --parts phone", "is not of `mobilerl bench phone`"),
        ("mobilerl train --run-dir {dir}/x", "is not of `mobilerl bench phone`"),
        ("sh -c 'touch {dir}/x'", "is not of `mobilerl bench phone`"),
        ("mobilerl bench phone '", "is not of `mobilerl bench phone`"),
    ],
)
def test_a_command_that_measures_no_part_is_refused_before_anything_runs(command, says, tmp_path, capsys):
    put(tmp_path, "phone", command.format(dir=tmp_path), PHONE)
    assert main(["bench", "report", "--parts", "phone", "--baselines", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert says in said.err and "phone.json" in said.err and said.err.count("\n") == 1 and not said.out
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "words, says",
    [
        (("--baselines", "{dir}"), "mobilerl bench phone --save {dir}/phone.json"),
        (("--factor", "nan"), "--factor is nan"),
        (("--factor", "0.5"), "--factor is 0.5"),
    ],
)
def test_bad_input_of_the_report_is_one_line(words, says, tmp_path, capsys):
    assert main(["bench", "report", *(w.format(dir=tmp_path) for w in words)]) == 2
    error = capsys.readouterr().err
    assert says.format(dir=tmp_path) in error and error.count("\n") == 1


def test_the_committed_baselines_can_be_taken_again():
    for file in committed().glob("*.json"):
        plan = read_plan(committed(), file.stem)
        args = make_parser().parse_args(plan.words)
        assert args.part == file.stem and callable(args.measure)


def test_the_command_is_saved_as_it_was_given(tmp_path):
    file = tmp_path / "phone.json"
    assert main(["bench", "phone", "--steps", "5", "--save", str(file), "--width=180", "--json"]) == 0
    assert compare.load(file)["command"] == "mobilerl bench phone --steps 5 --width=180"


def test_completion_knows_the_report():
    (report,) = (c for c in commands_of(make_parser()) if c.path == ("bench", "report"))
    values = {flag.name: flag.values for flag in report.flags}
    assert values["--parts"] == ("phone", "rollout", "replay", "learner", "refresh")
    assert values["--baselines"] == values["--save"] == (FOLDERS,)
