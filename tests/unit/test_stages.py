"""The table of what training stages learn and forget."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mobilerl.eval import stages
from mobilerl.eval.intervals import crossed
from mobilerl.eval.report import UNSEEN, EpisodeResult, build_results, write_results
from mobilerl.eval.statistics import holm
from mobilerl.suites.plan import results_by_part, summary

ROOT = Path(__file__).parents[2]


def episodes(split: str, successes: int, first: int = 0) -> list[EpisodeResult]:
    """Four of a part, two of each template, of which so many succeed."""
    return [
        EpisodeResult(
            f"{split}-{first + i}",
            "st"[i % 2],
            "App",
            True,
            split,
            0,
            float(i < successes),
            i < successes,
            3,
            "finished",
        )
        for i in range(4)
    ]


def evaluate(folder, phone: int, unseen: int, generated: int, first: int = 0):
    for suite in ("sim", "generated"):
        (folder / suite).mkdir(parents=True)
    sim = build_results("sim", {}, episodes("train", phone, first)) | {
        UNSEEN: summary(build_results("sim", {}, episodes("test", unseen)))
    }
    write_results(folder / "sim" / "results.json", sim)
    parts = [e for part in ("instances", "phrasings", "pairs", "apps") for e in episodes(part, generated)]
    write_results(folder / "generated" / "results.json", results_by_part("generated", {}, parts, "instances"))
    return folder


def test_what_a_stage_forgot_most_stands_in_its_row(tmp_path, capsys):
    before, after = evaluate(tmp_path / "a", 1, 0, 3), evaluate(tmp_path / "b", 4, 0, 1)
    again = evaluate(tmp_path / "c", 2, 0, 1)
    file = tmp_path / "stages.json"
    assert stages.main(["--json", str(file), f"start={before}", f"SFT={after}", f"SFT={again}"]) == 0
    table = capsys.readouterr().out
    start, sft, difference = (line.strip("| ").split(" | ") for line in table.splitlines()[2:])
    assert start[1].startswith("25.0 % (0.0 to 100.0)") and len(start) == 7, "nothing is forgotten at the start"
    assert sft[0] == "SFT, 2 seeds"
    assert [cell.split(" (")[0] for cell in sft[1:-1]] == ["75.0 %", "0.0 %", *["25.0 %"] * 4]
    assert sft[-1] == "generated: instances: -50.0"
    gained = crossed(np.array([[1, 1], [0.5, 0.5]]), np.array([[0.5, 0]]))
    lost = crossed(np.array([[0.5, 0], [0.5, 0]]), np.array([[1, 0.5]]))
    adjusted = holm([gained.p, 1.0, *[lost.p] * 4])
    low, high = gained.interval.low, gained.interval.high
    assert difference[1] == f"+50.0 ({100 * low:+.1f} to {100 * high:+.1f}, p {adjusted[0]:.2g})"
    written = [f"{p:.2g})" if p >= 0.001 else "< 0.001)" for p in adjusted]
    assert [cell.rpartition(", p ")[2] for cell in difference[1:]] == written
    assert stages.main(["--json", str(file)]) == 0 and capsys.readouterr().out == table, "it is made of the figures"
    assert json.loads(file.read_text())["stages"][1]["seeds"][1]["phone"] == {"s": [1, 2], "t": [1, 2]}


def test_stages_on_other_instances_are_not_compared(tmp_path):
    before, after = evaluate(tmp_path / "a", 1, 0, 3), evaluate(tmp_path / "b", 1, 0, 3, first=1)
    with pytest.raises(ValueError, match="other instances"):
        stages.gather({"a": [before], "b": [after]})


@pytest.mark.parametrize("file", ["generated.json", "stages.json"])
def test_the_published_tables_are_those_of_the_published_figures(file):
    page = (ROOT / "docs" / "results.md").read_text()
    assert stages.markdown(json.loads((ROOT / "docs" / file).read_text())) in page
