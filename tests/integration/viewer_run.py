"""Generates a run of any size in the real formats, with all data that the viewer shows."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path

from PIL import Image, ImageDraw
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from mobilerl.algorithms.curriculum import FailureCurriculum
from mobilerl.config import load_recipe, save_recipe
from mobilerl.envs.base import (
    Action,
    Back,
    DeviceReport,
    Finish,
    Launch,
    LongPress,
    Observation,
    Swipe,
    Tap,
    Task,
    Type,
)
from mobilerl.eval.report import EpisodeResult, build_results, write_results
from mobilerl.records import Completion, Group, Status, Step, Trajectory
from mobilerl.records.files import save_trajectories, trajectory_to_dict
from mobilerl.records.screens import ScreenFolder
from mobilerl.training.run_log import StatusLog, write_advantages
from mobilerl.training.tracking import Tracker

WIDTH, HEIGHT = 90, 180
GROUPS, SIZE, DEVICES = 16, 8, 24
APPS = ("Notes", "Clock", "Mail")
EVIL = "</script><img src=x onerror=\"document.title='owned'\"><!--<script>document.title='owned'</script>\u2028"
XML = """<?xml version='1.0' ?><hierarchy rotation="0"><node class="android.widget.FrameLayout" bounds="[0,0][90,180]">
<node class="android.widget.Button" text="Save" resource-id="app:id/save" clickable="true" enabled="true" bounds="[10,20][80,50]" />
<node class="android.widget.EditText" text="&lt;b&gt;milk" focused="true" enabled="true" bounds="[10,60][80,80]" />
<node class="android.widget.ListView" scrollable="true" enabled="true" bounds="[0,90][90,180]">
<node class="android.widget.TextView" text="Row" bounds="[0,90][90,120]" /></node></node></hierarchy>"""  # noqa: E501
ACTIONS: tuple[Action, ...] = (
    *(Launch("Notes"), Tap(500, 200), LongPress(500, 200), Swipe(500, 900, 500, 600), Type("milk"), Back()),
    Finish("done"),
)


def png(shade: int) -> bytes:
    image = Image.new("RGB", (WIDTH, HEIGHT), (250, 250, 250 - shade))
    draw = ImageDraw.Draw(image)
    draw.rectangle((10, 20, 80, 50), fill=(60, 60 + shade, 200))
    draw.rectangle((10, 60, 80, 80), outline=(120, 120, 120))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


SCREENS = [png(10 * i) for i in range(12)]


def made_task(number: int, hostile: bool = False) -> Task:
    text = EVIL if hostile else f"Put item {number} on the list"
    return Task(
        f"sim/Template{number % 20}/{number}", f"Template{number % 20}", text, {}, number, 10, "sim", APPS[number % 3]
    )


def episode(name: str, task: Task, success: bool, rng: random.Random, device: str, hostile: bool = False) -> Trajectory:
    """2 to 7 steps; a hostile one's thoughts, responses, XML and notes are all `EVIL`."""
    text = EVIL if hostile else "The list is open."
    steps = []
    for i, action in enumerate(ACTIONS[: rng.randint(2, 7)]):
        xml = XML.replace("Save", EVIL.replace("<", "&lt;").replace('"', "&quot;")) if hostile else XML
        logprobs = tuple(-(rng.random() ** 4) * 3 for _ in range(rng.randint(5, 40)))
        screen = SCREENS[(task.seed + i) % len(SCREENS)]
        said = Completion((1, 2, 3), (4,) * len(logprobs), logprobs, 7, f"<think>{text}</think>")
        timings = {"policy": 0.4, "act": 0.1, "settle": 0.2}
        seen = Observation(screen, WIDTH, HEIGHT, xml, "Notes", i)
        steps.append(Step(seen, said, (screen,), text, action, timings, text if hostile else ""))
    status = Status.FINISHED if success else rng.choice((Status.FINISHED, Status.TRUNCATED, Status.INVALID))
    return Trajectory(name, task, tuple(steps), float(success), status, device, text if hostile else "", 3.0)


