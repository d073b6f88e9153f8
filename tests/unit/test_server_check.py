"""What is found out of a model server before anything is played, on stand-in servers."""

from __future__ import annotations

from typing import Any

import pytest
from model_server import act, like_vllm, stand_in_fixture  # noqa: F401 - a fixture

from mobilerl.agent.server_check import connect
from mobilerl.config import ConfigError


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def one_line(*arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigError) as error:
        connect(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_address_where_nobody_answers(monkeypatch):
    said = one_line("http://127.0.0.1:9/v1", "vlm")
    assert said.startswith("http://127.0.0.1:9/v1 cannot be reached") and "start the model server" in said


def test_a_model_the_server_does_not_have(stand_in):
    server = stand_in(models=("a", "b"))
    assert one_line(server.url, "vlm") == f"{server.url} has no model 'vlm'; it has a, b"
    assert one_line(server.url, None) == f"--model-name is missing; {server.url} has a, b"
    assert "--model-name is missing" in one_line("http://127.0.0.1:9/v1", None)
    assert not server.bodies


@pytest.mark.parametrize("models", ["<html>hello</html>", '{"data": 3}', 404])
def test_a_server_that_is_no_model_server(stand_in, models):
    said = one_line(stand_in(lambda body: 404, models=models).url, "vlm")
    assert "is no OpenAI-compatible server" in said and "/v1" in said


def test_a_page_instead_of_a_completion(stand_in):
    said = one_line(stand_in(lambda body: "<html>hello</html>").url, "vlm")
    assert "is no OpenAI-compatible server" in said and "not a chat completion" in said


def test_a_server_that_lists_no_models_is_tried(stand_in):
    assert act(connect(stand_in(models=404).url, "vlm")).token_ids == (5, 6)


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_wants_a_key(stand_in, status):
    assert "OPENAI_API_KEY" in one_line(stand_in(models=status).url, "vlm")
    assert "OPENAI_API_KEY" in one_line(stand_in(lambda body: status).url, "vlm")


def test_a_model_that_takes_no_pictures_or_fewer(stand_in):
    def one_at_most(body: dict[str, Any]) -> Any:
        count = sum(part["type"] == "image_url" for part in body["messages"][0]["content"])
        return (400, "At most 1 image(s) may be provided in one prompt.") if count > 1 else like_vllm(body)

    server = stand_in(one_at_most)
    said = one_line(server.url, "vlm", images=2)
    assert "a prompt with 2 pictures" in said and "At most 1 image(s)" in said and "--limit-mm-per-prompt" in said
    assert connect(server.url, "vlm", images=1).dialect.token_ids


def test_a_template_that_prints_lists(stand_in):
    """Token strings as vLLM's /tokenize gave them for GLM-4.1V's published template, and for one that is right."""
    server = stand_in()
    server.prompt = ["[gMASK]", "<|system|>", "Ċ", "[", "{", "'", "t", "ype", "'", ":", "Ġ'", "text", "'", "<|user|>"]
    assert "--chat-template-content-format string" in one_line(server.url, "vlm")
    server.prompt = ["[gMASK]", "<|system|>", "Ċ", "a", "<|user|>", "Ċ", "b"]
    assert connect(server.url, "vlm").dialect.token_ids


def test_a_server_that_breaks_at_the_first_request(stand_in, monkeypatch):
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    assert "answered 500" in one_line(stand_in(lambda body: 500).url, "vlm")
