import json

import pytest

from mobilerl.cli import main
from mobilerl.config import load_recipe
from mobilerl.envs.phone.tasks import suite
from mobilerl.eval import table
from mobilerl.eval.journal import Journal
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.records.files import load_trajectories
from mobilerl.suites import evaluation
from mobilerl.suites.phone.evaluation import SimPlan

FEW = ("TodoDue", "ClockAlarmMissing", "MapsNoteDistance")  # trained, infeasible, reserved for development


def play(tmp_path, agent, *flags):
    words = ["--split", "dev", *(w for name in FEW for w in ("--template", name))]
    assert main(["eval", "sim", "--agent", agent, "--instances", "2", *words, "--out", str(tmp_path), *flags]) == 0
    return json.loads((tmp_path / "results.json").read_text())


def test_expert_earns_everything(tmp_path):
    results = play(tmp_path, "expert", "--split", "all")
    assert results["success_rate"] == 1.0 and results["unseen_templates"]["success_rate"] == 1.0
    # "all" is 2 instances for every split of each trained template, and 2 of the other.
    assert {name: row["trials"] for name, row in results["per_task"].items()} == {
        "TodoDue": 6,
        "ClockAlarmMissing": 6,
        "MapsNoteDistance": 2,
    }
    assert results["per_task"]["ClockAlarmMissing"]["feasible"] is False
    assert results["trials"] == 12 and results["errors"] == 0


def test_random_agent_is_repeatable(tmp_path):
    flags = ("--trials", "2", "--phone.popup_rate", "0.5")
    first, second = play(tmp_path / "a", "random", *flags), play(tmp_path / "b", "random", *flags)
    assert first == second


def test_a_finished_evaluation_is_not_repeated_and_only_replaced_when_asked(tmp_path, monkeypatch, capsys):
    before = play(tmp_path, "noop")
    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "run_tasks", lambda *_, **__: pytest.fail("played again"))
        capsys.readouterr()
        assert play(tmp_path, "noop") == play(tmp_path, "noop", "--replace") == before
        assert "results.json is finished" in (said := capsys.readouterr().out) and "success rate" in said
        words = [
            "eval",
            "sim",
            "--split",
            "dev",
            "--instances",
            "2",
            *(w for name in FEW for w in ("--template", name)),
        ]
        for other, says in (
            (["finish"], '"noop" and not "finish"'),
            (["noop", "--phone.popup_rate", "0"], "0.5 and not 0"),
        ):
            assert main([*words, "--agent", *other, "--out", str(tmp_path)]) == 2
            assert f"{says}; choose another --out, or add --replace" in capsys.readouterr().err.replace("0.0", "0")
        assert json.loads((tmp_path / "results.json").read_text()) == before
    assert play(tmp_path, "finish", "--replace")["protocol"]["agent"] == "finish"


def test_kept_episodes_are_played_again_where_they_are_missing_and_shown_by_the_viewer(tmp_path):
    out = tmp_path / "eval" / "sim"
    assert play(out, "expert")["trials"] == play(out, "expert", "--keep")["trials"] == 4
    kept = load_trajectories(out / "trajectories" / "iter-000000.jsonl")
    assert len(kept) == 6 and all(t.success and all(s.observation.screenshot for s in t.steps) for t in kept)
    assert main(["view", str(tmp_path)]) == 0
    shown = (tmp_path / "view" / "data" / "index.js").read_text()
    assert all(json.dumps(t.task.id) in shown for t in kept)


def test_an_interrupted_evaluation_goes_on_with_the_same_command(tmp_path, capsys, monkeypatch):
    """Also one whose devices failed; another one is refused until then."""
    whole = play(tmp_path / "whole", "random", "--trials", "2")
    played = []

    def interrupted(self, record):
        end(self, record)
        played.append(record["task_id"])
        if len(played) == 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        end = Journal.end
        patched.setattr(Journal, "end", interrupted)
        words = ["eval", "sim", "--agent", "random", "--instances", "2", "--trials", "2", "--keep", "--split", "dev"]
        words += [w for name in FEW for w in ("--template", name)] + ["--out", str(tmp_path / "part")]
        assert main(words) == 130
    said = capsys.readouterr().err
    kept = tmp_path / "part" / "episodes.jsonl"
    assert f"stopped; 6 of 12 episodes are done and kept in {kept}; the same command goes on:\n  mobilerl eval" in said
    assert main([*words, "--phone.popup_rate", "0"]) == 2 and "popup_rate = 0.5 and not 0.0" in capsys.readouterr().err
    assert main(words) == 0 and "resuming: 3 of 6 tasks are done" in capsys.readouterr().out
    assert json.loads((tmp_path / "part" / "results.json").read_text()) == whole and not kept.exists()
    trajectories = load_trajectories(tmp_path / "part" / "trajectories" / "iter-000000.jsonl")
    assert len({t.id for t in trajectories}) == len(trajectories) == 12


