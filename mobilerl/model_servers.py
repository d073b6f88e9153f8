"""What every client of a model server needs: keys that are written nowhere, answers that cannot fill this machine's
memory, and how long a server asks to wait."""

from __future__ import annotations

import email.utils
import os
import time
from collections.abc import Mapping

import httpx
from openai import DefaultAsyncHttpxClient

from mobilerl.config import ConfigError

MAX_ANSWER = 32 << 20
"""Bytes of an answer, unpacked. The longest reply with its log-probabilities has a few MB."""


def api_key(variable: str = "OPENAI_API_KEY") -> str:
    """The key in an environment variable; "none" where it has none, as a server without keys takes any.

    ConfigError for what no header can carry: the HTTP library would repeat it, and with it the key, in its message.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{variable} holds characters that no API key has, such as a line break: set it again")
    return key or "none"


def bounded_client() -> httpx.AsyncClient:
    """For the openai library: its own client, but for the limit. A longer answer counts as a connection that broke."""
    return DefaultAsyncHttpxClient(event_hooks={"response": [_bounded]})


async def _bounded(response: httpx.Response) -> None:
    """Reads the answer before the library does, whose reading knows no end."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_ANSWER:
            raise httpx.ReadError(f"an answer of more than {MAX_ANSWER >> 20} MB", request=response.request)
    response._content = bytes(body)  # where httpx keeps what it has read


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a reply's headers ask to wait, given as a number or as a date; None when they do not."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
