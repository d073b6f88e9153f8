"""The client of OpenAI-compatible chat endpoints: retries, deadlines, rate limits, bounded answers, usage counts."""

from __future__ import annotations

import asyncio
import email.utils
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

import httpx
from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient, NotFoundError

from mobilerl.config import ConfigError
from mobilerl.policy.sanitize import encodable

MAX_ANSWER = 32 << 20
"""Bytes of a decompressed answer. The longest reply with its log-probabilities has a few MB."""
BACKOFF_S = 0.5
"""Wait before the first retry; doubled for each further retry, with jitter."""
MAX_WAIT_S = 60.0
"""Longest wait between retries, also when the server asks for a longer one."""
MODELS_TIMEOUT_S = 30.0
MAX_QUOTE = 200
TRANSIENT = (408, 409, 425, 429)
"""Statuses worth a retry, besides 5xx."""
REFUSED = (400, 413, 415, 422, 451)
MALFORMED = (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError)
"""Raised by the openai library for an answer that is not what was asked for."""

_FIXES = {
    401: "set the environment variable {key} to a key the server accepts",
    402: "the account has no credit left",
    403: "set the environment variable {key} to a key that may use this model",
    404: "correct the model's name (see {url}/models) or the address (it usually ends in /v1)",
}


class Unreachable(Exception):
    """The endpoint did not answer in spite of all retries. Says nothing about the request."""


class Refused(Exception):
    """The endpoint will not answer this request: too long, an image it cannot read, filtered content."""


class _Transient(Exception):
    """Worth a retry, after `wait_s` seconds if the server named a time."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    cut_off: bool
    """Whether the reply hit the token limit."""


@dataclass(slots=True)
class Usage:
    """Counters of requests and tokens."""

    requests: int = 0
    """Requests sent, retries included."""
    retries: int = 0
    replies: int = 0
    unmetered: int = 0
    """Replies without a token count: with any of them, tokens and cost are too low."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def count(self, usage: Any) -> None:
        """Adds one reply with the token counts that the server reported."""
        self.replies += 1
        tokens = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        if not all(isinstance(n, int) and n >= 0 for n in tokens):
            self.unmetered += 1
            return
        self.prompt_tokens += tokens[0]
        self.completion_tokens += tokens[1]