def make_run(run: Path, iterations: int = 16, seed: int = 0) -> Path:
    """`iterations * GROUPS * SIZE` trajectories; the first group is hostile. Two evaluations, before and after."""
    rng = random.Random(seed)
    devices = [f"avd-{i}" for i in range(DEVICES)]
    tasks = [made_task(i, hostile=i == 0) for i in range(60)]
    curriculum = FailureCurriculum([t.id for t in tasks], patience=1, cooldown=2, revisit_every=4)
    run.mkdir(parents=True)
    flags = ["--algorithm.type", "gigpo", "--train.seed", str(seed), "--algorithm.learning_rate", f"{1 + seed}e-5"]
    save_recipe(load_recipe(None, ["--model", EVIL, *flags]), run / "config.json")
    log = StatusLog(run)
    fleet = [DeviceReport(str(i), name, "ready", {}, 0, "") for i, name in enumerate(devices)]
    with Tracker(run) as tracker:
        for iteration in range(1, iterations + 1):
            played = []
            for g, key in enumerate(curriculum.sample(GROUPS, rng)):
                hostile = iteration == 1 and g == 0
                task = tasks[0] if hostile else next(t for t in tasks if t.id == key)
                chance = 0.0 if task.seed % 5 == 0 else min(1.0, 0.1 + 0.08 * iteration + 0.02 * (task.seed % 20))
                names = [f"{iteration:06d}-0-{g:03d}-{i:02d}" for i in range(SIZE)]
                made = [episode(n, task, rng.random() < chance, rng, rng.choice(devices), hostile) for n in names]
                played.append(Group(task, tuple(made)))
            every = [t for g in played for t in g.trajectories]
            fleet = [_later(report, rng) for report in fleet]
            rewards: dict[str, list[float]] = {}
            for group in played:
                rewards.setdefault(group.task.id, []).extend(t.reward for t in group.trajectories)
            curriculum.update(rewards)
            log.record(iteration, curriculum, played, lambda task: task.id, fleet)
            save_trajectories(run, iteration, every)
            write_advantages(run, iteration, every, [t.reward - 0.5 for t in every])
            tracker.log(_metrics(iteration, every, curriculum, rng))
    save_checkpoint(run, iterations, [t for t in every if t.success][:30])
    for name, chance in (("sim-before", 0.3), ("sim-after", 0.6)):
        results = build_results("sim", {"model": EVIL, "run": name}, [_result(t, rng.random() < chance) for t in tasks])
        write_results(run / "eval" / name / "results.json", results)
    return run


def save_checkpoint(run: Path, iteration: int, replay: list[Trajectory]) -> None:
    """What the viewer reads of a checkpoint: the replay buffer, and a tokenizer of the prompts of `episode`."""
    folder = run / "checkpoints" / f"iter-{iteration:06d}"
    folder.mkdir(parents=True)
    screens = ScreenFolder(folder / "screens")
    entries = [{"advantage": 0.9 - i / 40, "iteration": iteration - i % 3, "rarity": 0.5} for i in range(len(replay))]
    (folder / "state.json").write_text(json.dumps({"replay": {"iteration": iteration, "entries": entries}}))
    lines = [json.dumps(trajectory_to_dict(t, screens)) + "\n" for t in replay]
    (folder / "replay.jsonl").write_text("".join(lines))
    words = {"": 0, "<|user|>": 1, f"The list is {EVIL}": 2, "milk": 3}
    Tokenizer(WordLevel(words, unk_token="milk")).save(str(folder / "tokenizer.json"))


def _later(report: DeviceReport, rng: random.Random) -> DeviceReport:
    """The report a minute later. One device in twelve has failed and is in quarantine."""
    state = "quarantined" if rng.random() < 0.08 else "leased"
    seconds = {**report.seconds, state: report.seconds.get(state, 0.0) + 60.0}
    report = replace(report, state=state, seconds=seconds)
    if state == "leased":
        return report
    return replace(report, faults=report.faults + 1, reason=f"{report.device_id}: black screen {EVIL}")


def _metrics(iteration: int, every: list[Trajectory], curriculum: FailureCurriculum, rng: random.Random) -> dict:
    metrics = {"iteration": iteration, "time_s": 60.0 * iteration, "train/kl": float("nan"), EVIL: rng.random()}
    metrics |= {"rollout/env_steps": 700 * iteration, "train/loss": -0.1, "train/neg_logp": 1 / iteration}
    if iteration % 5 == 1:
        metrics["eval/success_rate"] = iteration / 20
    metrics["rollout/success_rate"] = sum(t.success for t in every) / len(every)
    metrics["rollout/episode_len"] = sum(len(t.steps) for t in every) / len(every)
    metrics |= {"staleness/mean": 0.4, "staleness/max": 2, "replay/size": 30 * iteration, "replay/fraction": 0.25}
    metrics |= {"time/rollout_s": 40.0, "time/update_s": 15.0, "time/publish_s": 1.0}
    return metrics | {f"curriculum/{k}": n for k, n in curriculum.counts().items()}


def _result(task: Task, success: bool) -> EpisodeResult:
    return EpisodeResult(task.id, task.template, task.app, True, "test", 0, float(success), success, 3, "finished")
