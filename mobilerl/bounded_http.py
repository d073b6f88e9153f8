"""HTTP clients whose answers cannot fill this machine's memory, for the openai library."""

from __future__ import annotations

import httpx
from openai import DefaultAsyncHttpxClient

MAX_ANSWER = 32 << 20
"""Bytes of an answer, unpacked. The longest reply with its log-probabilities has a few MB."""


def bounded_client() -> httpx.AsyncClient:
    """The library's own client, but for the limit. An answer that is longer counts as a connection that broke."""
    return DefaultAsyncHttpxClient(event_hooks={"response": [_bounded]})


async def _bounded(response: httpx.Response) -> None:
    """Reads the answer before the library does, whose reading knows no end."""
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > MAX_ANSWER:
            raise httpx.ReadError(f"an answer of more than {MAX_ANSWER >> 20} MB", request=response.request)
    response._content = bytes(body)  # where httpx keeps what it has read