def test_a_leak_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "train_tasks", lambda n, **_: suite.held_out_tasks(n))
    with pytest.raises(ValueError, match="leak"):
        evaluation.evaluate(load_recipe(None), SimPlan(), "noop", None, tmp_path)
    assert not (tmp_path / "results.json").exists()


def test_pass_k_samples_every_instance_k_times(tmp_path):
    flags = ("--pass-k", "3", "--instances", "1")
    words = ("--agent", "finish", "--template", "TodoDue", "--out", str(tmp_path))
    assert main(["eval", "sim", *words, *flags]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["trials"], results["protocol"]["instances_per_template"]) == (3, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sim", "--agent", "noop"), "--out DIR is missing"),
        (
            ("sim", "--agent", "noop", "--out", "x", "--split", "train", "--template", "MapsNoteDistance"),
            "has no tasks",
        ),
        (("sim", "--agent", "noop", "--out", "x", "--model", "y"), "no model"),
        (("androidworld", "--server", "http://h:1", "--agent", "noop"), "--out DIR is missing"),
        (("androidworld", "--server", "http://h:1", "--fleet", "1", "--out", "x"), "leave one of them out"),
        (("androidworld", "--server", "http://h:1", "--out", "x"), "--model is missing"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, words, says):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", *words]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "task"), [("sim", "ClockAlarmMissing"), ("androidworld", "ContactsAddContact")])
def test_tasks_are_listed(capsys, monkeypatch, name, task):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["eval", name, "--list"]) == 0 and task in capsys.readouterr().out


# --- the table ---------------------------------------------------------------------------------------------------


def results(path, wins, instances=4, trials=1):
    """`wins[i]` successes of `trials` at instance i."""
    episodes = [
        EpisodeResult(f"T/{i}", "T", "Clock", True, "train", k, 0.0, k < wins[i], 3, "finished")
        for i in range(instances)
        for k in range(trials)
    ]
    write_results(path, build_results("sim", {}, episodes))
    return path


def test_table_pools_seeds_and_pairs_with_the_first_row(tmp_path):
    words = [
        f"SFT={results(tmp_path / 'a', [1, 0, 0, 0])}",
        f"RL={results(tmp_path / 'b', [1, 1, 0, 0])}",
        f"RL={results(tmp_path / 'c', [1, 1, 1, 1])}",
        f"sampled={results(tmp_path / 'd', [2, 0], instances=2, trials=2)}",
    ]
    head, _, sft, rl, sampled = table.markdown(table.read_entries(words)).splitlines()
    assert len({line.count("|") for line in (head, sft, rl, sampled)}) == 1
    assert "| 25.0% " in sft and "points" not in sft
    # 2 + 4 of 8; by instance 1, 1, 1/2, 1/2 against 1, 0, 0, 0: (0 + 1 + 1/2 + 1/2) / 4 = 50 points.
    assert "| 75.0% " in rl and "| 50.0%, 100.0% |" in rl and "+50.0 points" in rl
    # Other instances than the rows before it: nothing to pair with. One of two instances was ever solved.
    assert "pass@2 50.0%" in sampled and "points" not in sampled


def test_table_pairs_every_held_out_part(tmp_path):
    """The parts of generated tasks; one that the first row lacks has no difference."""
    paths = [results(tmp_path / name, successes) for name, successes in (("a", [1, 0, 0, 0]), ("b", [1, 1, 0, 0]))]
    for path, pairs in zip(paths, ([0, 0, 0, 0], [1, 1, 1, 0]), strict=True):
        part = json.loads(results(path.parent / "pairs", pairs).read_text())
        kept = json.loads(path.read_text()) | {
            "parts": {"pairs": part} if path is paths[0] else {"pairs": part, "apps": part}
        }
        path.write_text(json.dumps(kept))
    words = [f"{name}={path}" for name, path in zip(("SFT", "RL"), paths, strict=True)]
    _, _, sft, rl = table.markdown(table.read_entries(words)).splitlines()
    assert "| 0.0% " in sft and "| 75.0% (+75.0 points, " in rl and "| 75.0%   " in rl and "+25.0 points" in rl
