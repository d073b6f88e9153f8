"""Stage 1 of ReachAgent as a warm-up's stage: which settings it is trained by, and what a run that goes on keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from threading import Thread

import pytest
from ports import free_port

from mobilerl import tiny
from mobilerl.config import ConfigError, Recipe, SftSection, read_saved
from mobilerl.train.tracking import read_metrics
from sft.pages.run import run
from sft.pages.stages import PagesRun
from sft.pages.tasks import TaskSet
from sft.rank import Job
from sft.samples import Sample

SAMPLES = [Sample((1, 2), (3,), ())] * 4
SFT = {"warmup": 0.25, "seed": 11, "batch_size": 64, "learning_rate": 0.5, "demos_per_template": 7, "micro_batch": 2}
PAGES = {"seed": 5, "batch_size": 4, "learning_rate": 0.125, "epochs": 3.0, "demo_share": 0.0}


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny.create(folder, ["tap open"], hidden=16, layers=1, heads=1, vision_hidden=16)
    return folder


def recipe(model: Path, **pages: object) -> Recipe:
    return Recipe(model=str(model), sft=SFT, pages={**PAGES, **pages})


def made(model: Path, run_dir: Path) -> PagesRun:
    """With a stand-in for the page tasks."""
    stages = PagesRun(recipe(model), run_dir)
    stages.writer, stages.tasks = None, TaskSet([], [], Counter())
    return stages


@pytest.fixture
def jobs(monkeypatch) -> list[Job]:
    """The trainings that were asked for. The first one is killed, before which it reports, as all do."""
    asked: list[Job] = []

    def train(self, job: Job, codec, samples, out: Path, report) -> None:
        asked.append(job)
        report.add(20, 40, 1.0, 0.1)
        if len(asked) == 1:
            raise Killed
        report.add(40, 40, 1.0, 0.1)
        out.mkdir()

    monkeypatch.setattr(PagesRun, "_train_here", train)
    monkeypatch.setattr("sft.pages.stages.flow_samples", lambda *args: SAMPLES)
    return asked


def test_stage_1_is_trained_as_its_own_section_says(model, tmp_path, jobs):
    with pytest.raises(Killed):
        made(model, tmp_path).learn_flows()
    (job,) = jobs
    asked = {name: getattr(job, name) for name in ("warmup", "seed", "batch_size", "learning_rate", "epochs")}
    assert asked == {name: {**PAGES, "warmup": 0.02}[name] for name in asked}
    assert job.spread.micro_batch == 2, "the rest of [sft] holds"
    assert made(model, tmp_path).data.recipe.sft.demos_per_template == 7


def test_stage_1_goes_on_and_dpo_counts_from_its_end(model, tmp_path, jobs):
    for _ in range(2):
        stages = made(model, tmp_path)
        try:
            stages.learn_flows()
        except Killed:
            assert stages.steps_done() == 0
    assert [row["iteration"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [20, 40]
    assert made(model, tmp_path).steps_done() == 40


# --- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def begun(model, tmp_path, monkeypatch) -> Path:
    """The run directory of a command that was killed before its first stage, and would be again."""

    def killed(self: PagesRun, name: str, model: Path) -> None:
        raise Killed

    monkeypatch.setattr(PagesRun, "measure", killed)
    with pytest.raises(Killed):
        run(recipe(model), tmp_path)
    return tmp_path


def test_a_batch_that_cannot_be_shared_is_refused_before_anything_is_explored(model, tmp_path):
    asked = Recipe(model=str(model), sft={"processes": 2}, pages={**PAGES, "batch_size": 9})
    with pytest.raises(ConfigError, match="pages.batch_size = 9 cannot be shared by 2 processes"):
        run(asked, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_by_the_recipe_as_it_was_given(model, begun):
    before = read_saved(begun / "config.json")
    assert (before.sft.warmup, before.sft.seed) == (SFT["warmup"], SFT["seed"])
    with pytest.raises(Killed):
        run(recipe(model), begun)
    with pytest.raises(ConfigError, match=r"belongs to another recipe \(pages.epochs differ\)"):
        run(recipe(model, epochs=1.0), begun)


def test_what_a_killed_run_left_goes_and_nothing_else(model, begun):
    for name in (".stage1.tmp", ".final.tmp", "eval/pages-before", "eval/sim-before", "pages"):
        (begun / name).mkdir(parents=True)
    for folder in (".", "eval", "eval/pages-before", "eval/sim-before", "pages"):
        (begun / folder / f".results.json.{'0a' * 16}.tmp").touch()
    with pytest.raises(Killed):
        run(recipe(model), begun)
    left = [str(p.relative_to(begun).parent) for p in begun.rglob(".*")]
    assert left == ["eval/sim-before"], "another command's"


def test_a_run_may_go_on_elsewhere_but_not_as_another(model, begun):
    elsewhere = recipe(model).model_copy(update={"sft": SftSection(**SFT, processes=1)})
    with pytest.raises(Killed):
        run(elsewhere, begun)
    other = elsewhere.model_copy(update={"sft": elsewhere.sft.model_copy(update={"micro_batch": 4})})
    with pytest.raises(ConfigError, match=r"another recipe \(sft.micro_batch differ\)"):
        run(other, begun)


def nodes(model: Path, rank: int, port: int) -> Recipe:
    placed = {**SFT, "processes": 1, "nodes": 2, "node_rank": rank, "rendezvous": f"127.0.0.1:{port}"}
    return Recipe(model=str(model), sft=placed, pages=PAGES, dpo={"enabled": False})


def test_another_node_follows_and_leaves_the_run_directory_alone(model, begun, monkeypatch):
    followed: list[SftSection] = []
    monkeypatch.setattr("sft.pages.run.follow", followed.append)
    asked = nodes(model, 1, 29400)
    before = (begun / "config.json").read_bytes()
    assert run(asked, begun) == begun / "final"
    assert followed == [asked.sft] and (begun / "config.json").read_bytes() == before


@pytest.mark.slow
def test_two_nodes_train_stage_1(model, tmp_path, monkeypatch):
    """Node 1 is another process of this machine."""
    monkeypatch.setattr("sft.pages.stages.flow_samples", lambda *args: SAMPLES)
    monkeypatch.setattr(PagesRun, "tasks", TaskSet([], [], Counter()))
    monkeypatch.setattr(PagesRun, "writer", None)
    monkeypatch.setattr(PagesRun, "measure", lambda *args: {})
    monkeypatch.setattr("sft.pages.run.table", lambda entries: "")
    ended: list[Path] = []
    port = free_port(2)
    other = Thread(target=lambda: ended.append(run(nodes(model, 1, port), tmp_path)), daemon=True)
    other.start()
    first = run(nodes(model, 0, port), tmp_path)
    other.join(60)
    assert ended == [first] == [tmp_path / "final"]
    assert (first / "model.safetensors").is_file()
