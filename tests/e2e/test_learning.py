"""The machinery where the answer is known: a policy overfits ten tasks, and AdaGRPO mends one that makes mistakes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from small_policies import HEIGHT, WIDTH, demonstrate, sampled, success_rate, warm_up, with_mistakes

from envs.base import Action, Finish
from envs.phone.tasks import suite
from envs.phone.tasks.base import INFEASIBLE
from mobilerl.agent.candidates import candidates
from mobilerl.config import AgentSection, load_recipe
from mobilerl.train.checkpoint import latest
from mobilerl.train.online import train
from mobilerl.train.tracking import read_metrics
from sft.samples import ExpertStep

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TEXT_ONLY = AgentSection(screenshots=0, max_new_tokens=16)
TEN = (
    "SettingsTurnOn", "SettingsReadName", "ContactsReadPhone", "MessagesReadLast", "NotesRead", "CalculatorCompute",
    "ClockAlarmOn", "TodoDue", "MusicPlay", "MapsSave",
)  # fmt: skip


def test_a_policy_overfits_ten_tasks(tmp_path):
    agent = AgentSection()  # with screenshots, as in the recipes
    tasks = [suite.make_task(name, 0) for name in TEN]
    path = warm_up(tmp_path, agent, demonstrate(tasks), 40, hidden=64, learning_rate=2e-3, batch_size=8)
    assert success_rate(sampled(path, agent, tasks, 1, temperature=0.0)) >= 0.9


def anything(step: ExpertStep, rng: random.Random) -> Action:
    return rng.choice([*candidates(step.screen), Finish()])


def one_step(template: str) -> tuple[list, list[ExpertStep]]:
    """Tasks to be declared impossible at once; two in five demonstrations do, the others end without a word."""
    tasks = [suite.make_task(template, seed) for seed in range(8)]
    first = [replace(s, action=Finish(INFEASIBLE)) for s in demonstrate(tasks) if not s.turns]
    return tasks, with_mistakes(first, 0.6, lambda step, rng: Finish(""), copies=8)


def three_steps(template: str) -> tuple[list, list[ExpertStep]]:
    """Launch, tap, finish; in half of the demonstrated steps something else is done."""
    tasks = [suite.make_task(template, seed) for seed in range(8)]
    steps = demonstrate(tasks)
    assert len(steps) == 3 * len(tasks)
    return tasks, with_mistakes(steps, 0.5, anything, copies=8)


def adagrpo(model: Path, run_dir: Path, template: str, iterations: int, mini_batch: int) -> list[float]:
    """Runs AdaGRPO with everything it has; returns the success rate of every iteration's sampled episodes."""
    flags = {
        "model": model, "phone.count": 64, "phone.width": WIDTH, "phone.height": HEIGHT, "phone.popup_rate": 0,
        "tasks.per_template": 8, "tasks.templates": json.dumps([template]), "collect.tasks_per_iteration": 8,
        "engine.learning_rate": 2e-3, "engine.warmup_steps": 0, "engine.threads": 1, "train.mini_batch": mini_batch,
        "train.iterations": iterations, "train.checkpoint_every": 1000, "train.trajectories_every": 0,
    }  # fmt: skip
    recipe = load_recipe(None, [word for name, value in flags.items() for word in (f"--{name}", str(value))])
    train(recipe, run_dir, resume=False)
    return [m["rollout/success_rate"] for m in read_metrics(run_dir / "metrics.jsonl")]


@pytest.mark.parametrize(
    ("make", "template", "iterations", "mini_batch"),
    [(one_step, "ContactsReadMissing", 60, 32), (three_steps, "MusicPause", 50, 64)],
)
def test_adagrpo_lifts_a_weak_policy_to_95_percent(tmp_path, make, template, iterations, mini_batch):
    tasks, steps = make(template)
    weak = warm_up(tmp_path, TEXT_ONLY, steps, epochs=30)
    before = success_rate(sampled(weak, TEXT_ONLY, tasks, 16, temperature=1.0))
    assert 0.1 <= before <= 0.5

    curve = adagrpo(weak, tmp_path / "run", template, iterations, mini_batch)
    after = success_rate(sampled(latest(tmp_path / "run"), TEXT_ONLY, tasks, 32, temperature=1.0))
    print(f"{template}: {before:.2f} before, {after:.3f} after; by iteration {[round(r, 2) for r in curve]}")
    assert fmean(curve[-5:]) >= 0.95 and after >= 0.95
