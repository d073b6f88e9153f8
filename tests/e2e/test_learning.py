"""Learning where the answer is known: SFT overfits ten tasks, and AdaGRPO and GiGPO improve a weak policy."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from small_policies import HEIGHT, WIDTH, demonstrate, fine_tune, sampled, success_rate, tiny_agent, with_mistakes

from mobilerl.config import load_recipe
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.envs.base import Action, Finish, Tap
from mobilerl.envs.phone.tasks import suite
from mobilerl.policy.actions import candidates
from mobilerl.policy.context import make_context
from mobilerl.records.engine import Request, Sampling
from mobilerl.sft.samples import ExpertStep
from mobilerl.training.checkpoint import latest
from mobilerl.training.online import train
from mobilerl.training.run import Run
from mobilerl.training.tracking import read_metrics

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TEXT_ONLY = tiny_agent(screenshots=0, max_new_tokens=16)
TEMPLATE = "MusicPause"
TASKS = [suite.make_task(TEMPLATE, seed) for seed in range(8)]
TEN = """SettingsTurnOn SettingsReadName ContactsReadPhone MessagesReadLast NotesRead CalculatorCompute ClockAlarmOn
    TodoDue MusicPlay MapsSave""".split()


def test_a_policy_overfits_ten_tasks(tmp_path):
    agent = tiny_agent()  # with screenshots, as in the recipes
    tasks = [suite.make_task(name, 0) for name in TEN]
    path = fine_tune(tmp_path, agent, demonstrate(tasks), 40, hidden=64, learning_rate=2e-3, batch_size=8)
    assert success_rate(sampled(path, agent, tasks, 1, temperature=0.0)) >= 0.9


def test_a_policy_that_sees_pixels_only_touches_what_the_screen_shows(tmp_path):
    """One goal on six phones, on which the red tile is in different places: others' screens lead it astray."""
    agent = tiny_agent(screenshots=1, screen_style="none", grounding="point", history_steps=0)
    made = [suite.make_task("BoardColor", seed) for seed in range(6)]
    tasks = [replace(t, instruction="Turn on the red tile", params={**t.params, "color": "red"}) for t in made]
    taps = [step for step in demonstrate(tasks) if isinstance(step.action, Tap)]
    path = fine_tune(tmp_path, agent, taps, 240, 64, 3e-3, batch_size=6, max_pixels=112 * 224, seen=2400)
    engine, context = LocalEngine(path, LocalSettings()), make_context(agent)

    def touched(shift: int) -> list[Action]:
        """What it does with the screen of the phone `shift` places on."""
        requests = []
        for i, step in enumerate(taps):
            images = (taps[(i + shift) % len(taps)].observation.screenshot,)
            prompt = engine.codec.encode(step.messages(context)[0], images)
            requests.append(Request(prompt, images, Sampling(0.0, agent.max_new_tokens, context.stop)))
        return [context.parse(done.text, taps[0].screen).action for done in engine.generate(requests)]

    wanted = [step.action for step in taps]
    assert len(set(wanted)) >= 3 and touched(0) == wanted
    assert touched(1) == [*wanted[1:], wanted[0]]


def anything(step: ExpertStep, rng: random.Random) -> Action:
    return rng.choice([*candidates(step.screen), Finish()])


def imperfect_demonstrations() -> list[ExpertStep]:
    """Launch, tap, finish; half of the demonstrated steps do something else."""
    steps = demonstrate(TASKS)
    assert len(steps) == 3 * len(TASKS)
    return with_mistakes(steps, 0.5, anything, copies=8)


def success_curve(algorithm: str, model: Path, run_dir: Path, iterations: int) -> list[float]:
    """Trains with the algorithm's defaults; returns the success rate of every iteration's sampled episodes."""
    flags = f"""--algorithm.type {algorithm} --model {model} --fleet.count 64 --phone.width {WIDTH}
        --phone.height {HEIGHT} --phone.popup_rate 0 --tasks.per_template 8 --tasks.templates ["{TEMPLATE}"]
        --rollout.tasks_per_iteration 8 --algorithm.learning_rate 1e-3 --algorithm.warmup_steps 0 --engine.threads 1
        --algorithm.mini_batch_size 64 --train.iterations {iterations} --train.checkpoint_every 1000
        --train.trajectories_every 0"""
    train(Run.open(load_recipe("base/tiny-model", flags.split()), run_dir, resume=False))
    return [m["rollout/success_rate"] for m in read_metrics(run_dir / "metrics.jsonl")]


@pytest.fixture(scope="module")
def weak(tmp_path_factory) -> Path:
    return fine_tune(tmp_path_factory.mktemp("weak"), TEXT_ONLY, imperfect_demonstrations(), epochs=30)


@pytest.mark.parametrize("algorithm", ["adagrpo", "gigpo"])
def test_a_weak_policy_learns_to_succeed(weak, tmp_path, algorithm):
    """Measured: 0.29 in the first iteration, and 0.94 and 0.89 in the last three."""
    curve = success_curve(algorithm, weak, tmp_path / "run", 10)
    assert 0.1 <= curve[0] <= 0.4 and fmean(curve[-3:]) >= 0.8
    after = sampled(latest(tmp_path / "run"), TEXT_ONLY, TASKS, 16, temperature=1.0)
    assert success_rate(after) >= 0.8
