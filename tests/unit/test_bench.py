"""Benchmarks: which figures count as regressions, what a report runs, and the arithmetic of `replay`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.results import Figure, compare, flatten, load
from mobilerl.cli import main

BASELINES = Path(results.__file__).parent / "baselines"


def baseline(part: str) -> dict[str, Any]:
    return load(BASELINES / f"{part}.json")


def compared(before: dict, after: dict) -> dict[str, Figure]:
    return {figure.name: figure for figure in compare(before, after)[0]}


def counted(part: str, busy: bool = False, **machine: Any) -> set[str]:
    """Last parts of the names of figures that count if measured on a machine that differs in `machine`."""
    after = baseline(part) | {"load": 1000.0 if busy else 0.0}
    after["machine"] |= machine
    return {n.rsplit(".")[-1] for n, figure in compared(baseline(part), after).items() if not figure.reason}


# --- what counts ---------------------------------------------------------------------------------------------------


def test_a_slower_competitor_is_no_regression_and_a_lost_lead_is():
    after = baseline("learner")
    sides = {side["side"]: side for side in after["results"]["sides"]}
    ratios = {(r["side"], r["against"]): r for r in after["results"]["ratios"]}
    sides["trl"]["rows_per_cpu_s"] /= 10
    ratios["mobilerl", "trl"]["cpu_speed"] /= 1.3
    ratios["mobilerl", "hf"]["cpu_speed"] /= 1.2
    ratios["mobilerl", "hf"]["wall_speed_max"] /= 10
    ratios["mobilerl-recompute", "mobilerl"]["cpu_speed"] /= 10  # as when the faster one became faster still
    found = [name for name, f in compared(baseline("learner"), after).items() if f.regression]
    assert found == ["ratios.mobilerl trl.cpu_speed"]


def test_times_of_another_or_a_busy_machine_do_not_count():
    assert counted("phone", cores=64) == counted("learner", gpu="H100") == set()
    assert counted("learner", cores=64) == {"wall_speed", "cpu_speed", "memory", "peak_mb", "held_mb"}
    assert counted("rollout", busy=True) == {"utilisation", "cpu_ms_per_step"}


# --- the commands --------------------------------------------------------------------------------------------------


def test_a_part_is_saved_compared_and_reported(tmp_path, capsys):
    old, new = tmp_path / "phone.json", tmp_path / "new" / "phone.json"
    assert main(["bench", "phone", "--steps", "20", "--json", "--save", str(old)]) == 0
    assert json.loads(capsys.readouterr().out)["steps_per_s_xml_only"] > 0
    assert load(old)["command"] == "mobilerl bench phone --steps 20"
    report = ["bench", "report", "--parts", "phone", "--baselines", str(tmp_path), "--factor", "100"]
    assert main([*report, "--save", str(new.parent), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["phone"]["figures"]) == 6
    worse = load(new)
    worse["results"] = {name: value / 1000 for name, value in worse["results"].items()}
    results.write(new, worse | {"load": 0.0})
    assert main(["bench", "compare", str(old), str(new)]) == 1
    assert "worse" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "figure"),
    [
        ("rollout --devices 8 --seconds 0.5", "8 trajectory.utilisation"),
        ("learner --hidden 32 --layers 1 --rows 8 --rounds 1", "ratios.mobilerl hf.cpu_speed"),
        ("replay --rows 40 --screens 3 --collate 2", "held_gib"),
    ],
)
def test_each_part_measures_what_its_baseline_holds(words, figure, tmp_path):
    file = tmp_path / "results.json"
    assert main(["bench", *words.split(), "--save", str(file)]) == 0
    assert flatten(load(file)["results"])[figure] > 0 and figure in flatten(baseline(words.split()[0])["results"])


def test_a_baseline_with_another_command_is_not_run(tmp_path, capsys):
    results.write(tmp_path / "phone.json", baseline("phone") | {"command": "mobilerl train --run-dir x"})
    assert main(["bench", "report", "--parts", "phone", "--baselines", str(tmp_path)]) == 2
    assert "is not one of `mobilerl bench phone`" in capsys.readouterr().err
