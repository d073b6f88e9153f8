"""Scripted models of published formats behind an HTTP server, which play tasks of the phone through the command line.

They write what the published models write: the test turns an expert's points into the units of a format by itself, from
the size of the screenshot that arrived.
"""

import asyncio
import base64
import io
import json

import pytest
from http_stand_in import ChatServer, text_of
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from mobilerl.benchmarks.model_families import FAMILIES, create
from mobilerl.cli import main
from mobilerl.config import AgentSection
from mobilerl.envs.base import Finish, Launch, Swipe, Tap, Type
from mobilerl.envs.phone.env import PhoneEnv
from mobilerl.envs.phone.tasks.suite import held_out_tasks
from mobilerl.models.codec import Codec
from mobilerl.policy.actor import ModelActor
from mobilerl.policy.context import make_context
from mobilerl.policy.formats import FORMATS
from mobilerl.policy.formats.choice import with_format
from mobilerl.records import Completion
from mobilerl.records.engine import Sampling
from mobilerl.rollout.episode import episode_settings, run_episode
from mobilerl.sft.demonstrations import demonstrate
from mobilerl.sft.samples import encode


def image(request):
    """Width and height of the newest screenshot."""
    parts = [
        part for message in request["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    url = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"][-1]
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size


def pixels(request):
    """Width and height at which a Qwen2.5-VL processor with its published limits shows it to the model."""
    width, height = image(request)
    height, width = smart_resize(height, width, 28, 56 * 56, 12_845_056)
    return width, height


def thousand(request):
    return 999, 999


def at(x, y, size):
    return [round(x / 999 * size[0]), round(y / 999 * size[1])]


def tool_call(action, size):
    match action:
        case Tap(x, y):
            arguments = {"action": "click", "coordinate": at(x, y, size)}
        case Swipe(x, y, x2, y2):
            arguments = {"action": "swipe", "coordinate": at(x, y, size), "coordinate2": at(x2, y2, size)}
        case Type(text):
            arguments = {"action": "type", "text": text}
        case Launch(app):
            arguments = {"action": "open", "text": app}
        case Finish(message) if message:
            arguments = {"action": "answer", "text": message}
        case Finish():
            arguments = {"action": "terminate", "status": "success"}
        case _:
            arguments = {"action": "system_button", "button": action.kind.capitalize()}
    call = json.dumps({"name": "mobile_use", "arguments": arguments})
    return f"Thought: next.\nAction: {action.kind}\n<tool_call>\n{call}\n</tool_call>"


def ui_tars(action, size):
    match action:
        case Tap(x, y):
            code = "click(start_box='({},{})')".format(*at(x, y, size))
        case Swipe(x, y, x2, y2):
            code = "drag(start_box='({},{})', end_box='({},{})')".format(*at(x, y, size), *at(x2, y2, size))
        case Type(text):
            code = f"type(content='{text}')"
        case Launch(app):
            code = f"open_app(app_name='{app}')"
        case Finish(message):
            code = f"finished(content='{message}')"
        case _:
            code = f"press_{action.kind}()"
    return f"Thought: next.\nAction: {code}"


@pytest.mark.parametrize(
    ("name", "write", "size_of", "words"),
    [
        ("qwen3-vl", tool_call, thousand, ["--agent.format", "qwen3-vl"]),
        ("qwen2.5-vl", tool_call, pixels, ["--engine.max_pixels", "200000"]),  # recognized by the model's name
        ("ui-tars-1.5", ui_tars, pixels, ["--agent.format", "ui-tars-1.5"]),
    ],
)
def test_a_scripted_model_solves_tasks_in_its_own_format(tmp_path, name, write, size_of, words):
    templates = ("SettingsRename", "SettingsReadName")
    tasks = [task for task in held_out_tasks(1) if task.template in templates]
    steps = {task.instruction: [s.action for s in asyncio.run(demonstrate(PhoneEnv(), task))] for task in tasks}

    def answer(request):
        text = "".join(map(text_of, request["messages"]))
        script = next((actions for instruction, actions in steps.items() if instruction in text), None)
        return write(script.pop(0), size_of(request)) if script else "ok"  # the first request only asks for an answer

    server = ChatServer(answer, models=("org/Qwen2.5-VL-7B-Instruct",))
    chosen = [word for template in templates for word in ("--template", template)]
    model = ["--model", server.url, "--model-name", "org/Qwen2.5-VL-7B-Instruct", "--instances", "1"]
    try:
        assert main(["eval", "sim", *model, *chosen, *words, "--phone.popup_rate", "0", "--out", str(tmp_path)]) == 0
    finally:
        server.stop()
    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["successes"], results["trials"]) == (2, 2)
    protocol = results["protocol"]
    assert protocol["agent.format"] == name and "stop" not in server.asked[-1]
    assert protocol["agent.screenshots"] == (5 if name == "ui-tars-1.5" else 1)


class Script:
    """Answers with one response after another."""

    def __init__(self, responses):
        self.responses = list(responses)

    async def act(self, messages, images, sampling, key=""):
        return Completion((), (), (), 0, self.responses.pop(0))


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "mobilerl"])
def test_every_format_carries_an_experts_actions_to_the_phone(name):
    task = next(task for task in held_out_tasks(1) if task.template == "SettingsRename")
    agent = with_format(AgentSection(format=name), "")
    context = make_context(agent)
    steps = asyncio.run(demonstrate(PhoneEnv(), task))
    actor = ModelActor(
        Script(context.write_response(step.action, step.screen, "next") for step in steps), context, Sampling()
    )
    played = asyncio.run(run_episode(PhoneEnv(), actor, task, "e", episode_settings(agent)))
    assert (played.reward, len(played.steps)) == (1.0, len(steps))


def test_samples_have_the_size_at_which_the_model_sees_the_screenshot(tmp_path):
    create(FAMILIES["Qwen2.5-VL"], tmp_path, ["mobile_use"])
    codec = Codec.load(tmp_path, 60_000)
    task = next(task for task in held_out_tasks(1) if task.template == "SettingsReadName")
    step = next(s for s in asyncio.run(demonstrate(PhoneEnv(), task)) if isinstance(s.action, Tap))
    sample = encode(step, make_context(AgentSection(format="qwen2.5-vl")), codec)
    height, width = codec.images.size_seen(step.observation.width, step.observation.height)
    assert f"resolution is {width}x{height}." in codec.decode(sample.prompt_ids)
    x, y = at(step.action.x, step.action.y, (width, height))
    assert f"[{x}, {y}]" in codec.decode(sample.response_ids)
