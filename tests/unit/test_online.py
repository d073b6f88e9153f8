"""The online loop as a whole, on embedded phones and a tiny model that knows nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from made_groups import make_group

from envs.base import InfraError, TaskFault
from envs.phone.env import PhoneEnv
from envs.pool import FixedDevices
from mobilerl import tiny
from mobilerl.config import Recipe, load_recipe
from mobilerl.engines.local import LocalEngine
from mobilerl.setup import make_phones
from mobilerl.train import online, source
from mobilerl.train.checkpoint import latest
from mobilerl.train.online import OnlineTrainer, train
from mobilerl.train.tasks import training_tasks
from mobilerl.train.tracking import read_metrics


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("online") / "model"
    tiny.create(path, ["pause the music"], hidden=16, layers=1, heads=2, vision_hidden=16)
    return path


def small(model: Path, **settings: object) -> Recipe:
    flags = {
        "model": model, "phone.count": 4, "phone.width": 180, "phone.height": 360, "agent.screenshots": 0,
        "agent.layout": "compact", "agent.max_new_tokens": 4, "agent.max_invalid": 1, "engine.threads": 1,
        "tasks.templates": json.dumps(["MusicPause"]), "tasks.per_template": 2, "collect.tasks_per_iteration": 2,
        "collect.group_size": 2, "collect.workers": 0, "collect.max_staleness": 1, "train.iterations": 3,
        "train.checkpoint_every": 1, "algorithm.credit.drop_constant_groups": "false",
        **{name.replace("__", "."): value for name, value in settings.items()},
    }  # fmt: skip
    return load_recipe(None, [word for name, value in flags.items() for word in (f"--{name}", str(value))])


def test_learning_publishing_and_saving_share_a_thread_that_ends_with_the_run(model, tmp_path, monkeypatch):
    """Every thread that does such work keeps the most memory it ever used."""
    seen: dict[str, set[threading.Thread]] = {}
    for name in ("update", "publish", "save"):
        real = getattr(LocalEngine, name)

        def noted(self, *args, real=real, name=name):
            seen.setdefault(name, set()).add(threading.current_thread())
            return real(self, *args)

        monkeypatch.setattr(LocalEngine, name, noted)
    train(small(model), tmp_path / "run", resume=False)
    assert latest(tmp_path / "run").name == "iter-000003" and set(seen) == {"update", "publish", "save"}
    (thread,) = set.union(*seen.values())
    assert thread is not threading.main_thread() and not thread.is_alive()


def test_a_run_in_which_every_task_is_removed_goes_on_with_probes(model, tmp_path):
    fcf = {"epoch_groups": 1, "patience": 1, "cooldown": 0}
    settings = {f"algorithm.curriculum.{name}": value for name, value in fcf.items()}
    train(small(model, **settings), tmp_path / "ends", resume=False)
    assert latest(tmp_path / "ends").name == "iter-000001"
    train(small(model, **settings, algorithm__curriculum__revisit_every=4), tmp_path / "probes", resume=False)
    assert latest(tmp_path / "probes").name == "iter-000003"


# --- refills -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("credit", "rewards", "takes"),
    [
        ("success", (0, 1, 1), [2]),  # two of three episodes are imitated
        ("success", (0, 0, 0), [2, 1]),
        ("group_relative", (0, 1, 1), [2]),
        ("group_relative", (0, 0, 0), [2, 1]),
    ],
)
def test_groups_without_anything_to_learn_from_are_replaced(credit, rewards, takes):
    taken = []

    class Source:
        async def take(self, n, label):
            taken.append(n)
            return [make_group(f"{label}-{i}", (0, 1, 0) if i else rewards, (1, 1, 1)) for i in range(n)]

    flags = {"algorithm.credit.type": credit, "algorithm.credit.max_refills": 1, "collect.tasks_per_iteration": 2}
    recipe = load_recipe(None, [word for name, value in flags.items() for word in (f"--{name}", str(value))])
    trainer = SimpleNamespace(recipe=recipe, state=SimpleNamespace(iteration=1))
    asyncio.run(OnlineTrainer._collect(trainer, SimpleNamespace(counts=Counter()), Source()))
    assert taken == takes


# --- devices that run before the loop does -------------------------------------------------------------------------


class OpenedPhones(FixedDevices):
    """Like a pool it closes what it began when it cannot start."""

    def __init__(self, recipe: Recipe, starts: bool = True) -> None:
        super().__init__(make_phones(recipe.phone))
        self.starts, self.closed = starts, 0

    async def start(self) -> None:
        if not self.starts:
            await self.close()
            raise InfraError("no device starts")

    async def close(self) -> None:
        self.closed += 1
        await super().close()


def opened(monkeypatch, recipe: Recipe, starts: bool = True) -> OpenedPhones:
    """What the recipe's suite brings along."""
    devices = OpenedPhones(recipe, starts)
    monkeypatch.setattr(online, "open_suite", lambda recipe, run_dir: (training_tasks(recipe.tasks), devices))
    return devices


