"""A model behind an OpenAI-compatible server (vLLM or any other) as a policy.

`mobilerl.agent.server_check.connect` makes one that has been tried.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI

from mobilerl.agent.defuse import encodable
from mobilerl.agent.pictures import with_images
from mobilerl.agent.policy import Messages
from mobilerl.config import ConfigError
from mobilerl.engines.base import Sampling
from mobilerl.model_servers import api_key, bounded_client, retry_after
from mobilerl.records import Completion

STOP = "</answer>"
"""Nothing a model writes after its answer is read."""
TIMEOUT_S = 300.0
RETRIES = 8
BACKOFF_S = 0.5
"""Wait before the first retry; each further one waits twice as long, and all vary by a half."""
LONGEST_WAIT_S = 60.0
PATIENCE_S = 900.0
"""For one reply, all tries together. Where an episode may take longer, a server that hangs is found out by this."""
LONGEST_QUOTE = 200


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server accepts. The default is the plain protocol, which every server understands."""

    limit_as: str = "max_tokens"
    """Under which name the limit of tokens is sent; newer models of OpenAI take only max_completion_tokens."""
    logprobs: bool = False
    token_ids: bool = False
    """It takes vLLM's fields: those that ask for token ids, and those that switch off the top-k, top-p and repetition
    penalty which vLLM otherwise reads from the model's generation_config.json."""

    def fields(self, sampling: Sampling) -> dict[str, Any]:
        """The request without model and messages."""
        fields = {self.limit_as: sampling.max_new_tokens, "temperature": sampling.temperature, "stop": [STOP]}
        if self.logprobs:
            fields["logprobs"] = True
        if self.token_ids:
            fields["top_p"] = 1.0
            fields["extra_body"] = {"return_token_ids": True, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
        return fields

    def describe(self) -> str:
        """What of the score it decides, for a protocol."""
        return "temperature alone" if self.token_ids else "temperature, and the server's own defaults"


class ServerPolicy:
    """Chat completions with screenshots as data URLs. Token ids and log-probabilities are kept where the server (vLLM)
    gives both; from any other server a completion holds the text only, which is enough to evaluate and to propose.

    vLLM's log-probabilities are those before the temperature, and so the rollout's only at temperature 1.

    A 408, 409, 425, 429 or 5xx, a broken connection and a missed time limit are tried again, with growing waits; when
    that does not help, `act` raises ConfigError. A prompt that the server will not take (too long, say) is a reply
    without words: `refused` counts them, and `refusal` is what the server said to the first. Before it has taken any,
    a refusal is a ConfigError: nothing would ever be answered.

    The API key is read from OPENAI_API_KEY; servers without keys take any.
    """

    def __init__(self, url: str, model: str, dialect: Dialect | None = None, max_pixels: int | None = None,
                 timeout_s: float = TIMEOUT_S, retries: int = RETRIES) -> None:  # fmt: skip
        self.url, self.model, self.dialect = url, model, dialect or Dialect()
        self.max_pixels, self.timeout_s, self.retries = max_pixels, timeout_s, retries
        self.answered = self.refused = 0
        self.refusal = ""
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        request = self.dialect.fields(sampling) | {
            "model": self.model,
            "messages": await asyncio.to_thread(with_images, messages, images, self.max_pixels),
        }
        began = time.monotonic()
        for tried in range(1, self.retries + 2):
            try:
                return await self._once(request)
            except Transient as fault:
                if tried > self.retries or time.monotonic() - began >= PATIENCE_S:
                    raise ConfigError(f"the model server {self.url} failed: it {fault} (tries: {tried}); start again "
                                      "when it is back") from None  # fmt: skip
                await asyncio.sleep(fault.wait_s or backoff(tried))
        raise AssertionError("unreachable")

    async def _once(self, request: dict[str, Any]) -> Completion:
        try:
            async with asyncio.timeout(self.timeout_s):
                completion = completion_of(await self._here().chat.completions.create(**request))
        except TimeoutError:
            raise Transient(f"gave no answer within {self.timeout_s:g} s") from None
        except APIStatusError as error:
            return self._refused(error)
        except APIConnectionError as error:
            raise Transient(f"cannot be reached: {one_line(error.__cause__ or error)}") from None
        except (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Transient(f"sent something that is not a chat completion: {one_line(error)}") from None
        self.answered += 1
        return completion

    def _refused(self, error: APIStatusError) -> Completion:
        """What a status other than 200 comes to."""
        code, said = error.status_code, f"answered {error.status_code}: {said_by(error)}"
        if code in (408, 409, 425, 429) or code >= 500:
            asked_s = retry_after(error.response.headers)
            raise Transient(said, None if asked_s is None else min(asked_s, LONGEST_WAIT_S)) from None
        if code not in (400, 413, 422):  # the key or the model has gone
            raise ConfigError(f"the model server {self.url} {said}") from None
        if not self.answered:
            raise ConfigError(f"the model server {self.url} {said}; make prompts and replies shorter, or what it "
                              "allows longer (vLLM: --max-model-len)") from None  # fmt: skip
        self.refused += 1
        self.refusal = self.refusal or said
        return Completion((), (), (), 0, "")

    def _here(self) -> AsyncOpenAI:
        """The client of the running event loop: connections of a loop that is closed cannot be used in another."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # Retries and time limits are ours: the library's limit is one for each read, which a server that sends a
            # byte a minute never reaches.
            self._client = AsyncOpenAI(
                base_url=self.url, api_key=api_key(), timeout=None, max_retries=0, http_client=bounded_client()
            )
            self._loop = loop
        return self._client

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.close()
            self._client = None


def backoff(tried: int) -> float:
    """Seconds to wait after so many tries."""
    return min(BACKOFF_S * 2 ** (tried - 1), LONGEST_WAIT_S) * random.uniform(0.5, 1.0)


def completion_of(reply: Any) -> Completion:
    """The library checks nothing: whatever a server answers with status 200 gets this far."""
    choices = getattr(reply, "choices", None)
    message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
    if message is None:
        raise Transient(f"sent something that is not a chat completion: {one_line(reply)}")
    choice = choices[0]
    ids = _ids(getattr(choice, "token_ids", None))
    content = getattr(getattr(choice, "logprobs", None), "content", None)
    logprobs = [getattr(token, "logprob", None) for token in content] if isinstance(content, list) else []
    if len(ids) != len(logprobs) or not all(type(p) in (int, float) and math.isfinite(p) for p in logprobs):
        ids, logprobs = (), []
    prompt = _ids(getattr(reply, "prompt_token_ids", None))
    return Completion(prompt, ids, tuple(map(float, logprobs)), 0, _text(choice))


def _ids(said: Any) -> tuple[int, ...]:
    """Token ids; none where the server says something else."""
    return tuple(said) if isinstance(said, list) and all(type(i) is int and i >= 0 for i in said) else ()


def _text(choice: Any) -> str:
    """The reply as the model wrote it: with the thought that a server took out, and the stop string it ended with.

    The next prompts tell it again, so it must be text that can be sent.
    """
    message = choice.message
    content = getattr(message, "content", None)
    text = content if isinstance(content, str) else ""
    thought = getattr(message, "reasoning", None) or getattr(message, "reasoning_content", None)
    if isinstance(thought, str) and "</think>" not in text:
        text = f"<think>{thought}</think>{text}"
    stopped = getattr(choice, "finish_reason", None) == "stop" and "<answer>" in text and STOP not in text
    return encodable(text + STOP if stopped else text)


class Transient(Exception):
    """Worth another try, after `wait_s` seconds if the server named a time."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def said_by(error: APIStatusError) -> str:
    message = error.body.get("message") if isinstance(error.body, dict) else None
    return one_line(message or error.message)


def one_line(said: object) -> str:
    text = " ".join(encodable(str(said)).split()) or type(said).__name__
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
