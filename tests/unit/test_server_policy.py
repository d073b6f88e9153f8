"""A model behind an OpenAI-compatible server, on stand-in servers without a model."""

from __future__ import annotations

import asyncio
import base64
import io
import time
from typing import Any

import openai
import pytest
from model_server import ASKED, RESPONSE, VLLM_FIELDS, act, completion, like_vllm, stand_in_fixture, strict  # noqa: F401 - a fixture among them
from PIL import Image
from source_files import png

from mobilerl.config import ConfigError
from mobilerl.inference.images import shrunk, with_images
from mobilerl.inference.server import ServerPolicy, connect
from mobilerl.records.engine import Sampling


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.001)


def test_vllm_gives_token_ids_and_log_probabilities(stand_in):
    server = stand_in(like_vllm)
    done = act(connect(server.url, "vlm"))
    assert (done.prompt_ids, done.token_ids, done.logprobs) == ((7, 8, 9), (5, 6), (-0.5, -0.25))
    assert done.text == RESPONSE + "</answer>"
    sent = server.bodies[-1]
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (1.0, 32, ["</answer>"])
    # What vLLM reads from generation_config.json is switched off: the distribution is the model's own.
    assert (sent["top_p"], sent["top_k"], sent["min_p"], sent["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)


def test_a_strict_server_is_asked_for_nothing_it_does_not_know(stand_in):
    server = stand_in(strict)
    policy = connect(server.url, "vlm")
    assert not policy.vllm
    done = act(policy)
    assert done.text == RESPONSE + "</answer>" and (done.prompt_ids, done.token_ids, done.logprobs) == ((), (), ())
    assert not VLLM_FIELDS & set(server.bodies[-1])


def test_the_thinking_switch_is_sent_to_servers_that_have_it(stand_in):
    server = stand_in(like_vllm)
    act(connect(server.url, "vlm", thinking=False))
    assert server.bodies[-1]["chat_template_kwargs"] == {"enable_thinking": False}
    with pytest.raises(ConfigError, match="engine.thinking is set, but .* has no such switch"):
        connect(stand_in(strict).url, "vlm", thinking=False)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (completion("<answer>do()</answer>"), "<answer>do()</answer>"),
        (completion("<answer>do(", finish_reason="length"), "<answer>do("),
        (completion(None), ""),
        (completion("<answer>do()", reasoning="so"), "<think>so</think><answer>do()</answer>"),
        (completion(None, reasoning="so <answer>do()"), "so <answer>do()</answer>"),
        (completion(None, reasoning="so <answer>do()", finish_reason="length"), "<think>so <answer>do()</think>"),
        (completion("<answer>\ud83d", reasoning="\ude00"), "<think>?</think><answer>?</answer>"),
    ],
)
def test_the_text_is_what_the_model_wrote(stand_in, response, text):
    """The stop string that the server cut off is put back, and so is a thought that its parser took out."""
    assert act(ServerPolicy(stand_in(lambda body: response).url, "vlm")).text == text


def test_a_policy_can_be_used_in_one_event_loop_after_another(stand_in):
    policy = connect(stand_in().url, "vlm")
    for _ in range(3):
        assert asyncio.run(policy.act(ASKED, (), Sampling())).text


def test_images_are_sent_byte_for_byte_in_their_places(stand_in):
    first, second = png(1), png(2)
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
        image, words = user["content"]
        head, data = image["image_url"]["url"].split(",")
        assert head == "data:image/png;base64" and base64.b64decode(data) == shot
        assert words == {"type": "text", "text": text}


@pytest.mark.parametrize("fault", [429, 503, "<html>", "hang up"])
def test_passing_faults_are_tried_again(stand_in, fault):
    answers = iter([fault, fault, fault])

    def answer(body: dict[str, Any]) -> Any:
        said = next(answers, None)
        if said == "hang up":
            raise ConnectionAbortedError
        return like_vllm(body) if said is None else said

    server = stand_in(answer)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    assert act(ServerPolicy(server.url, "vlm")).text == RESPONSE + "</answer>"
    assert len(server.bodies) == 4


