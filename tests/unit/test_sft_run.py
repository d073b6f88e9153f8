"""A warm-up that goes on: what it keeps of a killed one, what it writes anew, and what it takes away."""

from __future__ import annotations

import shutil
import socket
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from mobilerl import tiny
from mobilerl.config import ConfigError, Recipe, SftSection
from mobilerl.config.reading import claim
from mobilerl.engines.codec import Codec
from mobilerl.train.tracking import read_metrics
from sft.distributed import Cluster
from sft.folders import remove_unfinished
from sft.reasoning import Reasoned
from sft.run import PLACEMENT, WarmUp, run
from sft.samples import Sample

STEPS = {"recitals": (20,), "lessons": (20, 40), "stage1": (20, 40, 60), "stage2-round1": (20,), "stage2-round2": (20,)}
"""Steps at which the stages report."""
WHOLE = [(20, "recitals"), (40, "lessons"), (60, "lessons"), (80, "stage1"), (100, "stage1"), (120, "stage1"),
         (140, "stage2-round1"), (160, "stage2-round2")]  # fmt: skip
CODEC = SimpleNamespace(max_pixels=None)


class Killed(Exception):
    pass


class Trainer:
    """In place of a stage's training, here or in ranks: reports at the stage's steps; is killed after its last one."""

    def __init__(self) -> None:
        self.kills = ""

    def here(self, job, codec, samples, out: Path, report) -> None:
        name = out.name[1:].removesuffix(".tmp")
        for step in STEPS[name]:
            report.add(step, 60, 1.0, 0.1)
        self.end(name, out)

    def ranks(self, job, samples, folder: Path, cluster, on_log) -> Path:
        name = folder.name[1:].removesuffix(".job")
        for step in STEPS[name]:
            on_log({"step": step, "max_steps": 60, "loss": 1.0, "learning_rate": 0.1})
        self.end(name, folder / "out")
        return folder / "out"

    def end(self, name: str, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        if name == self.kills:
            raise Killed


@pytest.fixture
def trainer(monkeypatch) -> Trainer:
    made = Trainer()
    monkeypatch.setattr(WarmUp, "_train_here", lambda self, *args: made.here(*args))
    monkeypatch.setattr("sft.run.fit", made.ranks)
    return made


def train(run_dir: Path, *stages: str, processes: int = 0) -> None:
    """As a process of its own would."""
    warm_up = WarmUp(Recipe(sft={"processes": processes}), run_dir)
    for name in stages:
        warm_up._train(name, run_dir / "init", CODEC, [], 1.0)


def rows(run_dir: Path) -> list[tuple[int, str]]:
    return [(row["iteration"], row["stage"]) for row in read_metrics(run_dir / "metrics.jsonl")]


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("killed", STEPS)
def test_the_rows_of_a_killed_stage_are_written_anew(trainer, tmp_path, killed, processes):
    trainer.kills = killed
    with pytest.raises(Killed):
        train(tmp_path, *STEPS, processes=processes)
    assert rows(tmp_path)[-1][1] == killed
    trainer.kills = ""
    train(tmp_path, *STEPS, processes=processes)
    assert rows(tmp_path) == WHOLE
    train(tmp_path, *STEPS, processes=processes)
    assert rows(tmp_path) == WHOLE, "what is there is not touched"


def test_a_stage_trains_on_the_threads_that_the_recipe_names(monkeypatch, tmp_path):
    import torch

    seen: list[int] = []
    before = torch.get_num_threads()
    monkeypatch.setattr("sft.run.trainable_model", lambda *args: None)
    monkeypatch.setattr("sft.run.train", lambda *args: seen.append(torch.get_num_threads()))
    monkeypatch.setattr("sft.run.save_model", lambda model, codec, path: path.mkdir())
    try:
        for threads in (1, 3):
            recipe = Recipe(engine={"threads": threads})
            WarmUp(recipe, tmp_path)._train(f"on {threads}", tmp_path / "init", CODEC, [], 1.0)
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 3]


def test_stage_2_of_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no stage 1 .* train it first"):
        run(Recipe(), tmp_path, (2,))
    assert not any(tmp_path.iterdir())


def test_a_node_that_stays_away_does_not_spoil_what_was_trained(monkeypatch, caplog):
    monkeypatch.setattr("sft.distributed.BYE", timedelta(seconds=0.2))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    cluster = Cluster(SftSection(processes=1, nodes=3, rendezvous=f"127.0.0.1:{port}"))
    cluster.store.set("bye-1", b"")
    cluster.close()
    assert "of node 2 nothing was heard" in caplog.text