class ChatClient:
    """One endpoint and model. May be used by one event loop after another.

    A missed time limit, a broken connection, a 408, 409, 425, 429 or 5xx, and an answer that is no chat completion are
    retried with growing waits.
    """

    def __init__(
        self,
        url: str,
        model: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 300.0,
        retries: int = 8,
        patience_s: float = math.inf,
        api_key_env: str = "OPENAI_API_KEY",
        requests_per_minute: float | None = None,
        concurrency: int = 1024,
    ) -> None:
        """`fields` are sent with every request. `timeout_s` is for each attempt; no retry begins after `patience_s`."""
        self.url, self.model, self.fields = url.rstrip("/"), model, dict(fields or {})
        self.timeout_s, self.retries, self.patience_s = timeout_s, retries, patience_s
        self.api_key_env = api_key_env
        self.usage = Usage()
        self._api_key = api_key(api_key_env)
        self._interval_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._concurrency = concurrency
        self._next = 0.0
        """When the next request may be sent (monotonic clock)."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        if self._loop is asyncio.get_running_loop():
            await self._client.close()
            self._loop = None

    def _here(self) -> AsyncOpenAI:
        """The connections of the running event loop: those of a closed loop cannot be used in another."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._slots, self._turn = asyncio.Semaphore(self._concurrency), asyncio.Lock()
            # The library's time limit is for each read, which a server that sends a byte a minute never reaches.
            self._client = AsyncOpenAI(
                base_url=self.url, api_key=self._api_key, timeout=None, max_retries=0, http_client=bounded_client()
            )
        return self._client

    async def ask(self, messages: Sequence[Any], retries: int | None = None) -> Reply:
        """The text of a reply. Raises as `complete` does."""
        choice = (await self.complete(messages, retries=retries)).choices[0]
        content = getattr(choice.message, "content", None)
        text = encodable(content) if isinstance(content, str) else ""
        return Reply(text, getattr(choice, "finish_reason", "") == "length")

    async def complete(
        self, messages: Sequence[Any], fields: Mapping[str, Any] | None = None, retries: int | None = None
    ) -> Any:
        """A chat completion, of which only `choices[0].message` has been checked: the library validates nothing.

        Raises Unreachable or Refused, and ConfigError for a wrong key, model or address.
        """
        retries = self.retries if retries is None else retries
        request = {"model": self.model, "messages": list(messages), **self.fields, **(fields or {})}
        began, tries = time.monotonic(), 0
        while True:
            try:
                return await self._attempt(request)
            except _Transient as fault:
                tries += 1
                if tries > retries or time.monotonic() - began >= self.patience_s:
                    raise Unreachable(f"{fault} (tries: {tries})") from None
                if fault.wait_s:  # a rate limit concerns every request
                    self._next = max(self._next, time.monotonic() + min(fault.wait_s, MAX_WAIT_S))
                else:
                    await asyncio.sleep(min(BACKOFF_S * 2 ** (tries - 1), MAX_WAIT_S) * random.uniform(0.5, 1.0))
                self.usage.retries += 1

    async def _attempt(self, request: Mapping[str, Any]) -> Any:
        client = self._here()
        async with self._slots:
            async with self._turn:
                while (wait := self._next - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                self._next = time.monotonic() + self._interval_s
            self.usage.requests += 1
            try:
                async with asyncio.timeout(self.timeout_s):
                    completion = await client.chat.completions.create(**request)
            except TimeoutError:
                raise _Transient(f"gave no answer within {self.timeout_s:g} s") from None
            except APIStatusError as error:
                raise self._explained(error) from None
            except APIConnectionError as error:
                raise _Transient(f"cannot be reached: {one_line(error.__cause__ or error)}") from None
            except MALFORMED as error:
                raise _Transient(f"sent something that is not a chat completion: {one_line(error)}") from None
        choices = getattr(completion, "choices", None)
        if not (isinstance(choices, list) and choices and getattr(choices[0], "message", None)):
            raise _Transient(f"sent something that is not a chat completion: {one_line(completion)}")
        self.usage.count(getattr(completion, "usage", None))
        return completion

    def _explained(self, error: APIStatusError) -> Exception:
        code = error.status_code
        message = error.body.get("message") if isinstance(error.body, dict) else None
        said = f"answered {code}: {one_line(message or error.message)}"
        if error.code == "insufficient_quota":
            code = 402  # OpenAI sends 429, but waiting does not help
        if code in TRANSIENT or code >= 500:
            return _Transient(said, retry_after(error.response.headers))
        if code in REFUSED:
            return Refused(said)
        fix = _FIXES.get(code, "correct the address").format(key=self.api_key_env, url=self.url)
        return ConfigError(f"the model {self.model!r} at {self.url} {said}; {fix}")

    async def models(self) -> list[str] | None:
        """Names of the models the server lists; None when it has no list. Raises ConfigError."""
        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                page = await self._here().models.list()
            return [str(entry.id) for entry in page.data]
        except NotFoundError:
            return None
        except APIStatusError as error:
            problem = self._explained(error)
            if isinstance(problem, ConfigError):
                raise problem from None
            raise ConfigError(f"the model server {self.url} cannot be used: it {problem}") from None
        except (APIConnectionError, TimeoutError) as error:
            late = isinstance(error, TimeoutError)
            reason = f"no answer within {MODELS_TIMEOUT_S:g} s" if late else one_line(error.__cause__ or error)
            raise ConfigError(
                f"{self.url} cannot be reached ({reason}); start the model server, or correct the address"
            ) from None
        except (*MALFORMED, AttributeError, TypeError):
            raise ConfigError(f"{self.url} is no OpenAI-compatible server; the address usually ends in /v1") from None

    async def post(self, path: str, body: Any) -> Any:
        """A POST to a path beside /v1, for extensions such as vLLM's /tokenize. Raises what the library raises."""
        async with asyncio.timeout(MODELS_TIMEOUT_S):
            return await self._here().post(f"{self.url.removesuffix('/v1')}/{path}", cast_to=object, body=body)


def api_key(variable: str = "OPENAI_API_KEY") -> str:
    """The key in an environment variable; "none" if it is unset, since servers without keys accept any.

    Raises ConfigError for a key that no header can carry: the HTTP library would repeat the key in its message.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{variable} contains characters that no API key has, such as a line break: set it again")
    return key or "none"


def bounded_client() -> httpx.AsyncClient:
    """The openai library's HTTP client, with a limit: an answer over MAX_ANSWER counts as a broken connection."""
    return DefaultAsyncHttpxClient(event_hooks={"response": [_read_bounded]})


async def _read_bounded(response: httpx.Response) -> None:
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_ANSWER:
            raise httpx.ReadError(f"an answer of more than {MAX_ANSWER >> 20} MB", request=response.request)
    response._content = bytes(body)  # where httpx keeps what it has read


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait according to a reply's headers (a number or a date); None when they do not say."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def one_line(message: object) -> str:
    text = " ".join(encodable(str(message)).split()) or type(message).__name__
    return text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + "..."
