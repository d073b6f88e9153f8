"""Chat completions from an OpenAI-compatible endpoint: retried, paced, timed and counted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI

from mobilerl.agent.defuse import encodable
from mobilerl.config import ConfigError, JudgeSection
from mobilerl.judge.pace import Pace
from mobilerl.model_servers import api_key, bounded_client, retry_after

BACKOFF_S = 1.0
"""Wait before the first retry; each further one waits twice as long, and all vary by a half."""
LONGEST_WAIT_S = 60.0
"""A server that asks for a longer wait than this counts as gone."""
LONGEST_QUOTE = 200

_CURES = {
    401: "set the environment variable {key} to a key the server takes",
    402: "the account has nothing left to pay with",
    403: "set the environment variable {key} to a key that may use this model",
    404: "correct judge.model ({url}/models lists those there are) or judge.url (it mostly ends in /v1)",
}


class Unreachable(Exception):
    """The endpoint did not answer, however often it was asked. Says nothing about the question."""


class Refused(Exception):
    """The endpoint will not answer this very question: too long, a picture it cannot read, filtered content."""


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    cut_off: bool
    """The reply was longer than the limit."""


@dataclass(slots=True)
class Usage:
    """What was asked and paid for. All only grow."""

    requests: int = 0
    """Sent, retries included."""
    retries: int = 0
    replies: int = 0
    unmetered: int = 0
    """Replies that came without a token count: with any of them, tokens and money are too low."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def count(self, said: Any) -> None:
        """Adds one reply, with what the server said of its tokens."""
        self.replies += 1
        tokens = [getattr(said, name, None) for name in ("prompt_tokens", "completion_tokens")]
        if not all(isinstance(n, int) and n >= 0 for n in tokens):
            self.unmetered += 1
            return
        self.prompt_tokens += tokens[0]
        self.completion_tokens += tokens[1]


class ChatClient:
    """One endpoint and model. It belongs to the event loop in which it is first used."""

    def __init__(self, settings: JudgeSection) -> None:
        self.settings = settings
        self.usage = Usage()
        self.sampling: dict[str, Any] = {settings.limit_as: settings.max_tokens}
        if settings.temperature is not None:
            self.sampling["temperature"] = settings.temperature
        self._pace = Pace(settings.requests_per_minute)
        self._slots = asyncio.Semaphore(settings.concurrency)
        # Retries and time limits are ours: the library's retries would not wait for their turn, and its time limit is
        # one for each read, which a server that sends a byte a minute never reaches.
        self._client = AsyncOpenAI(
            base_url=settings.url, api_key=api_key(settings.api_key_env), timeout=None, max_retries=0,
            http_client=bounded_client(),
        )  # fmt: skip

    async def close(self) -> None:
        await self._client.close()

    @property
    def money(self) -> float:
        s, used = self.settings, self.usage
        return (used.prompt_tokens * s.prompt_price + used.completion_tokens * s.completion_price) / 1e6

    async def ask(self, messages: Sequence[Any], retries: int | None = None) -> Reply:
        """Raises Unreachable or Refused, and ConfigError for a wrong key, model or address, whenever it turns out."""
        retries = self.settings.retries if retries is None else retries
        tries = 0
        while True:
            try:
                return await self._once(messages)
            except _Transient as fault:
                tries += 1
                if tries > retries:
                    raise Unreachable(f"{fault} (tries: {tries})") from None
                await self._wait(fault, tries)
                self.usage.retries += 1

    async def _wait(self, fault: _Transient, tries: int) -> None:
        if not fault.retry_after:
            await asyncio.sleep(min(BACKOFF_S * 2 ** (tries - 1), LONGEST_WAIT_S) * random.uniform(0.5, 1.0))
        elif fault.retry_after > LONGEST_WAIT_S:
            raise Unreachable(f"{fault}, and asks for a wait of {fault.retry_after:.0f} s") from None
        else:
            self._pace.hold(fault.retry_after)

    async def _once(self, messages: Sequence[Any]) -> Reply:
        async with self._slots:
            await self._pace.turn()
            self.usage.requests += 1
            try:
                async with asyncio.timeout(self.settings.timeout_s):
                    completion = await self._client.chat.completions.create(
                        model=self.settings.model, messages=list(messages), **self.sampling
                    )
            except TimeoutError:
                raise _Transient(f"gave no answer within {self.settings.timeout_s:g} s") from None
            except APIStatusError as error:
                raise self._explained(error) from None
            except APIConnectionError as error:
                raise _Transient(f"cannot be reached: {_line(error.__cause__ or error)}") from None
            except (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
                raise _Transient(f"sent something that is not a chat completion: {_line(error)}") from None
        return self._read(completion)

    def _read(self, completion: Any) -> Reply:
        """The library checks nothing: whatever a server answers with status 200 gets this far."""
        choices = getattr(completion, "choices", None)
        message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
        if message is None:
            raise _Transient(f"sent something that is not a chat completion: {_line(completion)}")
        self.usage.count(getattr(completion, "usage", None))
        content = getattr(message, "content", None)
        text = encodable(content) if isinstance(content, str) else ""
        return Reply(text, getattr(choices[0], "finish_reason", "") == "length")

    def _explained(self, error: APIStatusError) -> Exception:
        """What a status means for the one who asked."""
        code, said, s = error.status_code, f"answered {error.status_code}: {_said(error)}", self.settings
        if error.code == "insufficient_quota":
            code = 402  # OpenAI sends 429, but waiting does not help
        if code in _CURES:
            cure = _CURES[code].format(key=s.api_key_env, url=s.url.rstrip("/"))
            return ConfigError(f"the judge {s.model!r} at {s.url} {said}; {cure}")
        if code in (408, 409, 425, 429) or code >= 500:
            return _Transient(said, retry_after(error.response.headers))
        return Refused(said)


class _Transient(Exception):
    """Worth another try, after `retry_after` seconds if the server named a time."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def _said(error: APIStatusError) -> str:
    message = error.body.get("message") if isinstance(error.body, dict) else None
    return _line(message or error.message)


def _line(said: object) -> str:
    text = " ".join(encodable(str(said)).split()) or type(said).__name__
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
