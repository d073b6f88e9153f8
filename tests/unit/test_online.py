"""The online loop, on embedded phones and a tiny untrained model."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import math
import signal
from collections import Counter
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest
import torch
from made_algorithms import make
from made_groups import make_group

from mobilerl.algorithms.base import Algorithm
from mobilerl.cli import main
from mobilerl.cli.replay import take_again
from mobilerl.config import ConfigError, Recipe, load_recipe, read_saved
from mobilerl.engines.local import LocalEngine
from mobilerl.engines.registry import make_trainer_engine
from mobilerl.envs.base import InfraError, TaskFault
from mobilerl.envs.device import Device
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.pool import FixedDevices
from mobilerl.models import tiny
from mobilerl.records.batches import read_batches
from mobilerl.records.engine import EngineError
from mobilerl.suites.phone.training import make_phones, training_tasks
from mobilerl.training import online, source
from mobilerl.training.checkpoint import latest, read_state
from mobilerl.training.dry_run import check
from mobilerl.training.interrupt import Stopped
from mobilerl.training.online import OnlineTrainer
from mobilerl.training.run import Run
from mobilerl.training.setup import make_collector
from mobilerl.training.skipping import NotFinite
from mobilerl.training.tracking import read_metrics


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("online") / "model"
    tiny.create(path, ["pause the music"], hidden=16, layers=1, heads=2, vision_hidden=16)
    return path


def recipe_with(**settings: object) -> Recipe:
    words = [(f"--{name.replace('__', '.')}", str(value)) for name, value in settings.items()]
    return load_recipe(None, [word for pair in words for word in pair])


SMALL = {
    "fleet.count": 4,
    "phone.width": 180,
    "phone.height": 360,
    "agent.screenshots": 0,
    "agent.layout": "compact",
    "agent.max_new_tokens": 4,
    "agent.max_invalid": 1,
    "engine.threads": 1,
    "tasks.templates": json.dumps(["MusicPause"]),
    "tasks.per_template": 2,
    "rollout.tasks_per_iteration": 2,
    "rollout.workers": 0,
    "rollout.max_staleness": 1,
    "train.iterations": 3,
    "train.checkpoint_every": 1,
}
GROUPED = {"algorithm.group_size": 2, "algorithm.dynamic_sampling": "false"}


def small(model: Path, **settings: object) -> Recipe:
    grouped = {} if "algorithm__type" in settings else GROUPED
    return recipe_with(model=model, **SMALL, **grouped, **settings)


def train(recipe: Recipe, run_dir: Path, resume: bool) -> None:
    online.train(Run.open(recipe, run_dir, resume))


def test_the_steps_of_kept_batches_are_the_same_when_they_are_taken_again(model, tmp_path, monkeypatch, capsys):
    episodes = itertools.count()

    async def score(self):
        return float(next(episodes) % 2)

    monkeypatch.setattr(PhoneEnv, "score", score)
    more = {
        "agent__screenshots": 1,
        "algorithm__mini_batch_size": 2,
        "train__keep_batches": 1,
        "rollout__max_staleness": 0,
    }
    recipe = small(model, **more, algorithm__epochs=2)
    train(recipe, tmp_path, resume=False)
    (folder,) = (tmp_path / "batches").glob("iter-*")
    batches = read_batches(folder)
    kept = {hashlib.sha256(png).hexdigest() for batch in batches for s in batch for png in s.images}
    assert folder.name == "iter-000003" and kept == {p.stem for p in (tmp_path / "batches/screens").iterdir()} != set()
    again = list(take_again(recipe, batches, tmp_path / "checkpoints/iter-000002"))
    logged = read_metrics(tmp_path / "metrics.jsonl")[-1]
    assert len(again) == logged["train/steps"] > 1
    for name in ("loss", "grad_norm"):
        assert fmean(row[name] for row in again) == logged[f"train/{name}"]
    assert main(["replay", str(folder), "--algorithm.learning_rate", "1"]) == 0
    assert f"{again[0]['grad_norm']:.6g}" in capsys.readouterr().out, "the first gradient is that of the same weights"
    (folder / "step-01.jsonl").write_text('{"trajectory_id": 1}\n')
    assert main(["replay", str(folder)]) == 2
    assert "step-01.jsonl, line 1" in capsys.readouterr().err


@pytest.mark.parametrize("workers", [0, 2])
def test_only_screenshots_that_are_read_are_drawn(model, tmp_path, monkeypatch, workers):
    """Those of trajectories that are saved: the policy reads text, and no judge is asked."""
    draw, drawn = Device.screenshot, []
    monkeypatch.setattr(Device, "screenshot", lambda self: drawn.append(draw(self)) or drawn[-1])
    more = {"rollout__max_staleness": 0, "rollout__workers": workers, "train__trajectories_every": 3, "eval__every": 1}
    train(small(model, **more), tmp_path, resume=False)
    saved = [path.read_text() for path in sorted((tmp_path / "trajectories").iterdir())]
    steps = [json.loads(line)["steps"] for text in saved for line in text.splitlines()]
    assert len(saved) == 2 and len(steps) == 2 * 2 * 2
    digests = {step["observation"]["screenshot"] for episode in steps for step in episode}
    assert digests == {path.stem for path in (tmp_path / "screens").iterdir()}
    if not workers:
        assert len(drawn) == sum(len(episode) + 1 for episode in steps)


async def test_episodes_whose_screenshots_nobody_reads_have_none(model):
    recipe = small(model)
    with closing(make_trainer_engine(recipe)) as engine:
        async with make_collector(recipe, engine, make_phones(recipe.phone, 2), in_process=True) as collector:
            tasks = training_tasks(recipe.tasks)
            for draw in (False, True, False):
                groups = await collector.collect(tasks, f"{draw}", draw=draw)
                groups += await collector.evaluate(tasks, f"{draw}-eval", draw)
                drawn = {bool(s.observation.screenshot) for g in groups for t in g.trajectories for s in t.steps}
                assert drawn == {draw}


def test_a_run_in_which_every_task_is_removed_continues_with_probes(model, tmp_path):
    fcf = {"epoch_groups": 1, "patience": 1, "cooldown": 0}
    settings = {f"algorithm.curriculum.{name}": value for name, value in fcf.items()}
    train(small(model, **settings), tmp_path / "ends", resume=False)
    assert latest(tmp_path / "ends").name == "iter-000001"
    train(small(model, **settings, algorithm__curriculum__revisit_every=4), tmp_path / "probes", resume=False)
    assert latest(tmp_path / "probes").name == "iter-000003"


@pytest.mark.parametrize(
    ("rewards", "settings", "takes"),
    [((0, 1, 1), {}, [2]), ((0, 0, 0), {}, [2, 1]), ((0, 0, 0), {"dynamic_sampling": "false"}, [2])],
)
def test_uninformative_groups_are_replaced(rewards, settings, takes):
    taken = []

    class Source:
        can_resample = True

        async def take(self, n, label, draw):
            taken.append(n)
            return [make_group(f"{label}-{i}", (0, 1, 0) if n == 2 and i else rewards, (1, 1, 1)) for i in range(n)]

    recipe = recipe_with(
        **{"algorithm.spa": "false", "rollout.tasks_per_iteration": 2},
        **{f"algorithm.{name}": value for name, value in settings.items()},
    )
    trainer = SimpleNamespace(recipe=recipe, state=SimpleNamespace(iteration=1), algorithm=make(recipe.algorithm))
    asyncio.run(OnlineTrainer._collect(trainer, SimpleNamespace(counts=Counter()), Source(), True))
    assert taken == takes


def test_a_run_starts_from_the_failures_of_an_earlier_one(model, tmp_path, capsys):
    epochs = {"algorithm__curriculum__epoch_groups": 1, "algorithm__curriculum__patience": 99}
    train(small(model, **epochs), tmp_path / "a", resume=False)
    history = {"algorithm__curriculum__history": tmp_path / "a", "algorithm__curriculum__patience": 1}
    train(small(model, **history, algorithm__curriculum__epoch_groups=99), tmp_path / "b", resume=False)
    (kept, begun) = (read_state(latest(tmp_path / run))["sampler"]["curriculum"]["tasks"] for run in "ab")
    assert kept == begun and any(task["failed"] for task in kept.values())
    assert "1 known" in capsys.readouterr().out
    train(small(model, **history, algorithm__curriculum__epoch_groups=1), tmp_path / "c", resume=False)
    assert read_state(latest(tmp_path / "c"))["sampler"]["curriculum"]["tasks"] != kept, "it goes on from there"


def test_a_run_with_all_additions_to_adagrpo_resumes_bit_for_bit(model, tmp_path, monkeypatch):
    async def score(self):
        return 1.0 if self.device_id in ("sim-1", "sim-3") else 0.25

    monkeypatch.setattr(PhoneEnv, "score", score)
    additions = {
        **{"algorithm__curriculum__type": "learnable", "algorithm__value_baseline": "true"},
        **{"algorithm__hindsight": 1.0, "algorithm__loss__ratio_mask": "[0.9, 1.1]", "phone__partial_credit": "true"},
    }
    recipe = small(model, **additions, rollout__max_staleness=0)
    train(recipe, tmp_path / "straight", resume=False)
    shorter = recipe.model_copy(update={"train": recipe.train.model_copy(update={"iterations": 1})})
    train(shorter, tmp_path / "stopped", resume=False)
    train(recipe, tmp_path / "stopped", resume=True)
    straight, stopped = (read_metrics(tmp_path / run / "metrics.jsonl") for run in ("straight", "stopped"))
    names = ("train/loss", "train/ratio_mask_frac", "critic/value", "hindsight/gain", "rollout/reward", "replay/size")
    for before, after in zip(straight, stopped, strict=True):
        assert all(before[name] == after[name] for name in names) and before["hindsight/steps"] > 0
    folders = [latest(tmp_path / run) for run in ("straight", "stopped")]
    states = [read_state(folder)["sampler"] for folder in folders]
    assert states[0] == states[1] and states[0]["curriculum"]["counts"]["MusicPause"]["episodes"] > 4
    assert len({(folder / "adapter_model.safetensors").read_bytes() for folder in folders}) == 1


def test_a_history_that_does_not_fit_is_refused(model, tmp_path):
    wanted = small(model, algorithm__curriculum__history=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"curriculum.history: .* has no checkpoint"):
        train(wanted, tmp_path / "b", resume=False)
    train(small(model, algorithm__curriculum__type="instruction_value"), tmp_path / "a", resume=False)
    with pytest.raises(ConfigError, match=r"curriculum.history: .* has no history of failures"):
        check(Run.open(wanted, tmp_path / "b", resume=False))


class Learner(Algorithm):
    """Learns from all steps, one mini-batch per iteration."""

    def add(self, groups, iteration):
        self.fresh = [s for g in groups for t in g.trajectories for s in t.samples(1.0) if s.response_ids]

    def mini_batches(self, rng):
        yield self.fresh

    def advantages(self):
        return {}


def logarithm_of_zero(micro):
    return (micro.weights * (micro.logp - micro.logp).log()).sum(), {}


def test_a_loss_that_is_never_finite_ends_the_run(model, tmp_path, monkeypatch, capsys):
    algorithm = Learner()
    algorithm.objective = logarithm_of_zero
    monkeypatch.setattr(online, "make_algorithm", lambda *_: algorithm)
    words = [
        f"--{name}={value}" for name, value in {**SMALL, **GROUPED, "train.iterations": 9, "eval.every": 0}.items()
    ]
    run = tmp_path / "run"
    assert main(["train", "--config", "adagrpo", "--model", str(model), "--run-dir", str(run), *words]) == 2
    said = capsys.readouterr()
    kept = run / "checkpoints" / "iter-000002"
    assert (
        "error: the objective logarithm_of_zero of Learner: NaN or infinity in the loss, so 3 optimizer steps in a row "
        f"were skipped; {kept} is intact" in said.err
    )
    rows = read_metrics(run / "metrics.jsonl")
    assert [row["train/skipped_steps"] for row in rows] == [1, 1, 1] and latest(run) == kept
    assert rows[-1]["train/loss"] is None and said.out.count("skipped steps 1") == 3


@pytest.mark.parametrize(("limit", "ends"), [("auto", True), ("null", False)])
def test_a_sampler_with_another_policy_than_the_learners_ends_the_run(model, tmp_path, monkeypatch, limit, ends):
    episodes, generate = itertools.count(), LocalEngine.generate

    async def score(self):
        return float(next(episodes) % 2)

    def other(self, requests):
        return [replace(c, logprobs=tuple(p - 0.1 for p in c.logprobs)) for c in generate(self, requests)]

    monkeypatch.setattr(PhoneEnv, "score", score)
    monkeypatch.setattr(LocalEngine, "generate", other)
    recipe = small(model, rollout__max_staleness=0, train__max_k3=limit)
    with pytest.raises(EngineError, match="k3 of the first.* 0.0052, above .* 0.0001") if ends else nullcontext():
        train(recipe, tmp_path, resume=False)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert len(rows) == (1 if ends else 3) and rows[0]["train/rollout_k3"] == pytest.approx(math.exp(0.1) - 1.1, 1e-3)
    assert (latest(tmp_path) is None) == ends


def test_a_run_that_ends_before_any_step_could_be_taken_fails(model, tmp_path, monkeypatch):
    algorithm = Learner()
    algorithm.objective = logarithm_of_zero
    monkeypatch.setattr(online, "make_algorithm", lambda *_: algorithm)
    with pytest.raises(NotFinite, match="NaN or infinity in the loss, so all 2 optimizer steps were skipped"):
        train(small(model, train__max_env_steps=5), tmp_path / "run", resume=False)


def test_a_run_says_what_it_does_and_what_it_left_and_a_finished_one_how_to_go_on(model, tmp_path, capsys):
    run = tmp_path / "run"
    recipe = small(model, algorithm__curriculum__type="uniform")
    train(recipe, run, resume=False)
    said = capsys.readouterr().out.splitlines()
    assert said[:5] == [
        f"model      {model}",
        "algorithm  adagrpo, engine local",
        "suite      phone, 2 tasks of 1 templates",
        "devices    4 embedded phones",
        f"run        {run}",
    ]
    assert sum("nothing to learn from: every group failed" in line for line in said) == 1
    last = run / "checkpoints" / "iter-000003"
    next_commands = [
        f"done: {last}; next:",
        f"  mobilerl view {run}",
        f"  mobilerl eval sim --model {run} --out {run}/eval/final",
    ]
    assert said[-4:-1] == next_commands and said[-1].startswith("the model is unchanged: no optimizer step was taken")
    train(recipe, run, resume=True)
    said = capsys.readouterr().out.splitlines()
    finished = f"{run} is finished: it has done 3 iterations; to go on, raise train.iterations"
    assert said[5:] == [finished, *next_commands]


class OpenedPhones(FixedDevices):
    """Like a pool it closes what it began when it cannot start."""

    def __init__(self, recipe: Recipe, starts: bool) -> None:
        super().__init__(make_phones(recipe.phone, recipe.fleet.count))
        self.starts, self.closed = starts, 0

    async def start(self) -> None:
        if not self.starts:
            await self.close()
            raise InfraError("no device starts")

    async def close(self) -> None:
        self.closed += 1
        await super().close()


def use_suite(monkeypatch, tasks, devices) -> None:
    suite = SimpleNamespace(open=lambda run_dir: (tasks, devices), in_process=True)
    monkeypatch.setattr("mobilerl.training.run.make_suite", lambda recipe: suite)


@pytest.mark.parametrize("part", ["make_algorithm", "make_group_source", "StopGuard", "offline", "start", None])
def test_devices_are_closed_exactly_once(model, tmp_path, monkeypatch, part):
    """Whichever part fails, before or after the devices are handed over; or none."""
    offline = {"algorithm__type": "filtered_bc", "algorithm__offline__trajectories": tmp_path / "elsewhere"}
    recipe = small(model, train__iterations=1, **(offline if part == "offline" else {}))
    devices = OpenedPhones(recipe, starts=part != "start")
    use_suite(monkeypatch, training_tasks(recipe.tasks), devices)

    def fail(*args, **more):
        raise ValueError("it broke")

    if part in ("make_algorithm", "make_group_source", "StopGuard"):
        monkeypatch.setattr(online, part, fail)
    if part is None:
        train(recipe, tmp_path / "run", resume=False)
    else:
        with pytest.raises((ValueError, InfraError), match="it broke|holds no trajectories|no device starts"):
            train(recipe, tmp_path / "run", resume=False)
    assert devices.closed == 1


class Interrupted(PhoneEnv):
    """SIGTERM comes while it is being prepared."""

    async def reset(self, task):
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(600)


def test_a_failed_or_stopped_start_leaves_the_directory_to_the_next_one(model, tmp_path, monkeypatch):
    run, first = tmp_path / "run", small(model, train__iterations=1)
    tasks = training_tasks(first.tasks)
    use_suite(monkeypatch, tasks, OpenedPhones(first, starts=False))
    with pytest.raises(InfraError, match="no device starts"):
        train(first, run, resume=False)
    use_suite(monkeypatch, tasks, [Interrupted("p", 180, 360, screenshots=False)])
    with pytest.raises(Stopped, match="nothing is saved"):
        train(first, run, resume=False)
    assert not (run / "config.json").exists() and latest(run) is None
    other = small(model, train__iterations=1, train__seed=5)
    use_suite(monkeypatch, tasks, OpenedPhones(other, starts=True))
    train(other, run, resume=False)
    assert read_saved(run / "config.json").train.seed == 5
    moved = small(model, train__iterations=2, train__seed=5, fleet__type="docker", fleet__image="elsewhere")
    use_suite(monkeypatch, tasks, OpenedPhones(moved, starts=True))
    train(moved, run, resume=True)
    assert read_saved(run / "config.json").fleet.image == "elsewhere" and latest(run).name == "iter-000002"


class Refusing(PhoneEnv):
    """Cannot set up the tasks of `broken`, and counts how often it was asked."""

    broken: frozenset[str] = frozenset()
    asked: Counter[str] = Counter()

    async def reset(self, task):
        self.asked[task.id] += 1
        if task.id in self.broken:
            raise TaskFault(f"{task.id} has no set-up")
        return await super().reset(task)


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_task_that_cannot_be_set_up_is_excluded_also_after_a_resume(model, tmp_path, monkeypatch, capsys, staleness):
    monkeypatch.setattr(source, "PAUSE_S", 0.01)
    recipe = small(model, rollout__max_staleness=staleness, algorithm__curriculum__type="uniform")
    run = tmp_path / "run"
    tasks = training_tasks(recipe.tasks)
    broken, other = (task.id for task in tasks)
    monkeypatch.setattr(Refusing, "broken", frozenset({broken}))
    monkeypatch.setattr(Refusing, "asked", Counter())

    def start(iterations: int, resume: bool) -> str:
        phones = [Refusing(f"p{i}", 180, 360, screenshots=False) for i in range(4)]
        use_suite(monkeypatch, tasks, phones)
        changed = {"train": recipe.train.model_copy(update={"iterations": iterations})}
        train(recipe.model_copy(update=changed), run, resume=resume)
        return capsys.readouterr().out

    assert start(12, resume=False).count(f"{broken} has no set-up") == 2, "when it is lost, and when it is excluded"
    assert [row["rollout/tasks_set_aside"] for row in read_metrics(run / "metrics.jsonl")][-1] == 1
    noted = [row["set_aside"] for row in read_metrics(run / "tasks.jsonl") if "set_aside" in row]
    assert noted == [{broken: f"{broken} has no set-up"}]

    Refusing.asked.clear()
    assert broken in start(13, resume=True) and set(Refusing.asked) == {other}
    monkeypatch.setattr(Refusing, "broken", frozenset({broken, other}))
    with pytest.raises(InfraError, match="every task .*has no set-up; .*has no set-up$"):
        start(40, resume=True)
