"""A model behind an OpenAI-compatible server, on stand-in servers that speak HTTP and know no model."""

from __future__ import annotations

import asyncio
import base64
import io
import time
from typing import Any

import pytest
from model_server import (  # noqa: F401 - a fixture among them
    ASKED,
    REPLY,
    VLLM_FIELDS,
    act,
    completion,
    like_vllm,
    stand_in_fixture,
    strict,
)
from PIL import Image

from mobilerl.agent import server as server_module
from mobilerl.agent.pictures import shrunk, with_images
from mobilerl.agent.server import Dialect, ServerPolicy
from mobilerl.agent.server_check import connect
from mobilerl.config import ConfigError
from mobilerl.engines.base import Sampling


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, none of which is waited for."""
    taken: list[float] = []

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr(server_module.asyncio, "sleep", sleep)
    return taken


def png(width: int = 40, height: int = 90, shade: int = 100) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (width, height), (shade, 20, 30)).save(data, "PNG")
    return data.getvalue()


# --- what a server gives -----------------------------------------------------------------------------------------


def test_vllm_gives_token_ids_and_log_probabilities(stand_in):
    server = stand_in(like_vllm)
    done = act(connect(server.url, "vlm"))
    assert (done.prompt_ids, done.token_ids, done.logprobs) == ((7, 8, 9), (5, 6), (-0.5, -0.25))
    assert done.text == REPLY + "</answer>"
    sent = server.bodies[-1]
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (1.0, 32, ["</answer>"])
    # What vLLM reads from generation_config.json is switched off: the distribution is the model's own.
    assert (sent["top_p"], sent["top_k"], sent["min_p"], sent["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)


def test_a_strict_server_is_asked_for_nothing_it_does_not_know(stand_in):
    server = stand_in(strict())
    policy = connect(server.url, "vlm")
    assert policy.dialect == Dialect("max_tokens", logprobs=True, token_ids=False)
    done = act(policy)
    assert done.text == REPLY + "</answer>" and (done.prompt_ids, done.token_ids, done.logprobs) == ((), (), ())
    assert not VLLM_FIELDS & set(server.bodies[-1])


def test_a_server_without_log_probabilities_plays_as_well(stand_in):
    server = stand_in(strict("logprobs", "max_tokens"))
    policy = connect(server.url, "vlm")
    assert policy.dialect == Dialect("max_completion_tokens", logprobs=False, token_ids=False)
    assert act(policy).text == REPLY + "</answer>"
    assert server.bodies[-1]["max_completion_tokens"] == 32 and "logprobs" not in server.bodies[-1]


def test_what_is_accepted_is_found_out_once(stand_in):
    server = stand_in(strict("logprobs"))
    policy = connect(server.url, "vlm")
    tried = len(server.bodies)
    for _ in range(3):
        act(policy)
    assert len(server.bodies) == tried + 3


def test_ids_and_log_probabilities_that_do_not_belong_together_are_left_out(stand_in):
    done = act(ServerPolicy(stand_in(lambda body: completion(ids=(5, 6, 7), logprobs=(-1.0,))).url, "vlm"))
    assert (done.token_ids, done.logprobs) == ((), ()) and done.text


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (completion("<answer>do()</answer>"), "<answer>do()</answer>"),
        (completion("<answer>do(", finish_reason="length"), "<answer>do("),
        (completion("no tags"), "no tags"),
        (completion(None), ""),
        (completion("<answer>do()", reasoning="so"), "<think>so</think><answer>do()</answer>"),
        (completion("<answer>do()", reasoning_content="so"), "<think>so</think><answer>do()</answer>"),
        (completion("so</think><answer>do()", reasoning=None), "so</think><answer>do()</answer>"),
        (completion("<answer>\ud83d", reasoning="\ude00"), "<think>?</think><answer>?</answer>"),
    ],
)
def test_the_text_is_what_the_model_wrote(stand_in, reply, text):
    """The stop string that the server cut off is put back, and so is a thought that its parser took out."""
    assert act(ServerPolicy(stand_in(lambda body: reply).url, "vlm")).text == text


def test_half_an_emoji_in_a_reply_does_not_stop_the_next_request(stand_in):
    server = stand_in(lambda body: completion('<answer>finish(message="\ud83d")'))
    policy = ServerPolicy(server.url, "vlm")
    said = act(policy).text
    assert act(policy, [*ASKED, {"role": "assistant", "content": [{"type": "text", "text": said}]}, *ASKED]).text
    assert server.bodies[-1]["messages"][1]["content"] == '<answer>finish(message="?")</answer>'


def test_what_a_server_says_of_a_refusal_can_be_written(stand_in):
    server = stand_in(lambda body: (400, "too long \ud83d") if len(server.bodies) > 1 else completion())
    policy = ServerPolicy(server.url, "vlm")
    for _ in range(2):
        act(policy)
    assert policy.refusal == "answered 400: too long ?"


def test_the_key_is_read_from_the_environment(stand_in, monkeypatch):
    server = stand_in()
    act(connect(server.url, "vlm"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    act(connect(server.url, "vlm"))
    assert server.keys[0] == server.keys[1] == "Bearer none" and server.keys[-1] == server.keys[-2] == "Bearer sk-1"


def test_a_policy_can_be_used_in_one_event_loop_after_another(stand_in):
    policy = connect(stand_in().url, "vlm")
    for _ in range(3):
        assert asyncio.run(policy.act(ASKED, (), Sampling())).text


# --- pictures ----------------------------------------------------------------------------------------------------


def test_pictures_are_sent_byte_for_byte_in_their_places(stand_in):
    first, second = png(shade=1), png(shade=2)
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "c"}]},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "d"}]},
    ]
    server = stand_in()
    act(ServerPolicy(server.url, "vlm"), messages, (first, second))
    system, *users = server.bodies[-1]["messages"]
    assert system == {"role": "system", "content": "ab"}
    for user, shot, text in zip(users, (first, second), "cd", strict=True):
        picture, words = user["content"]
        head, data = picture["image_url"]["url"].split(",")
        assert head == "data:image/png;base64" and base64.b64decode(data) == shot
        assert words == {"type": "text", "text": text}


def test_pictures_that_are_too_large_are_made_smaller():
    small = shrunk(png(400, 900), 10_000)
    picture = Image.open(io.BytesIO(small))
    assert 9_000 <= picture.width * picture.height <= 10_000
    assert picture.width / picture.height == pytest.approx(400 / 900, rel=0.03)
    assert shrunk(png(40, 90), 3600) == png(40, 90)
    (sent,) = with_images([{"role": "user", "content": [{"type": "image"}]}], [png(400, 900)], 10_000)
    assert base64.b64decode(sent["content"][0]["image_url"]["url"].split(",")[1]) == small


# --- while playing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [408, 409, 425, 429, 500, 502, 503, "<html>", '{"choices": []}', "hang up"])
def test_passing_faults_are_tried_again_with_growing_waits(stand_in, waits, fault):
    answers = iter([fault, fault, fault])

    def answer(body: dict[str, Any]) -> Any:
        said = next(answers, None)
        if said == "hang up":
            raise ConnectionAbortedError
        return like_vllm(body) if said is None else said

    server = stand_in(answer)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    assert act(ServerPolicy(server.url, "vlm")).text == REPLY + "</answer>"
    assert len(server.bodies) == 4 and len(waits) == 3
    assert all(0.5 * 0.5 * 2**i <= wait <= 0.5 * 2**i for i, wait in enumerate(waits))


def test_a_server_that_names_a_time_is_given_it(stand_in, waits):
    answers = iter([429])
    server = stand_in(lambda body: next(answers, None) or like_vllm(body))
    server.headers = {"retry-after": "7"}
    act(ServerPolicy(server.url, "vlm"))
    assert waits == [7.0]


def test_a_server_that_stays_away_ends_the_run_in_one_line(stand_in, waits):
    policy = ServerPolicy(stand_in(lambda body: 503).url, "vlm", retries=4)
    with pytest.raises(ConfigError, match="failed: it answered 503: status 503 .tries: 5.; start again"):
        act(policy)
    assert len(waits) == 4


def test_a_server_that_hangs_is_given_up_before_an_episodes_deadline(stand_in, waits, monkeypatch):
    monkeypatch.setattr(server_module, "PATIENCE_S", 0.15)
    server = stand_in(lambda body: time.sleep(0.3) or like_vllm(body))
    with pytest.raises(ConfigError, match="gave no answer within 0.1 s .tries: [12]."):
        act(ServerPolicy(server.url, "vlm", timeout_s=0.1))


def test_a_request_has_a_time_limit(stand_in, waits):
    server = stand_in(lambda body: time.sleep(0.3) or like_vllm(body))
    with pytest.raises(ConfigError, match="gave no answer within 0.05 s"):
        act(ServerPolicy(server.url, "vlm", timeout_s=0.05, retries=1))
    assert act(ServerPolicy(server.url, "vlm", timeout_s=5.0)).text


def test_a_prompt_that_is_too_long_is_an_empty_reply_and_counted(stand_in, waits):
    def answer(body: dict[str, Any]) -> Any:
        return (400, "maximum context length is 9") if "long" in body["messages"][0]["content"] else like_vllm(body)

    policy = connect(stand_in(answer).url, "vlm")
    long = [{"role": "user", "content": [{"type": "text", "text": "long"}]}]
    with pytest.raises(ConfigError, match="maximum context length is 9; make prompts and replies shorter"):
        act(policy, long)  # not one prompt has been taken: nothing ever would be
    act(policy)
    done = act(policy, long)
    assert done.text == "" and done.token_ids == ()
    act(policy, long)
    assert policy.refused == 2 and "maximum context length is 9" in policy.refusal and not waits


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_key_or_a_model_that_is_gone_ends_the_run(stand_in, waits, status):
    with pytest.raises(ConfigError, match=f"answered {status}"):
        act(ServerPolicy(stand_in(lambda body: status).url, "vlm"))
    assert not waits
