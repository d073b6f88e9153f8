"""What stands in for the parts of docs/reproduce.md that two CPU cores do not have; for recipes/paper/rehearse.sh.

python rehearsal.py prepare OUT     a tiny base model of random weights, recordings, the overlay OUT/tiny.toml
python rehearsal.py serve OUT       a proposer, and phones for the checkouts that are named; writes OUT/served.sh
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

WORLD, LAB = (os.environ.get(f"MOBILERL_ANDROID{name}") for name in ("WORLD", "LAB"))
sys.path += [str(Path(__file__).with_name(name)) for name in ("unit", "real")]

import source_files as written  # noqa: E402
import torch  # noqa: E402
from http_stand_in import ChatServer, text_of  # noqa: E402

from mobilerl.config import load_recipe  # noqa: E402
from mobilerl.envs.base import Action, Back, Launch, Tap  # noqa: E402
from mobilerl.envs.phone.env import PhoneEnv  # noqa: E402
from mobilerl.envs.phone.tasks.suite import make_task  # noqa: E402
from mobilerl.models import tiny  # noqa: E402
from mobilerl.policy.actions import describe  # noqa: E402
from mobilerl.policy.context import make_context  # noqa: E402
from mobilerl.policy.formats.mobilerl_9b import PROMPT  # noqa: E402
from mobilerl.policy.screen import Screen  # noqa: E402
from mobilerl.sft.demonstrations import demonstrate  # noqa: E402
from mobilerl.sft.samples import ExpertStep  # noqa: E402
from mobilerl.sft.sources.report import Report  # noqa: E402
from mobilerl.sft.sources.stream import hashed_split, open_sources, steps  # noqa: E402
from mobilerl.system.atomic_files import write_atomic  # noqa: E402

TEMPLATES = ("MusicPause", "MessagesOpenUnread")
"""Tasks of the embedded phone that take an app, a touch and the end."""
EPISODES = 24
WIDTH, HEIGHT = 360, 720
LAB_TASK = "setting_3"
WORLD_TEMPLATES = ("SystemWifiTurnOff", "SystemBluetoothTurnOn")
OVERLAY = """# Over the recipes of recipes/paper/: what a tiny model on two CPU cores needs, and the stand-ins.
model = "{out}/base"
[suite]
{suite}
[tasks]
templates = {templates}
per_template = 4
[fleet]
{fleet}
[phone]
width = {width}
height = {height}
popup_rate = 0.0
[agent]
max_new_tokens = 48
[engine]
type = "local"
max_pixels = 3136
gradient_checkpointing = false
[sft]
sources = [{{format = "androidcontrol", path = "{out}/android_control", stage2_limit = 40}}]
stage1_epochs = 6
stage2_epochs = 6
batch_size = 4
micro_batch_size = 0
learning_rate = 3e-3
processes = 0
deepspeed = ""
[rollout]
tasks_per_iteration = {groups}
[algorithm]
group_size = {group}
learning_rate = 1e-4
warmup_steps = 0
mini_batch_size = 16
[train]
iterations = 2
"""


# --- before ------------------------------------------------------------------------------------------------------


def prepare(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    episodes = list(demonstrated())
    written.write_control(out / "android_control", *(control(key, episode) for key, episode in episodes))
    made = [step for _, episode in episodes for step in episode]
    texts = [text for step in made for text in (step.task.instruction, step.screen.render("mobilerl"), said(step))]
    torch.manual_seed(0)
    tiny.create(out / "base", [PROMPT, *texts], hidden=64, layers=2, heads=2, vision_hidden=16, max_pixels=3136)
    if WORLD:  # its servers are flags, as in docs/reproduce.md; the fleet stays the recipe's until then
        names, chosen = WORLD_TEMPLATES, {"suite": "step_cap = 3", "fleet": "spares = 0", "groups": 2, "group": 2}
    else:
        names, chosen = TEMPLATES, {"suite": 'type = "phone"', "fleet": 'type = "embedded"', "groups": 4, "group": 4}
    places = {"out": out.resolve(), "templates": json.dumps(names), "width": WIDTH, "height": HEIGHT}
    (out / "tiny.toml").write_text(OVERLAY.format(**places, **chosen))


def demonstrated() -> Iterator[tuple[int, list[ExpertStep]]]:
    """Experts' episodes, numbered so that all are in AndroidControl's split for training."""
    phone = PhoneEnv("recorded", WIDTH, HEIGHT)
    keys = [key for key in range(1000) if hashed_split("androidcontrol", str(key)) == "train"]
    for key, name, seed in zip(keys, itertools.cycle(TEMPLATES), range(EPISODES), strict=False):
        yield key, asyncio.run(demonstrate(phone, make_task(name, seed)))


def said(step: ExpertStep) -> str:
    return f"The next action is to {describe(step.action, step.screen)}"


def control(key: int, episode: list[ExpertStep]) -> dict[str, Any]:
    """An episode as AndroidControl publishes it."""
    seen, acted = [step.observation for step in episode], episode[:-1]  # the last step is the end
    return written.control_episode(
        key,
        episode[0].task.instruction,
        [control_action(step.action) for step in acted],
        screenshots=[o.screenshot for o in seen],
        accessibility_trees=[forest(o.xml) for o in seen],
        screenshot_widths=[WIDTH] * len(seen),
        screenshot_heights=[HEIGHT] * len(seen),
        step_instructions=[describe(step.action, step.screen).encode() for step in acted],
    )


def control_action(action: Action) -> dict[str, Any]:
    match action:
        case Launch(app):
            return {"action_type": "open_app", "app_name": app}
        case Tap(x, y):
            return {"action_type": "click", "x": round(x * WIDTH / 999), "y": round(y * HEIGHT / 999)}
    raise ValueError(f"{action} is not in these tasks")


def forest(xml: str) -> bytes:
    nodes = {element: number for number, element in enumerate(ElementTree.fromstring(xml).iter("node"))}
    return written.forest(
        written.window(
            [
                written.node(
                    number,
                    tuple(int(v) for v in re.findall(r"\d+", e.get("bounds", ""))),
                    [nodes[child] for child in e],
                    cls=e.get("class", ""),
                    package=e.get("package", ""),
                    text=e.get("text") or e.get("content-desc", ""),
                    clickable=e.get("clickable") == "true",
                )
                for e, number in nodes.items()
            ]
        )
    )


# --- beside ------------------------------------------------------------------------------------------------------


class Models(ChatServer):
    """In place of two large models. The proposer knows the recorded action of every prompt, and proposes another one
    every fourth time; the judge compares texts."""

    def __init__(self, out: Path) -> None:
        recipe = load_recipe([Path("paper/mobilerl-7b-sft"), out / "tiny.toml"])
        context = make_context(recipe.agent)
        recorded = steps(open_sources(recipe.sft.sources, "train", context), "train", context, Report(), 0, 1)
        self.known = {asked(s.messages(context)[0]): s.write_response(context, said(s)) for s in recorded}
        self.other = context.write_response(Back(), Screen((), WIDTH, HEIGHT), "Something else is better")
        self.times: Counter[str] = Counter()
        super().__init__(self.respond, ("proposer", "judge"))

    def respond(self, request: dict[str, Any]) -> str:
        if request["model"] == "judge":
            asked_about = text_of(request["messages"][0])
            answer, truth = (
                re.search(rf"^{name}: (.*)$", asked_about, re.M) for name in ("Answer", "Reference answer")
            )
            return f"[{json.loads(truth[1]) in json.loads(answer[1])}]"
        key = asked(request["messages"])
        self.times[key] += 1
        return self.other if self.times[key] % 4 == 0 else self.known.get(key, self.other)


def asked(messages: list[dict[str, Any]]) -> str:
    return json.dumps([text_of(message) for message in messages])


def serve(out: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that what was started ends too
    with ExitStack() as running:
        url = Models(out).url
        arrays = {"BENCHMARK": ["sim", "--instances", "2"], "DEVICES": []}
        if WORLD:
            from androidworld_stack import Stack

            stack = running.enter_context(Stack(out.resolve() / "androidworld"))
            server = f"{stack.server()},{stack.serial}"
            arrays["BENCHMARK"] = f"androidworld --protocol mobilerl --step-cap 3 --runs 1 --server {server}".split()
            arrays["DEVICES"] = ["--fleet.type", "embedded", "--suite.servers", json.dumps([server])]
        else:
            print(
                "MOBILERL_ANDROIDWORLD is not set: the embedded phone's own tasks in place of AndroidWorld's",
                flush=True,
            )
        arrays["BENCHMARK"] += [
            word for name in (WORLD_TEMPLATES if WORLD else TEMPLATES) for word in ("--template", name)
        ]
        if LAB:
            from phones import served

            python = os.environ.get("MOBILERL_ANDROIDLAB_PYTHON", sys.executable)
            phone = running.enter_context(served(WIDTH, HEIGHT))
            phone.adb("shell", "settings put global bluetooth_on 1")  # which the task is to turn off
            judge = ["--judge-url", url, "--judge-model", "judge", "--judge-python", python]
            small = f"--task {LAB_TASK} --rounds 3 --interval 0 --launch-wait 0 --serial {phone.address}".split()
            arrays["LAB"] = ["--android-lab", LAB, *judge, *small]
        else:
            print("MOBILERL_ANDROIDLAB is not set: AndroidLab is skipped", flush=True)
        lines = [f"MODELS={url}", *(f"{name}=({shlex.join(words)})" for name, words in arrays.items())]
        write_atomic(out / "served.sh", "\n".join([*lines, ""]).encode())
        signal.pause()


if __name__ == "__main__":
    {"prepare": prepare, "serve": serve}[sys.argv[1]](Path(sys.argv[2]))