def test_a_stage_alone_goes_after_those_that_are_there(trainer, tmp_path):
    train(tmp_path, "recitals", "lessons", "stage1")
    train(tmp_path, "recitals", "lessons", "stage2-round1", "stage2-round2")
    assert rows(tmp_path) == WHOLE


def test_what_is_there_is_not_prepared_again(trainer, tmp_path, monkeypatch):
    """Neither are thoughts asked for, nor are sources and lessons read."""
    asked: list[str] = []
    step = SimpleNamespace()
    monkeypatch.setattr("sft.run.Codec", SimpleNamespace(load=lambda *args: CODEC))
    monkeypatch.setattr("sft.run.encode", lambda *args: None)
    monkeypatch.setattr("sft.run.lessons", None)
    monkeypatch.setattr("sft.run.recitals", None)
    monkeypatch.setattr("sft.run.encode_all", None)

    def bootstrap(steps, proposer, candidates, rng):
        asked.append(f"{proposer} {rng.random()}")
        return [Reasoned(step, "a thought")], 1.0

    monkeypatch.setattr("sft.run.bootstrap", bootstrap)
    monkeypatch.setattr(WarmUp, "_proposer", lambda self, number, base: f"round {number} of {base.name}")
    monkeypatch.setattr(WarmUp, "_refreshed", lambda self, name, codec, samples: samples)
    warm_up = WarmUp(Recipe(sft={"proposer_url": "http://x/v1", "stage2_rounds": 2}), tmp_path)
    for name in ("recitals", "lessons", "stage1"):
        (tmp_path / name).mkdir()
    assert warm_up.read(tmp_path / "init") == tmp_path / "lessons"
    assert warm_up.stage1([step], tmp_path / "lessons") == tmp_path / "stage1"
    last = warm_up.stage2([step], tmp_path / "stage1")
    whole = list(asked)
    assert [a.rpartition(" ")[0] for a in whole] == ["round 1 of stage1", "round 2 of stage2-round1"]
    assert warm_up.stage2([step], tmp_path / "stage1") == last and asked == whole
    shutil.rmtree(last)
    assert warm_up.stage2([step], tmp_path / "stage1") == last
    assert asked == [*whole, whole[1]], "the round that is missing, as it would have been"


@pytest.mark.slow
def test_real_ranks_report_into_metrics_once(tmp_path):
    tiny.create(tmp_path / "base", ["tap open"], hidden=16, layers=1, heads=1, vision_hidden=16)
    recipe = Recipe(sft={"processes": 2, "batch_size": 2}, model=str(tmp_path / "base"))
    warm_up = WarmUp(recipe, tmp_path / "run")
    samples = [Sample((5, 6), (7,), ())] * 42
    warm_up._train("stage1", tmp_path / "base", Codec.load(tmp_path / "base"), samples, 2.0)
    assert rows(tmp_path / "run") == [(20, "stage1"), (40, "stage1")]
    assert (tmp_path / "run" / "stage1" / "model.safetensors").is_file()


def test_another_recipe_is_refused_with_what_differs(tmp_path):
    claim(Recipe(), tmp_path, PLACEMENT)
    with pytest.raises(ConfigError, match=r"another recipe \(tiny.hidden, sft.seed differ\)"):
        run(Recipe(sft={"seed": 1, "processes": 2}, tiny={"hidden": 64}), tmp_path)


def test_what_a_killed_warm_up_left_goes_and_nothing_else(tmp_path, monkeypatch):
    def looked_at(self: WarmUp, base: Path) -> Path:
        raise Killed

    monkeypatch.setattr(WarmUp, "read", looked_at)
    kept = {"config.json", "init", "stage1", ".mine.tmp", ".mine.txt.tmp"}
    for name in (".init.tmp", ".lessons.tmp", ".stage2-round1.tmp", ".final.tmp", ".stage1.job", ".mine.tmp", "stage1",
                 "init"):  # fmt: skip
        (tmp_path / name / "deeper").mkdir(parents=True)
    for name in (f".metrics.jsonl.{'0a' * 16}.tmp", ".mine.txt.tmp"):
        (tmp_path / name).touch()
    with pytest.raises(Killed):
        run(Recipe(), tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == kept


def test_files_of_other_folders_go_where_they_are_named(tmp_path):
    for folder in ("eval", "pages"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f".results.json.{'1b' * 16}.tmp").touch()
    remove_unfinished(tmp_path, tmp_path / "eval", tmp_path / "none")
    assert [p.parent.name for p in tmp_path.rglob(".*.tmp")] == ["pages"]
