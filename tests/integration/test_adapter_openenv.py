"""Phones behind a real OpenEnv server on 127.0.0.1, used by OpenEnv's own client."""

from __future__ import annotations

import base64
import io
import threading
import time
from collections.abc import Iterator

import pytest
from ports import free_port

pytest.importorskip("openenv", reason="no OpenEnv: pip install openenv")

import uvicorn  # noqa: E402
from openenv import GenericEnvClient  # noqa: E402
from PIL import Image  # noqa: E402

from mobilerl.adapters.openenv_env import app  # noqa: E402
from mobilerl.envs.base import Action, InfraError, Observation  # noqa: E402
from mobilerl.envs.phone.env import PhoneEnv  # noqa: E402
from mobilerl.envs.phone.tasks import suite  # noqa: E402
from mobilerl.envs.phone.tasks.expert import ExpertAgent  # noqa: E402


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app(), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 120
    while not server.started:
        assert time.monotonic() < until and thread.is_alive(), "the OpenEnv server does not start"
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture
def client(url: str) -> Iterator[GenericEnvClient]:
    with GenericEnvClient(base_url=url).sync() as made:
        yield made


def sent(action: Action) -> dict[str, object]:
    places = {name: getattr(action, name, 0) for name in ("x", "y", "x2", "y2")}
    text = next((getattr(action, name) for name in ("text", "app", "message") if hasattr(action, name)), "")
    return {"kind": action.kind, "at": [places["x"], places["y"]], "to": [places["x2"], places["y2"]], "text": text}


def test_an_expert_gets_its_reward(client) -> None:
    tasks = suite.held_out_tasks(1)
    index = next(i for i, task in enumerate(tasks) if task.template == "MusicPlay")
    result = client.reset(split="test", index=index)
    task = tasks[index]
    assert (result.observation["instruction"], result.metadata["task_id"]) == (task.instruction, task.id)
    expert = ExpertAgent(suite.template(task.template)(task.params))
    rewards = [result.reward]
    while not result.done:
        size = Image.open(io.BytesIO(base64.b64decode(result.observation["screenshot"]))).size
        seen = Observation(b"", *size, result.observation["xml"], result.observation["app"], 0)
        result = client.step(sent(expert.act(seen)))
        rewards.append(result.reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert client.state()["step_count"] == len(rewards) - 1


def test_every_session_has_its_own_phone(client, url) -> None:
    with GenericEnvClient(base_url=url).sync() as other:
        before = client.reset(seed=0, episode_id="mine").observation
        assert other.reset(seed=0).observation == before
        client.step({"kind": "launch", "text": "Music"})
        assert client.step({"kind": "wait"}).observation["app"] == "Music"
        assert other.step({"kind": "wait"}).observation["app"] == before["app"]
        assert client.state() == {"episode_id": "mine", "step_count": 2} and other.state()["step_count"] == 1


def test_an_invalid_action_is_rejected_and_costs_no_step(client) -> None:
    client.reset(index=0)
    for action in ({"kind": "jump"}, {"kind": "tap", "at": [1000, 0]}):
        with pytest.raises(RuntimeError, match="Invalid message|must be within 0-999"):
            client.step(action)
    assert client.state()["step_count"] == 0 and not client.step({"kind": "home"}).done


def test_a_failing_device_is_an_error_without_reward(client, monkeypatch) -> None:
    client.reset(index=0)

    def lost(self: PhoneEnv, action: Action) -> None:
        raise InfraError("sim-0: gone")

    monkeypatch.setattr(PhoneEnv, "_step", lost)
    with pytest.raises(RuntimeError, match="sim-0: gone .*EXECUTION_ERROR"):
        client.step({"kind": "finish"})
