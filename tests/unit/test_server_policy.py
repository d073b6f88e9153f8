"""A model behind an OpenAI-compatible server, on stand-in servers that speak HTTP and know no model."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from PIL import Image

from mobilerl.agent import server as server_module
from mobilerl.agent.pictures import shrunk, with_images
from mobilerl.agent.server import Dialect, ServerPolicy
from mobilerl.agent.server_check import connect
from mobilerl.config import ConfigError
from mobilerl.engines.base import Sampling

OPENAI_FIELDS = {"model", "messages", "temperature", "max_tokens", "max_completion_tokens", "stop", "logprobs", "top_p"}
VLLM_FIELDS = {"return_token_ids", "top_k", "min_p", "repetition_penalty"}
REPLY = '<think>so</think><answer>do(action="Back")'
ASKED = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


class StandIn(ThreadingHTTPServer):
    """Answers as `answer(body)` says: a dict is a chat completion, a number a status, a str a body as it is."""

    daemon_threads = True

    def __init__(self, answer: Callable[[dict[str, Any]], Any], models: Any = ("vlm",)) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.models = answer, models
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.headers: dict[str, str] = {}
        self.prompt: list[str] | None = None
        """What /tokenize says of a prompt; None: there is no such page."""
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_GET(self) -> None:
        models = self.server.models
        if self.path != "/v1/models" or isinstance(models, int):
            self._send(models if isinstance(models, int) else 404, {"error": {"message": "no such page"}})
        elif isinstance(models, str):
            self._send(200, models)
        else:
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in models]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/tokenize" and self.server.prompt is not None:
            return self._send(200, {"count": 1, "token_strs": self.server.prompt})
        if self.path == "/tokenize":
            return self._send(404, {"detail": "Not Found"})
        self.server.bodies.append(body)
        self.server.keys.append(self.headers["authorization"])
        if self.path != "/v1/chat/completions":
            return self._send(404, {"error": {"message": "no such page"}})
        answer = self.server.answer(body)
        if isinstance(answer, int):
            return self._send(answer, {"error": {"message": f"status {answer}"}})
        if isinstance(answer, tuple):
            return self._send(answer[0], {"error": {"message": answer[1]}})
        return self._send(200, answer)

    def _send(self, status: int, content: Any) -> None:
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("content-type", "text/html" if isinstance(content, str) else "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def completion(text: str | None = REPLY, ids: tuple[int, ...] = (), logprobs: tuple[float, ...] = (), **message: Any):
    choice: dict[str, Any] = {"index": 0, "finish_reason": message.pop("finish_reason", "stop"),
                              "message": {"role": "assistant", "content": text, **message}}  # fmt: skip
    if ids:
        choice["token_ids"] = list(ids)
    if logprobs:
        choice["logprobs"] = {"content": [{"token": "x", "logprob": p, "top_logprobs": []} for p in logprobs]}
    reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "vlm", "choices": [choice]}
    return reply | ({"prompt_token_ids": [7, 8, 9]} if ids else {})


def like_vllm(body: dict[str, Any]) -> Any:
    if body.get("return_token_ids"):
        return completion(ids=(5, 6), logprobs=(-0.5, -0.25) if body.get("logprobs") else ())
    return completion(logprobs=(-0.5, -0.25) if body.get("logprobs") else ())


def strict(*refused: str) -> Callable[[dict[str, Any]], Any]:
    """As OpenAI's own endpoint: a field it does not know is an error; so are those named."""

    def answer(body: dict[str, Any]) -> Any:
        wrong = [name for name in body if name not in OPENAI_FIELDS or name in refused]
        return (400, f"Unrecognized request argument supplied: {wrong[0]}") if wrong else like_vllm(body)

    return answer


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandIn]]:
    made: list[StandIn] = []

    def make(answer: Callable[[dict[str, Any]], Any] = like_vllm, **options: Any) -> StandIn:
        made.append(StandIn(answer, **options))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


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


def act(policy: ServerPolicy, messages=ASKED, images=(), temperature: float = 1.0):
    async def once():
        try:
            return await policy.act(messages, images, Sampling(temperature, 32))
        finally:
            await policy.close()

    return asyncio.run(once())


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
    ],
)
def test_the_text_is_what_the_model_wrote(stand_in, reply, text):
    """The stop string that the server cut off is put back, and so is a thought that its parser took out."""
    assert act(ServerPolicy(stand_in(lambda body: reply).url, "vlm")).text == text


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


# --- at the start ------------------------------------------------------------------------------------------------


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
