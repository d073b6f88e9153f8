"""Finds out, once and at the start, whether a model server can be used and what it accepts.

Everything that is wrong is then one line, before an episode is played: nobody answers, what answers is no such server,
it wants a key, has no such model, or does not take as many pictures as the prompts will have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from json import JSONDecodeError
from typing import Any, TypeVar

from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    AsyncOpenAI,
    BadRequestError,
    NotFoundError,
    UnprocessableEntityError,
)

from mobilerl.agent.pictures import blank, with_images
from mobilerl.agent.server import (
    TIMEOUT_S,
    Dialect,
    ServerPolicy,
    Transient,
    completion_of,
    one_line,
    said_by,
)
from mobilerl.config import ConfigError
from mobilerl.engines.base import Sampling
from mobilerl.model_servers import api_key, bounded_client
from mobilerl.records import Completion

T = TypeVar("T")
MODELS_TIMEOUT_S = 30.0
RETRIES = 2
PROBE_TOKENS = 16
CURE = "the address usually ends in /v1"
DIALECTS = tuple(
    Dialect(limit, logprobs, token_ids)
    for limit in ("max_tokens", "max_completion_tokens")
    for logprobs, token_ids in ((True, True), (True, False), (False, False))
)
"""In the order in which they are tried."""


def connect(url: str, model: str | None, images: int = 0, max_pixels: int | None = None,
            timeout_s: float = TIMEOUT_S) -> ServerPolicy:  # fmt: skip
    """A policy that has been tried: one small request with as many pictures as a prompt has at most.

    `timeout_s` is for each request with all its tries and its whole answer, here and later. Not to be called in a
    running event loop. Raises ConfigError when nothing answers, what answers is no such server, it wants a key, has no
    such model, or does not take the request.
    """
    dialect = asyncio.run(_tried(url, model, images, timeout_s))
    assert model is not None
    return ServerPolicy(url, model, dialect, max_pixels, timeout_s)


async def _tried(url: str, model: str | None, images: int, timeout_s: float) -> Dialect:
    # The time limits are ours: the library's is one for each read, which a server that sends a byte a minute never
    # reaches.
    async with AsyncOpenAI(base_url=url, api_key=api_key(), timeout=None, max_retries=RETRIES,
                           http_client=bounded_client()) as client:  # fmt: skip
        await check_model(client, url, model)
        assert model is not None
        dialect, reply = await negotiate(client, url, model, images, timeout_s)
        if reply.token_ids:  # it is vLLM
            await check_template(client, url, model)
    return dialect


async def _within(seconds: float, answer: Awaitable[T]) -> T:
    """The answer. Raises TimeoutError, which says how long it was waited for."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise TimeoutError(f"no answer within {seconds:g} s") from None


async def check_model(client: AsyncOpenAI, url: str, model: str | None) -> None:
    """Raises ConfigError unless the server has a model of this name, or tells nobody which it has."""
    try:
        names = await _names(client, url)
    except ConfigError:
        if model is not None:
            raise
        names = []
    if model is None:
        there = f"; {url} has {_listed(names)}" if names else ": the name under which the server has the model"
        raise ConfigError(f"--model-name is missing{there}")
    if names is not None and model not in names:
        raise ConfigError(f"{url} has no model {model!r}; it has {_listed(names)}")


async def _names(client: AsyncOpenAI, url: str) -> list[str] | None:
    """The models a server lists; None when it has no list."""
    try:
        page = await _within(MODELS_TIMEOUT_S, client.models.list())
        return [str(entry.id) for entry in page.data]
    except NotFoundError:
        return None  # whether it is a model server at all shows at the first request
    except APIStatusError as error:
        raise _explained(error, url) from None
    except (APIConnectionError, TimeoutError) as error:
        raise ConfigError(f"{url} cannot be reached ({one_line(error.__cause__ or error)}); start the model server, or "
                          "correct the address") from None  # fmt: skip
    except (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError, AttributeError, TypeError):
        raise ConfigError(f"{url} is no OpenAI-compatible server: its list of models is none; {CURE}") from None


async def negotiate(client: AsyncOpenAI, url: str, model: str, images: int,
                    timeout_s: float = TIMEOUT_S) -> tuple[Dialect, Completion]:  # fmt: skip
    """The richest dialect in which the server answers, and the answer. Raises ConfigError when it answers in none."""
    parts = [{"type": "image"}] * images + [{"type": "text", "text": "Answer with one word."}]
    messages = with_images([{"role": "user", "content": parts}], [blank()] * images)
    said = ""
    for dialect in DIALECTS:
        fields = dialect.fields(Sampling(0.0, PROBE_TOKENS))
        try:
            asked = client.chat.completions.create(model=model, messages=messages, **fields)
            return dialect, completion_of(await _within(timeout_s, asked))
        except (BadRequestError, UnprocessableEntityError) as error:
            said = said_by(error)
        except APIStatusError as error:
            raise _explained(error, url) from None
        except (APIConnectionError, TimeoutError) as error:
            reason = one_line(error.__cause__ or error)
            raise ConfigError(f"{url} gave no answer to a first request ({reason}); see the server's log") from None
        except (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError, Transient) as error:
            raise ConfigError(f"{url} is no OpenAI-compatible server: it {one_line(error)}; {CURE}") from None
    prompt = f"a prompt with {images} pictures" if images else "a prompt"
    cure = "; serve a vision-language model (vLLM: --limit-mm-per-prompt), or set --agent.screenshots" if images else ""
    raise ConfigError(f"{url} does not take {prompt} for the model {model!r}: {said}{cure}")


async def check_template(client: AsyncOpenAI, url: str, model: str) -> None:
    """Raises ConfigError when vLLM prints a system message as a list of parts, the way Python writes one.

    vLLM hands every message to the model's template as such a list as soon as the template looks into one message's
    parts; GLM-4.1V's looks into those of users alone.
    """
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    body = {"model": model, "messages": messages, "return_token_strs": True}
    try:
        path = f"{url.rstrip('/').removesuffix('/v1')}/tokenize"
        said: Any = await _within(MODELS_TIMEOUT_S, client.post(path, cast_to=object, body=body))
        prompt = "".join(said["token_strs"])
    except (APIError, JSONDecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError, TimeoutError):
        return  # it cannot be asked
    if "[{'type'" in prompt:
        raise ConfigError(f"{url} shows the model {model!r} Python lists in place of its system prompt and its earlier "
                          "replies; start vLLM with --chat-template-content-format string")  # fmt: skip


def _explained(error: APIStatusError, url: str) -> ConfigError:
    code, said = error.status_code, said_by(error)
    if code in (401, 403):
        return ConfigError(f"{url} wants a key ({code}: {said}); set OPENAI_API_KEY to one that it takes")
    if code in (404, 405):
        return ConfigError(f"{url} is no OpenAI-compatible server ({code}: {said}); {CURE}")
    return ConfigError(f"{url} cannot be used: it answered {code}: {said}")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names[:5])) + (" and others" if len(names) > 5 else "") or "none"
