"""A model behind an OpenAI-compatible server (vLLM or any other) as a policy."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from openai import AsyncOpenAI

from mobilerl.agent.policy import Messages
from mobilerl.engines.base import Sampling
from mobilerl.records import Completion


class ServerPolicy:
    """Chat completions with screenshots as data URLs. Token ids and log-probabilities are kept where the server (vLLM)
    gives them; from any other server a completion holds the text only, which is enough to evaluate and to propose.

    The API key is read from OPENAI_API_KEY, as the client library does; servers without keys take any.
    """

    def __init__(self, url: str, model: str, timeout_s: float = 300.0) -> None:
        self.model = model
        self._client = AsyncOpenAI(base_url=url, timeout=timeout_s, max_retries=3)

    async def act(self, messages: Messages, images: Sequence[bytes], sampling: Sampling, key: str = "") -> Completion:
        reply = await self._client.chat.completions.create(
            model=self.model,
            messages=with_images(messages, images),
            temperature=sampling.temperature,
            max_tokens=sampling.max_new_tokens,
            logprobs=True,
            extra_body={"return_token_ids": True},
        )
        choice = reply.choices[0]
        ids = tuple(getattr(choice, "token_ids", None) or ())
        logprobs = tuple(t.logprob for t in (choice.logprobs.content or ())) if choice.logprobs else ()
        prompt = tuple(getattr(reply, "prompt_token_ids", None) or ())
        if len(ids) != len(logprobs):
            ids, logprobs = (), ()
        return Completion(prompt, ids, logprobs, 0, choice.message.content or "")


def with_images(messages: Messages, images: Sequence[bytes]) -> list[dict[str, Any]]:
    """Messages in OpenAI's form: each image part becomes a data URL of the next PNG."""
    left = iter(images)
    return [{**m, "content": [_part(p, left) for p in m["content"]]} for m in messages]


def _part(part: dict[str, Any], left: Any) -> dict[str, Any]:
    if part["type"] != "image":
        return part
    data = base64.b64encode(next(left)).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