@pytest.mark.parametrize(("status", "requests"), [(503, 3), (404, 1)])
def test_a_server_that_stays_away_ends_the_run(stand_in, status, requests):
    server = stand_in(lambda body: status)
    with pytest.raises(ConfigError, match=f"answered {status}"):
        act(ServerPolicy(server.url, "vlm", retries=2))
    assert len(server.bodies) == requests


def test_a_server_that_hangs_is_given_up_before_an_episodes_deadline(stand_in):
    server = stand_in(lambda body: time.sleep(0.6) or like_vllm(body))
    began = time.monotonic()
    with pytest.raises(ConfigError, match="gave no answer within 0.3 s"):
        act(ServerPolicy(server.url, "vlm", timeout_s=0.1))
    assert time.monotonic() - began < 60


def test_a_prompt_that_is_too_long_is_an_empty_response_and_counted(stand_in):
    def answer(body: dict[str, Any]) -> Any:
        return (400, "maximum context length is 9") if "long" in body["messages"][0]["content"] else like_vllm(body)

    policy = connect(stand_in(answer).url, "vlm")
    long = [{"role": "user", "content": [{"type": "text", "text": "long"}]}]
    with pytest.raises(ConfigError, match="maximum context length is 9; make prompts and responses shorter"):
        act(policy, long)  # not one prompt has been taken: nothing ever would be
    act(policy)
    done = act(policy, long)
    assert done.text == "" and done.token_ids == ()
    act(policy, long)
    assert policy.refused == 2 and "maximum context length is 9" in policy.refusal


def one_line(*arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as error:
        connect(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("options", "name", "says"),
    [
        ({"models": ("a", "b")}, "vlm", "has no model 'vlm'; it has a, b"),
        ({"models": ("a", "b")}, None, "--model-name is missing"),
        ({"models": "<html>hello</html>"}, "vlm", "ends in /v1"),
        ({"models": 401}, "vlm", "OPENAI_API_KEY"),
        ({"answer": lambda body: 403}, "vlm", "OPENAI_API_KEY"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused_in_one_line(stand_in, options, name, says):
    assert says in one_line(stand_in(**options).url, name)


def test_a_model_that_takes_no_images_or_fewer(stand_in):
    def one_at_most(body: dict[str, Any]) -> Any:
        count = sum(part["type"] == "image_url" for part in body["messages"][0]["content"])
        return (400, "At most 1 image(s) may be provided in one prompt.") if count > 1 else like_vllm(body)

    server = stand_in(one_at_most)
    said = one_line(server.url, "vlm", images=2)
    assert "a prompt with 2 images" in said and "At most 1 image(s)" in said and "--limit-mm-per-prompt" in said
    assert connect(server.url, "vlm", images=1).vllm


def test_a_template_that_prints_lists(stand_in):
    """Token strings as vLLM's /tokenize gave them for GLM-4.1V's published template, and for one that is right."""
    server = stand_in()
    server.prompt = ["[gMASK]", "<|system|>", "Ċ", "[", "{", "'", "t", "ype", "'", ":", "Ġ'", "text", "'", "<|user|>"]
    assert "--chat-template-content-format string" in one_line(server.url, "vlm")
    server.prompt = ["[gMASK]", "<|system|>", "Ċ", "a", "<|user|>", "Ċ", "b"]
    assert connect(server.url, "vlm").vllm


def test_large_images_are_scaled_down():
    small = shrunk(png(0, 400, 900), 10_000)
    image = Image.open(io.BytesIO(small))
    assert 9_000 <= image.width * image.height <= 10_000
    assert shrunk(png(0, 40, 90), 3600) == png(0, 40, 90)
    (sent,) = with_images([{"role": "user", "content": [{"type": "image"}]}], [png(0, 400, 900)], 10_000)
    assert base64.b64decode(sent["content"][0]["image_url"]["url"].split(",")[1]) == small
