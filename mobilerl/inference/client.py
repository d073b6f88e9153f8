"""Client of OpenAI-compatible chat endpoints: that of the openai library with bounded answers and usage counts."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

import httpx
from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient, NotFoundError

from mobilerl.config import ConfigError
from mobilerl.policy.sanitize import encodable
from mobilerl.system.networks import client_options, way_to
from mobilerl.system.redaction import without_users

MAX_ANSWER = 32 << 20
"""Maximum size of an answer in bytes. The longest response with its log-probabilities has a few MB."""
CHARACTERS = 64
"""Maximum characters per token; longer responses are truncated before they are parsed and stored."""
PATIENCE = 3
"""Time limit of a response including retries, as a multiple of that of one attempt."""
MODELS_TIMEOUT_S = 30.0
MAX_QUOTE = 200
TRANSIENT = (408, 409, 429)
"""HTTP statuses besides 5xx that the library retries."""
REFUSED = (400, 413, 415, 422, 451)
MALFORMED = (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions of the openai library for a malformed answer."""

API_KEY = "OPENAI_API_KEY"
_FIXES = {
    401: f"set the environment variable {API_KEY} to a key the server accepts",
    402: "the account has no credit left",
    403: f"set the environment variable {API_KEY} to a key that may use this model",
    404: "correct the model's name (see {url}/models) or the address (it usually ends in /v1)",
}


class Unreachable(Exception):
    """The endpoint did not answer despite all retries; the request may be fine."""


class Refused(Exception):
    """The endpoint rejected the request: too long, an unreadable image, or filtered content."""


@dataclass(frozen=True, slots=True)
class Response:
    text: str
    cut_off: bool
    """Whether the response hit the token limit."""


@dataclass(slots=True)
class Usage:
    """Counters of requests and tokens."""

    requests: int = 0
    """Requests sent, including retries except those of failed requests, which are unknown."""
    retries: int = 0
    responses: int = 0
    unmetered: int = 0
    """Responses without token counts; if there are any, the token totals are too low."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def count(self, usage: Any) -> None:
        """Adds one response with the token counts reported by the server."""
        self.responses += 1
        tokens: list[Any] = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        if not all(isinstance(n, int) and n >= 0 for n in tokens):
            self.unmetered += 1
            return
        self.prompt_tokens += tokens[0]
        self.completion_tokens += tokens[1]


class ChatClient:
    """Client of one model at an endpoint. It may be used by several event loops, one after another.

    The library retries timeouts, broken connections, statuses 408, 409, 429 and 5xx, and answers that are not JSON,
    with exponential backoff or after the server's `Retry-After`.
    """

    def __init__(
        self,
        url: str,
        model: str,
        fields: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 300.0,
        retries: int = 8,
        concurrency: int = 1024,
    ) -> None:
        """`fields` are sent with every request. `timeout_s` limits each attempt, PATIENCE times that a whole
        response."""
        self._address, self.model, self.fields = url.rstrip("/"), model, dict(fields or {})
        self.url = without_users(self._address)
        """The address without credentials, for messages and results."""
        self.timeout_s, self.retries = timeout_s, retries
        self.usage = Usage()
        self._api_key = api_key()
        self._concurrency = concurrency
        self._limit = "max_tokens"
        """Name of the field for the token limit; OpenAI's newer models accept only max_completion_tokens."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        if self._loop is asyncio.get_running_loop():
            await self._client.close()
            self._loop = None

    def _here(self) -> AsyncOpenAI:
        """Client of the running event loop, since connections of a closed loop cannot be used in another.

        Raises ConfigError for a proxy or certificates in the environment that cannot be used.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._client = AsyncOpenAI(
                base_url=self._address,
                api_key=self._api_key,
                timeout=self.timeout_s,
                max_retries=self.retries,
                http_client=bounded_client(self._address),
            )
            self._loop, self._slots = loop, asyncio.Semaphore(self._concurrency)
        return self._client

    async def ask(self, messages: Sequence[Any], retries: int | None = None) -> Response:
        """Requests a response and returns its text. Raises the same errors as `complete`."""
        choice = (await self.complete(messages, retries=retries)).choices[0]
        content = getattr(choice.message, "content", None)
        limit = most_characters(self.fields.get("max_tokens"))
        text = encodable(content[:limit]) if isinstance(content, str) else ""
        return Response(text, getattr(choice, "finish_reason", "") == "length")

    async def complete(
        self, messages: Sequence[Any], fields: Mapping[str, Any] | None = None, retries: int | None = None
    ) -> Any:
        """Requests a chat completion. Only `choices[0].message` has been checked, since the library validates nothing.

        Raises Unreachable, Refused, or ConfigError for a wrong key, model, address or proxy.
        """
        try:
            return await self._complete(messages, fields or {}, self.retries if retries is None else retries)
        except Refused as fault:
            if "max_completion_tokens" not in str(fault) or self._limit == "max_completion_tokens":
                raise
            self._limit = "max_completion_tokens"
        return await self.complete(messages, fields, retries)

    async def _complete(self, messages: Sequence[Any], fields: Mapping[str, Any], retries: int) -> Any:
        client = self._here().with_options(max_retries=retries)
        request = {"model": self.model, "messages": list(messages), **self.fields, **fields}
        if "max_tokens" in request:
            request[self._limit] = request.pop("max_tokens")
        async with self._slots:
            self.usage.requests += 1
            try:
                async with asyncio.timeout(PATIENCE * self.timeout_s):  # the library only limits each read
                    answer = await client.chat.completions.with_raw_response.create(**request)
                completion = answer.parse()
            except TimeoutError:
                raise Unreachable(f"gave no answer within {PATIENCE * self.timeout_s:g} s") from None
            except APIStatusError as error:
                raise self._explain(error) from None
            except APIConnectionError as error:
                raise Unreachable(f"cannot be reached{way_to(self._address)}: {_reason(error)}") from None
            except MALFORMED as error:
                raise Unreachable(f"sent something that is not a chat completion: {one_line(error)}") from None
        self.usage.requests += answer.retries_taken
        self.usage.retries += answer.retries_taken
        choices = getattr(completion, "choices", None)
        if not (isinstance(choices, list) and choices and getattr(choices[0], "message", None)):
            raise Unreachable(f"sent something that is not a chat completion: {one_line(completion)}")
        self.usage.count(getattr(completion, "usage", None))
        return completion

    def _explain(self, error: APIStatusError) -> Exception:
        code = error.status_code
        message = error.body.get("message") if isinstance(error.body, dict) else None
        said = f"answered {code}{way_to(self._address)}: {one_line(message or error.message)}"
        if error.code == "insufficient_quota":
            code = 402  # OpenAI sends 429
        if code in TRANSIENT or code >= 500:
            return Unreachable(said)
        if code in REFUSED:
            return Refused(said)
        fix = _FIXES.get(code, "correct the address").format(url=self.url)
        return ConfigError(f"the model {self.model!r} at {self.url} {said}; {fix}")

    async def models(self) -> list[str] | None:
        """Names of the server's models; None if it does not list them. Raises ConfigError if it cannot be used."""
        try:
            async with asyncio.timeout(MODELS_TIMEOUT_S):
                page = await self._here().with_options(max_retries=0).models.list()
            return [str(entry.id) for entry in page.data]
        except NotFoundError:
            return None
        except APIStatusError as error:
            problem = self._explain(error)
            if isinstance(problem, ConfigError):
                raise problem from None
            raise ConfigError(f"the model server {self.url} cannot be used: it {problem}") from None
        except (APIConnectionError, TimeoutError) as error:
            late = isinstance(error, TimeoutError)
            reason = f"no answer within {MODELS_TIMEOUT_S:g} s" if late else _reason(error)
            way = way_to(self._address)
            fix = "start the model server, or correct the address" + (", the proxy or NO_PROXY" if way else "")
            raise ConfigError(f"{self.url} cannot be reached{way} ({reason}); {fix}") from None
        except (*MALFORMED, AttributeError, TypeError):
            raise ConfigError(f"{self.url} is no OpenAI-compatible server; the address usually ends in /v1") from None

    async def post(self, path: str, body: Any) -> Any:
        """Sends a POST to a path next to /v1, for extensions such as vLLM's /tokenize. Raises the library's errors."""
        client = self._here().with_options(max_retries=0)
        async with asyncio.timeout(MODELS_TIMEOUT_S):
            return await client.post(f"{self._address.removesuffix('/v1')}/{path}", cast_to=object, body=body)