@pytest.mark.parametrize("fleet", ["embedded", "adb"])
def test_a_pool_can_mend_its_devices_while_weights_are_learned(model, tmp_path, monkeypatch, fleet):
    """Its time limits go on meanwhile: with the event loop held up, devices that are well would be thrown away."""
    flags = {"fleet__type": fleet, "fleet__serials": json.dumps(["h:1", "h:2", "h:3", "h:4"])} if fleet == "adb" else {}
    recipe, threads = small(model, collect__max_staleness=0, train__iterations=1, **flags), []
    monkeypatch.setattr(online.Learner, "learn", lambda *_: threads.append(threading.current_thread()) or {})
    opened(monkeypatch, recipe)
    train(recipe, tmp_path / "run", resume=False)
    assert [thread is threading.main_thread() for thread in threads] == [fleet == "embedded"]


def fails(*args, **more):
    raise ValueError("it broke")


@pytest.mark.parametrize("part", ["make_critic", "RunLog", "make_players", "ProgressView", "StopGuard"])
def test_devices_are_closed_once_when_a_run_fails_before_it_plays(model, tmp_path, monkeypatch, part):
    recipe = small(model)
    devices = opened(monkeypatch, recipe)
    monkeypatch.setattr(online, part, fails)
    with pytest.raises(ValueError, match="it broke"):
        train(recipe, tmp_path / "run", resume=False)
    assert devices.closed == 1


def test_devices_are_closed_once_when_stored_trajectories_cannot_be_read(model, tmp_path, monkeypatch):
    recipe = small(model, offline__trajectories=tmp_path / "elsewhere", train__updates=1,
                   algorithm__replay__type="circular", algorithm__replay__gamma=1,
                   algorithm__credit__type="success")  # fmt: skip
    devices = opened(monkeypatch, recipe)
    with pytest.raises(ValueError, match="elsewhere holds no trajectories"):
        train(recipe, tmp_path / "run", resume=False)
    assert devices.closed == 1


@pytest.mark.parametrize("starts", [True, False])
def test_devices_that_were_handed_over_are_closed_by_what_plays_on_them(model, tmp_path, monkeypatch, starts):
    recipe = small(model, train__iterations=1)
    devices = opened(monkeypatch, recipe, starts)
    if starts:
        train(recipe, tmp_path / "run", resume=False)
    else:
        with pytest.raises(InfraError, match="no device starts"):
            train(recipe, tmp_path / "run", resume=False)
    assert devices.closed == 1


# --- tasks that cannot be played -----------------------------------------------------------------------------------


class Refusing(PhoneEnv):
    """Cannot set the tasks of `broken` up, and counts how often it was asked."""

    broken: frozenset[str] = frozenset()
    asked: Counter[str] = Counter()

    async def reset(self, task):
        self.asked[task.id] += 1
        if task.id in self.broken:
            raise TaskFault(f"{task.id} has no set-up")
        return await super().reset(task)


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_task_that_cannot_be_played_is_set_aside_for_good(model, tmp_path, monkeypatch, capsys, staleness):
    monkeypatch.setattr(source, "PAUSE_S", 0.01)
    settings = {"collect__task_losses": 2, "algorithm__curriculum__type": "uniform"}
    recipe, run = small(model, collect__max_staleness=staleness, **settings), tmp_path / "run"
    tasks = training_tasks(recipe.tasks)
    broken, other = (task.id for task in tasks)
    monkeypatch.setattr(Refusing, "broken", frozenset({broken}))
    monkeypatch.setattr(Refusing, "asked", Counter())

    def start(iterations: int, resume: bool) -> str:
        phones = [Refusing(f"p{i}", 180, 360, screenshots=False) for i in range(4)]
        monkeypatch.setattr(online, "open_suite", lambda recipe, run_dir: (tasks, phones))
        changed = {"train": recipe.train.model_copy(update={"iterations": iterations})}
        train(recipe.model_copy(update=changed), run, resume=resume)
        return capsys.readouterr().out

    assert start(5, resume=False).count(f"task {broken} is set aside for the rest of the run: {broken} has no") == 1
    assert [row["rollout/tasks_set_aside"] for row in read_metrics(run / "metrics.jsonl")][-1] == 1
    noted = [row["set_aside"] for row in read_metrics(run / "tasks.jsonl") if "set_aside" in row]
    assert noted == [{broken: f"{broken} has no set-up"}]

    Refusing.asked.clear()
    assert f"set aside before, and not played: {broken}\n" in start(6, resume=True)
    assert set(Refusing.asked) == {other}


def test_a_run_of_which_every_task_was_set_aside_ends_with_the_reasons(model, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "PAUSE_S", 0.01)
    recipe = small(model)
    tasks = training_tasks(recipe.tasks)
    monkeypatch.setattr(Refusing, "broken", frozenset(task.id for task in tasks))
    monkeypatch.setattr(online, "open_suite", lambda recipe, run_dir: (tasks, [Refusing("p0", 180, 360)]))
    with pytest.raises(InfraError, match=r"every task of the run was set aside .*has no set-up; .*has no set-up$"):
        train(recipe, tmp_path / "run", resume=False)
