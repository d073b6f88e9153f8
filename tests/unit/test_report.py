import io
from pathlib import Path

import pytest
from rich.console import Console

from mobilerl.eval.intervals import crossed, rates_table
from mobilerl.eval.report import EpisodeResult, build_results, difference, print_results, read_results, write_results
from mobilerl.eval.table import Entry, markdown, read_figures, write_figures


def episode(task, trial=0, success=True, status="finished", steps=4, feasible=True) -> EpisodeResult:
    template = task.split("-")[0]
    return EpisodeResult(
        task, template, "Clock", feasible, "test", trial, float(success), success, steps, status, "x" if steps else ""
    )


DOCS = Path(__file__).parents[2] / "docs"
EPISODES = [
    episode("alarm-1", 0, True, steps=2),
    episode("alarm-1", 1, False, "truncated", steps=6),
    episode("alarm-2", 0, True, steps=4),
    episode("alarm-2", 1, False, "infra_error", steps=0),
    episode("timer-1", 0, False, "invalid", steps=3, feasible=False),
    episode("timer-1", 1, False, "truncated", steps=5, feasible=False),
]


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def test_infra_errors_are_counted_apart():
    results = build_results("sim", {"seed": 30}, EPISODES)
    # valid: alarm 1, 0, 1 and timer 0, 0 -> 2 of 5; with the error as a zero 2 of 6
    assert results["success_rate"] == pytest.approx(2 / 5)
    assert results["success_rate_errors_as_zero"] == pytest.approx(2 / 6)
    assert (results["trials"], results["successes"], results["errors"]) == (5, 2, 1)
    assert results["ci95"] == pytest.approx([0.117621, 0.769276], abs=1e-5)  # Wilson, 2 of 5
    assert results["per_task"]["alarm"] == {
        "app": "Clock",
        "feasible": True,
        "successes": 2,
        "trials": 3,
        "errors": 1,
        "mean_steps": 4.0,
    }
    assert results["per_task"]["timer"]["feasible"] is False
    # fewest valid trials of an instance is 1, so only k = 1: (1/2 + 1 + 0) / 3
    assert results["pass_at_k"] == {"1": pytest.approx(0.5)}
    low, high = results["ci95_by_task"]
    assert (low, high) == (0.0, pytest.approx(2 / 3))


def test_pass_at_k_grows_in_powers_of_two():
    results = build_results("sim", {}, [episode("a-1", trial, trial == 0) for trial in range(5)])
    # 1 success in 5: 1 - C(4,k)/C(5,k) = k/5
    assert results["pass_at_k"] == {"1": pytest.approx(0.2), "2": pytest.approx(0.4), "4": pytest.approx(0.8)}
    assert results["ci95_by_task"] is None


def test_results_come_back_equal_and_print_their_protocol(tmp_path):
    results = build_results("sim", {"model": "tiny [v1]", "max_steps": 20}, EPISODES)
    path = tmp_path / "eval" / "sim" / "results.json"
    write_results(path, results)
    assert read_results(path) == results
    console = quiet()
    print_results(results, console)
    text = console.file.getvalue()
    for expected in (
        "model: tiny [v1]",
        "max_steps: 20",
        "timer (infeasible)",
        "40.0%",
        "2/5 trials)",
        "1 infra errors",
    ):
        assert expected in text


def test_an_instance_lost_to_errors_leaves_both_sides():
    before = [episode("t-0"), episode("t-1", success=False), episode("t-2", status="infra_error", success=False)]
    after = [episode("t-0"), episode("t-1"), episode("t-2")]
    found = difference(build_results("sim", {}, before), build_results("sim", {}, after))
    assert (found.instances, found.mean_a, found.mean_b) == (2, 0.5, 1.0)


def test_other_instances_and_other_suites_are_not_compared():
    a, b = ([episode("t-0"), episode(name)] for name in ("t-1", "t-2"))
    with pytest.raises(ValueError, match="not of the same instances: 1 only in the first .such as 't-1'"):
        difference(build_results("sim", {}, a), build_results("sim", {}, b))
    with pytest.raises(ValueError, match="different suites: 'sim' and 'androidworld'"):
        difference(build_results("sim", {}, a), build_results("androidworld", {}, a))


def test_intervals_of_several_seeds_are_over_seeds_and_templates():
    def seed(*successes: int) -> dict:
        """Results of two instances of each of the templates a, b and c, with this number of successes each."""
        made = [episode(f"{t}-{i}", success=i < n) for t, n in zip("abc", successes, strict=True) for i in range(2)]
        return build_results("sim", {}, made)

    before, after = (seed(0, 1, 1), seed(0, 0, 1)), (seed(1, 2, 2), seed(2, 1, 1))
    _, _, _, row = markdown([Entry("before", before), Entry("after", after)]).splitlines()
    change = crossed(rates_table(after), rates_table(before)).interval
    assert "| 75.0%   | 0.0% to 100.0% | 83.3%, 66.7% |" in row, "six rates say little"
    assert f"| +50.0 points | {100 * change.low:+.1f} to {100 * change.high:+.1f} " in row


def test_a_table_of_one_instance_has_no_difference():
    entries = [Entry(name, (build_results("sim", {}, [episode("t-0")]),)) for name in ("before", "after")]
    head, _, *rows = markdown(entries).splitlines()
    assert "difference" not in head and len(rows) == 2 and all("100.0%" in row for row in rows)


def test_a_table_comes_back_equal_from_its_figures(tmp_path):
    before = build_results("sim", {}, EPISODES)
    better = [episode(e.task_id, e.trial, e.trial == 0, e.status, e.steps, e.feasible) for e in EPISODES]
    after = build_results("sim", {}, better)
    after["parts"] = {"pairs": before}
    after["unseen_templates"] = before
    entries = [Entry("SFT", (before,)), Entry("AdaGRPO", (after,)), Entry("two seeds", (before, after))]
    write_figures(tmp_path / "figures.json", entries)
    assert markdown(read_figures(tmp_path / "figures.json")) == markdown(entries)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="other.json: not a file of"):
        read_figures(tmp_path / "other.json")


OF_EPISODES = [file for file in sorted(DOCS.glob("*.json")) if '"rows"' in file.read_text()]
"""Figures by `eval.table`; the others have tests of their own."""


@pytest.mark.parametrize("file", OF_EPISODES, ids=lambda file: file.name)
def test_the_published_tables_are_those_of_the_published_episodes(file):
    assert markdown(read_figures(file)) in (DOCS / "results.md").read_text()
