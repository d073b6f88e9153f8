"""Policy on an OpenAI-compatible server (vLLM or any other). `connect` makes one after checking the server."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Any

from mobilerl.config import ConfigError
from mobilerl.inference.client import MALFORMED, ChatClient, Refused, Unreachable, most_characters, one_line
from mobilerl.inference.images import blank, shrunk_size, with_images
from mobilerl.models.thinking import SWITCH
from mobilerl.policy.actor import Messages
from mobilerl.policy.formats.pixels import qwen_size
from mobilerl.policy.sanitize import encodable
from mobilerl.policy.unreadable import NO_PARSER
from mobilerl.records import Completion
from mobilerl.records.engine import ANSWER_END, Sampling

log = logging.getLogger(__name__)
TIMEOUT_S = 300.0
RETRIES = 8
PROBE_RETRIES = 2
PROBE_TOKENS = 16
MOST_COMPARED = 16
"""Characters of a call that are looked for in the text."""


def request_fields(sampling: Sampling, vllm: bool, thinking: bool | None = None) -> dict[str, Any]:
    """Fields of a request besides model and messages.

    With `vllm`, vLLM's own fields request token ids and log-probabilities, and disable the top-k, top-p and repetition
    penalty that vLLM otherwise takes from the model's generation_config.json. `thinking` sets the switch of the chat
    template, which only such a server has.
    """
    fields: dict[str, Any] = {"max_tokens": sampling.max_new_tokens, "temperature": sampling.temperature}
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if vllm:
        fields |= {"logprobs": True, "top_p": 1.0}
        fields["extra_body"] = {"return_token_ids": True, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
        if thinking is not None:
            fields["extra_body"]["chat_template_kwargs"] = {SWITCH: thinking}
    return fields


class ServerPolicy:
    """Chat completions with screenshots as data URLs. Token ids and log-probabilities are kept if the server returns
    both, as vLLM does; otherwise a completion has only the text, which is enough to evaluate and to propose actions.

    vLLM's log-probabilities are those before temperature scaling, so they are the rollout's only at temperature 1.

    If retries do not help, `act` raises ConfigError. A prompt that the server refuses (because it is too long, say)
    gives an empty response; `refused` counts these, and `refusal` is the server's first message. A refusal before any
    prompt was answered raises ConfigError.
    """

    def __init__(
        self,
        url: str,
        model: str,
        vllm: bool = False,
        max_pixels: int | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        thinking: bool | None = None,
    ) -> None:
        self.model, self.vllm, self.max_pixels, self.thinking = model, vllm, max_pixels, thinking
        self.client = ChatClient(url, model, timeout_s=timeout_s, retries=retries)
        self.url = self.client.url
        self.answered = self.refused = 0
        self.refusal = ""
        self.warned = False
        """Whether a response without the text of its tokens was reported."""

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        said = await asyncio.to_thread(with_images, messages, images, self.max_pixels)
        try:
            response = await self.client.complete(said, request_fields(sampling, self.vllm, self.thinking))
        except Unreachable as fault:
            raise ConfigError(f"the model server {self.url} {fault}; start it again, then this command") from None
        except Refused as fault:
            if not self.answered:
                raise ConfigError(
                    f"the model server {self.url} {fault}; make prompts and responses shorter, or raise the server's "
                    "limit (vLLM: --max-model-len)"
                ) from None
            self.refused += 1
            self.refusal = self.refusal or str(fault)
            return Completion((), (), (), 0, "")
        self.answered += 1
        if lost_call(response) and not self.warned:
            self.warned = True
            problem = "tokens of a response came without their text, as from a server that parses tool calls"
            log.warning("the model server %s: %s; %s", self.url, problem, NO_PARSER)
        return completion_of(response, sampling.max_new_tokens)

    @property
    def sampling(self) -> str:
        """Description of the effective sampling settings, for the protocol of an evaluation."""
        return "temperature alone" if self.vllm else "temperature, and the server's own defaults"

    def size_seen(self, width: int, height: int) -> tuple[int, int]:
        """Height and width at which the model sees a screenshot, assuming that the server uses Qwen2.5-VL's image
        processor with its published limits."""
        return qwen_size(*shrunk_size(width, height, self.max_pixels))

    async def close(self) -> None:
        await self.client.close()


def completion_of(response: Any, max_new_tokens: int | None = None) -> Completion:
    """Converts a response. Token ids and log-probabilities are dropped unless both are there and match each other."""
    choice = response.choices[0]
    ids = _ids(getattr(choice, "token_ids", None))
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    logprobs: list[Any] = [getattr(token, "logprob", None) for token in content] if isinstance(content, list) else []
    too_many = max_new_tokens is not None and len(ids) > max_new_tokens
    if too_many or len(ids) != len(logprobs) or not all(type(p) in (int, float) and math.isfinite(p) for p in logprobs):
        ids, logprobs = (), []
    prompt = _ids(getattr(response, "prompt_token_ids", None))
    text = _text(choice)[: most_characters(max_new_tokens)]
    cut_off = getattr(choice, "finish_reason", None) == "length"
    return Completion(prompt, ids, tuple(map(float, logprobs)), 0, text, cut_off)


def lost_call(response: Any) -> bool:
    """Whether a response lacks text that the model wrote, as when the server has a tool parser. No request names
    tools."""
    choice = response.choices[0]
    if getattr(choice.message, "tool_calls", None):
        return True
    text, content = _text(choice), getattr(getattr(choice, "logprobs", None), "content", None)
    tokens = content if isinstance(content, list) else []
    written = "".join(token for token in (getattr(t, "token", "") for t in tokens) if isinstance(token, str))
    if called := written.partition("<tool_call>")[2].strip():
        return called[:MOST_COMPARED] not in text
    metered = getattr(getattr(response, "usage", None), "completion_tokens", 0)
    count = max(len(_ids(getattr(choice, "token_ids", None))), metered if isinstance(metered, int) else 0)
    return count > 1 and not text.strip()  # one token is the end of the response


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list) and all(type(i) is int and i >= 0 for i in value) else ()


def _text(choice: Any) -> str:
    """The response as the model wrote it, with the reasoning that the server split off and the stop string restored.

    A server that took a whole, finished response for reasoning has found no end of a thought in it.
    """
    message = choice.message
    content = getattr(message, "content", None)
    text = content if isinstance(content, str) else ""
    finished = getattr(choice, "finish_reason", None) == "stop"
    thought = getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None)
    if isinstance(thought, str) and "</think>" not in text:
        whole = not text.strip() and finished
        text = thought if whole else f"<think>{thought}</think>{text}"
    stopped = finished and "<answer>" in text and ANSWER_END not in text
    return encodable(text + ANSWER_END if stopped else text)


def connect(
    url: str,
    model: str | None,
    images: int = 0,
    max_pixels: int | None = None,
    timeout_s: float = TIMEOUT_S,
    thinking: bool | None = None,
) -> ServerPolicy:
    """Connects to a server; returns a policy after a test request with `images` images, the most a prompt can have.

    It must not be called in a running event loop. Raises ConfigError if the server does not answer, is not
    OpenAI-compatible, requires a key, does not have the model, or does not accept the request.
    """
    vllm = asyncio.run(_probe(url, model, images, timeout_s))
    if thinking is not None and not vllm:
        raise ConfigError(f"engine.thinking is set, but {url} has no such switch (vLLM's chat_template_kwargs)")
    return ServerPolicy(url, model or "", vllm, max_pixels, timeout_s, thinking=thinking)


async def _probe(url: str, model: str | None, images: int, timeout_s: float) -> bool:
    client = ChatClient(url, model or "", timeout_s=timeout_s, retries=PROBE_RETRIES)
    try:
        await _check_model(client, model)
        vllm, response = await _negotiate(client, images)
        if response.token_ids:
            await _check_template(client)
        return vllm
    finally:
        await client.close()


async def _check_model(client: ChatClient, model: str | None) -> None:
    """Raises ConfigError unless the server lists a model of this name or has no list."""
    try:
        names = await client.models()
    except ConfigError:
        if model is not None:
            raise
        names = []
    listed = ", ".join(map(one_line, (names or [])[:5])) + (" and others" if len(names or []) > 5 else "")
    if model is None:
        raise ConfigError(f"--model-name is missing{f'; {client.url} has {listed}' if listed else ''}")
    if names is not None and model not in names:
        raise ConfigError(f"{client.url} has no model {model!r}; it has {listed or 'none'}")


async def _negotiate(client: ChatClient, images: int) -> tuple[bool, Completion]:
    """Whether the server accepts vLLM's fields, and its answer. Raises ConfigError if it gives none."""
    parts = [{"type": "image"}] * images + [{"type": "text", "text": "Answer with one word."}]
    messages = with_images([{"role": "user", "content": parts}], [blank()] * images)
    said = ""
    for vllm in (True, False):
        fields = request_fields(Sampling(0.0, PROBE_TOKENS), vllm)
        try:
            return vllm, completion_of(await client.complete(messages, fields))
        except Refused as fault:
            said = str(fault)
        except Unreachable as fault:
            raise ConfigError(
                f"{client.url} did not answer a first request: it {fault}; see the server's log, or correct the "
                "address (it usually ends in /v1)"
            ) from None
    prompt = f"a prompt with {images} images" if images else "a prompt"
    fix = "; serve a vision-language model (vLLM: --limit-mm-per-prompt), or set --agent.screenshots" if images else ""
    raise ConfigError(f"{client.url} does not accept {prompt} for the model {client.model!r}: it {said}{fix}")


async def _check_template(client: ChatClient) -> None:
    """Raises ConfigError if vLLM renders a system message as a Python list of parts.

    vLLM passes all messages to the chat template as such lists if the template handles parts in any message, but that
    of GLM-4.1V handles them only in user messages.
    """
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    try:
        body = {"model": client.model, "messages": messages, "return_token_strs": True}
        prompt = "".join((await client.post("tokenize", body))["token_strs"])
    except (*MALFORMED, LookupError, TypeError, TimeoutError):
        return  # the server has no such extension
    if "[{'type'" in prompt:
        raise ConfigError(
            f"{client.url} renders the system prompt of {client.model!r} as a Python list; start vLLM with "
            "--chat-template-content-format string"
        )
