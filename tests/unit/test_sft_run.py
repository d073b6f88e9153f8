"""A resumed SFT run: what it keeps of a killed one, what it writes anew, and what it removes."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from ports import free_port

from mobilerl.config import ConfigError, Recipe, SftSection
from mobilerl.sft.distributed import Cluster
from mobilerl.sft.run import SftRun, remove_unfinished, run
from mobilerl.sft.samples import Sample
from mobilerl.training.tracking import read_metrics

STEPS = {"copying": (20,), "reading": (20, 40), "stage1": (20, 40, 60), "stage2-round1": (20,), "stage2-round2": (20,)}
"""Steps at which the stages report."""
WHOLE = [
    (20, "copying"),
    (40, "reading"),
    (60, "reading"),
    (80, "stage1"),
    (100, "stage1"),
    (120, "stage1"),
    (140, "stage2-round1"),
    (160, "stage2-round2"),
]
CODEC = SimpleNamespace(max_pixels=None)
SAMPLE = Sample((1, 2), (3,), ())


class Killed(Exception):
    pass


class Trainer:
    """In place of a stage's training, here or in ranks: reports at the stage's steps; is killed after its last one."""

    def __init__(self) -> None:
        self.kills, self.training = "none", ""

    def here(self, job, codec, samples, out: Path, callbacks) -> SimpleNamespace:
        for step in STEPS.get(self.training, (20,)):
            callbacks[0].log(step, 60, 1.0, 0.1, 0)
        self.end(out / "trainer")
        return SimpleNamespace(model=None)

    def ranks(self, folder: Path, cluster, on_log) -> Path:
        for step in STEPS.get(self.training, (20,)):
            on_log(step, 60, 1.0, 0.1, 0)
        self.end(folder / "out")
        return folder / "out"

    def end(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        if self.training == self.kills:
            raise Killed


@pytest.fixture
def trainer(monkeypatch) -> Trainer:
    made = Trainer()
    monkeypatch.setattr("mobilerl.sft.training.train", made.here)
    monkeypatch.setattr("mobilerl.sft.training.fit", made.ranks)
    monkeypatch.setattr("mobilerl.sft.training.LogCallback", lambda log: SimpleNamespace(log=log))
    monkeypatch.setattr("mobilerl.sft.training.save_model", lambda model, codec, path: path.mkdir())
    return made


def train(trainer: Trainer, run_dir: Path, *stages: str, processes: int = 0) -> None:
    """As a process of its own would."""
    sft = SftRun(Recipe(sft={"processes": processes}), run_dir)
    for name in stages:
        trainer.training = name
        if not sft.find_finished(name):
            sft.train(name, run_dir / "init", CODEC, iter([]), 1.0)


def rows(run_dir: Path) -> list[tuple[int, str]]:
    return [(row["iteration"], row["stage"]) for row in read_metrics(run_dir / "metrics.jsonl")]


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("killed", ["reading", "stage2-round1"])
def test_the_rows_of_a_killed_stage_are_written_anew(trainer, tmp_path, killed, processes):
    trainer.kills = killed
    with pytest.raises(Killed):
        train(trainer, tmp_path, *STEPS, processes=processes)
    assert rows(tmp_path)[-1][1] == killed
    trainer.kills = "none"
    train(trainer, tmp_path, *STEPS, processes=processes)
    assert rows(tmp_path) == WHOLE
    train(trainer, tmp_path, *STEPS, processes=processes)
    assert rows(tmp_path) == WHOLE, "what is there is not touched"


def test_jobs_are_kept_until_their_stage_is_finished(tmp_path):
    jobs = [tmp_path / f".{name}.job" for name in ("stage1", "stage2-round1")]
    for folder in (tmp_path / "stage1", tmp_path / "init", *jobs):
        folder.mkdir()
    remove_unfinished(tmp_path)
    assert [job.is_dir() for job in jobs] == [False, True]
    (tmp_path / "init").rmdir()
    remove_unfinished(tmp_path)
    assert not jobs[1].is_dir(), "another recipe may claim the directory"


def test_stage_2_of_nothing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="stage 2 needs a stage 1 .* train it first"):
        run(Recipe(), tmp_path, (2,))
    assert not any(tmp_path.iterdir())


def test_a_node_that_stays_away_does_not_spoil_what_was_trained(monkeypatch, caplog):
    monkeypatch.setattr("mobilerl.sft.distributed.LEAVE", timedelta(seconds=0.2))
    cluster = Cluster(SftSection(processes=1, nodes=3, rendezvous=f"127.0.0.1:{free_port()}"))
    cluster.store.set("left-1", b"")
    cluster.close()
    assert "node 2 did not respond" in caplog.text


def test_what_is_there_is_not_prepared_again(trainer, tmp_path, monkeypatch):
    """No proposals are requested, and no samples are made."""
    asked: list[str] = []
    step = SimpleNamespace()
    monkeypatch.setattr("mobilerl.sft.run.Codec", SimpleNamespace(load=lambda *args: CODEC))
    monkeypatch.setattr("mobilerl.sft.run.encode", lambda *args: SAMPLE)
    monkeypatch.setattr("mobilerl.sft.run.reading_samples", None)
    monkeypatch.setattr("mobilerl.sft.run.copying_samples", None)
    monkeypatch.setattr("mobilerl.sft.run.encode_all", None)

    def reasoned(recipe, number, run_dir, base, *steps):
        asked.append(f"round {number} of {base.name}")
        yield step, "a thought"

    monkeypatch.setattr("mobilerl.sft.run.reasoned", reasoned)
    monkeypatch.setattr("mobilerl.sft.data.SftData.expert_steps", [step], raising=False)
    monkeypatch.setattr(SftRun, "_add_reading", lambda self, name, codec, samples: samples)
    sft = SftRun(Recipe(sft={"proposer_url": "http://x/v1", "stage2_rounds": 2}), tmp_path)
    for name in ("copying", "reading", "stage1"):
        (tmp_path / name).mkdir()
    assert sft.pretrain(tmp_path / "init") == tmp_path / "reading"
    assert sft.stage1(tmp_path / "reading") == tmp_path / "stage1"
    last = sft.stage2(tmp_path / "stage1")
    whole = list(asked)
    assert whole == ["round 1 of stage1", "round 2 of stage2-round1"]
    assert sft.stage2(tmp_path / "stage1") == last and asked == whole
    shutil.rmtree(last)
    assert sft.stage2(tmp_path / "stage1") == last
    assert asked == [*whole, whole[1]], "the round that is missing"
    shutil.rmtree(last)
    trainer.kills = trainer.training
    with pytest.raises(Killed):
        sft.stage2(tmp_path / "stage1")
    trainer.kills = "none"
    assert sft.stage2(tmp_path / "stage1") == last
    assert asked == [*whole, whole[1], whole[1]], "its samples were stored before it was killed"
    assert not list(tmp_path.glob(".*.job"))


@pytest.mark.parametrize(("tiny", "trained"), [(True, ["goals"]), (False, [])])
def test_a_checkpoint_learns_goals_if_it_is_tiny_but_does_not_learn_to_read_again(tmp_path, monkeypatch, tiny, trained):
    codec, names = SimpleNamespace(max_pixels=None, tokenizer=None), []
    monkeypatch.setattr("mobilerl.sft.run.Codec", SimpleNamespace(load=lambda *args: codec))
    monkeypatch.setattr("mobilerl.sft.run.tiny.is_tiny", lambda tokenizer: tiny)
    monkeypatch.setattr("mobilerl.sft.run.goal_samples", lambda *args: [])
    monkeypatch.setattr(SftRun, "_add_reading", lambda self, name, codec, samples: samples)
    monkeypatch.setattr(SftRun, "train", lambda self, name, *args: names.append(name) or self.run_dir / name)
    recipe = Recipe(model="a checkpoint", suite={"type": "generated"}, sft={"goal_samples": 1})
    monkeypatch.setattr("mobilerl.sft.data.SftData.words", [], raising=False)
    SftRun(recipe, tmp_path).pretrain(tmp_path)
    assert names == trained
