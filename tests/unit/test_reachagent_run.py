"""Stage 1 of ReachAgent as an SFT stage: which settings it uses, and what a resumed run keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from mobilerl.config import ConfigError, Recipe
from mobilerl.models import tiny
from mobilerl.reachagent.run import ReachAgentRun, run
from mobilerl.reachagent.tasks import TaskSet
from mobilerl.sft.samples import Sample
from mobilerl.sft.trainer import TrainingJob
from mobilerl.training.tracking import read_metrics

SAMPLES = [Sample((1, 2), (3,), ())] * 4
SFT = {"batch_size": 4, "learning_rate": 0.5, "micro_batch_size": 2}
PAGES = {"learning_rate": 0.125, "epochs": 3.0, "demo_share": 0.0}


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny.create(folder, ["tap open"], hidden=16, layers=1, heads=1, vision_hidden=16)
    return folder


def recipe(model: Path, **pages: object) -> Recipe:
    return Recipe(model=str(model), sft=SFT, pages={**PAGES, **pages}, train={"seed": 5})


def made(model: Path, run_dir: Path) -> ReachAgentRun:
    """With a stand-in for the page tasks."""
    stages = ReachAgentRun(recipe(model), run_dir)
    stages.writer, stages.tasks = None, TaskSet([], [], Counter())
    return stages


@pytest.fixture
def jobs(monkeypatch) -> list[TrainingJob]:
    """The trainings that were asked for. The first one is killed, before which it reports, as all do."""
    asked: list[TrainingJob] = []

    def train(job: TrainingJob, codec, samples, out: Path, callbacks) -> SimpleNamespace:
        asked.append(job)
        callbacks[0].log(20, 40, 1.0, 0.1, 0)
        if len(asked) == 1:
            raise Killed
        callbacks[0].log(40, 40, 1.0, 0.1, 0)
        return SimpleNamespace(model=None)

    monkeypatch.setattr("mobilerl.sft.training.train", train)
    monkeypatch.setattr("mobilerl.sft.training.LogCallback", lambda log: SimpleNamespace(log=log))
    monkeypatch.setattr("mobilerl.sft.training.save_model", lambda model, codec, path: path.mkdir())
    monkeypatch.setattr("mobilerl.reachagent.run.flow_samples", lambda *args: SAMPLES)
    return asked


def test_stage_1_is_trained_as_its_own_section_says(model, tmp_path, jobs):
    with pytest.raises(Killed):
        made(model, tmp_path).train_stage1()
    (job,) = jobs
    assert (job.learning_rate, job.epochs, job.warmup_ratio) == (0.125, 3.0, 0.02)
    assert (job.batch_size, job.micro_batch_size, job.seed) == (4, 2, 5), "the rest of [sft] holds"


def test_stage_1_goes_on_and_dpo_counts_from_its_end(model, tmp_path, jobs):
    for _ in range(2):
        stages = made(model, tmp_path)
        try:
            stages.train_stage1()
        except Killed:
            assert stages.steps_done() == 0
    assert [row["iteration"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [20, 40]
    assert made(model, tmp_path).steps_done() == 40


# --- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(model, tmp_path, monkeypatch) -> Path:
    """The run directory of a command that was killed before its first stage, and would be again."""

    def killed(self: ReachAgentRun, name: str, model: Path) -> None:
        raise Killed

    monkeypatch.setattr(ReachAgentRun, "measure", killed)
    with pytest.raises(Killed):
        run(recipe(model), tmp_path)
    return tmp_path


def test_a_run_goes_on_by_the_recipe_as_it_was_given(model, begun):
    with pytest.raises(Killed):
        run(recipe(model), begun)
    with pytest.raises(Killed):  # nothing has been done yet
        run(recipe(model, epochs=2.0), begun)
    (begun / "pages").mkdir()
    with pytest.raises(ConfigError, match="belongs to another recipe: pages.epochs is 1.0, and 2.0 there"):
        run(recipe(model, epochs=1.0), begun)


def test_what_a_killed_run_left_goes_and_nothing_else(model, begun):
    for name in (".stage1.tmp", ".final.tmp", "eval/pages-before", "eval/sim-before", "pages"):
        (begun / name).mkdir(parents=True)
    for folder in (".", "eval", "eval/pages-before", "eval/sim-before", "pages"):
        (begun / folder / f".results.json.{'0a' * 16}.tmp").touch()
    with pytest.raises(Killed):
        run(recipe(model), begun)
    left = [str(p.relative_to(begun).parent) for p in begun.rglob(".*") if p.name != ".lock"]
    assert left == ["eval/sim-before"], "another command's"