def most_characters(tokens: int | None) -> int | None:
    """Maximum characters to keep of a response with at most `tokens` tokens; None for no limit."""
    return None if tokens is None else tokens * CHARACTERS


def api_key() -> str:
    """The API key in the environment; "none" if it is unset, since servers without keys accept any.

    Raises ConfigError for a key that is not valid in a header, since the HTTP library's error would show the key.
    """
    key = os.environ.get(API_KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{API_KEY} contains characters that no API key has, such as a line break: set it again")
    return key or "none"


def bounded_client(url: str) -> DefaultAsyncHttpxClient:
    """HTTP client for the server at `url`. Answers above MAX_ANSWER and 200s that are not JSON are broken connections.

    The openai library then retries them, which helps if a proxy shows a maintenance page for a while. Raises
    ConfigError for a proxy or certificates in the environment that cannot be used.
    """
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [_ask_unpacked], "response": [_read_bounded]}
    return DefaultAsyncHttpxClient(event_hooks=hooks, **client_options(url))


async def _ask_unpacked(request: httpx.Request) -> None:
    """Requests answers without compression, each layer of which could expand them by a factor of a thousand."""
    request.headers["Accept-Encoding"] = "identity"


async def _read_bounded(response: httpx.Response) -> None:
    if packing := response.headers.get("Content-Encoding", "").replace("identity", ""):
        said = f"an answer in the encoding {one_line(packing)}, which was not asked for"
        raise httpx.ReadError(said, request=response.request)
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > MAX_ANSWER:
            raise httpx.ReadError(f"an answer of more than {MAX_ANSWER >> 20} MB", request=response.request)
    response._content = bytes(body)  # where httpx keeps the body
    if response.status_code == 200 and response.request.method == "POST":
        try:
            json.loads(body)
        except (ValueError, RecursionError):
            said = one_line(body[: 2 * MAX_QUOTE].decode(errors="replace"))
            raise httpx.ReadError(f"not a chat completion but {said}", request=response.request) from None


def _reason(error: Exception) -> str:
    said = one_line(error.__cause__ or error)
    own = "; name the file with its CA's certificate in SSL_CERT_FILE" if "CERTIFICATE_VERIFY_FAILED" in said else ""
    return said + own


def one_line(message: object) -> str:
    text = without_users(" ".join(encodable(str(message)).split())) or type(message).__name__
    return text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + "..."
