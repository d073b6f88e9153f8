"""Sampling from a model in this process.

The `generate` of transformers would apply a checkpoint's generation settings (repetition penalty, top-p), prefill the
shared prompt of a group once per member, and keep computing sequences that have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mobilerl.models.codec import Codec
from mobilerl.models.plain_text import PlainText, is_plain
from mobilerl.models.positions import next_positions, positions_of
from mobilerl.records.engine import Request, Sampling


@dataclass(slots=True)
class Sampled:
    """Sampled token ids, including the end token, and their log-probabilities."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


def length_batches(requests: Sequence[Request], rows: int, tokens: int) -> Iterator[list[int]]:
    """Yields batches of indices with at most `rows` requests and, unless one prompt has more, `tokens` padded tokens.

    Prompts of similar length share a batch, and equal prompts stay together.
    """
    first: dict[tuple[tuple[int, ...], tuple[bytes, ...]], int] = {}
    same = [first.setdefault((r.prompt_ids, r.images), i) for i, r in enumerate(requests)]
    part: list[int] = []
    for i in sorted(range(len(requests)), key=lambda i: (len(requests[i].prompt_ids), same[i])):
        if part and (len(part) == rows or (len(part) + 1) * len(requests[i].prompt_ids) > tokens):
            yield part
            part = []
        part.append(i)
    if part:
        yield part


@torch.no_grad()
def sample(model: Any, codec: Codec, requests: Sequence[Request], device: torch.device) -> list[Sampled]:
    """Samples one batch of requests with the same sampling settings. `model` must be in evaluation mode."""
    sampling = requests[0].sampling
    plain = is_plain(model) and not any(request.images for request in requests)
    sequences = (_Plain if plain else _Cached)(model, codec, requests, device)
    banned = codec.banned.to(device)
    done = [Sampled() for _ in requests]
    alive = list(range(len(requests)))
    for drawn in range(1, sampling.max_new_tokens + 1):
        tokens, logps = draw(sequences.logits, banned, sampling)
        values = tokens.tolist()
        for i, token, logp in zip(alive, values, logps.tolist(), strict=True):
            done[i].ids.append(token)
            done[i].logprobs.append(logp)
        going = [k for k, token in enumerate(values) if token not in codec.end_ids]
        if not going or drawn == sampling.max_new_tokens:
            break
        if len(going) < len(alive):
            going = closed_up(going)
            alive = [alive[k] for k in going]
            tokens = tokens[going]
            sequences.keep(going)
        sequences.append(tokens)
    return done


def closed_up(rows: Sequence[int]) -> list[int]:
    """The rows in an order that leaves as many as possible in their places: gaps are filled from the end."""
    kept = {row for row in rows if row < len(rows)}
    behind = iter([row for row in rows if row >= len(rows)])
    return [place if place in kept else next(behind) for place in range(len(rows))]


def draw(logits: Tensor, banned: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draws (R,) tokens from (R, V) logits and returns them with their log-probabilities. Temperature 0 is greedy."""
    scores = logits.float() / (sampling.temperature or 1.0)
    scores[:, banned] = -torch.inf
    logps = scores.log_softmax(-1)
    tokens = _draw_from(logps.exp()) if sampling.temperature > 0 else logps.argmax(-1)
    return tokens, logps.gather(1, tokens.unsqueeze(1)).squeeze(1)


def _draw_from(probabilities: Tensor) -> Tensor:
    """Draws (R,) indices from (R, V) probabilities. On a CPU `torch.multinomial`, which draws a random number for each
    of these, takes ten times as long."""
    if probabilities.is_cuda:
        return torch.multinomial(probabilities, 1).squeeze(1)
    ends = probabilities.cumsum(-1, dtype=torch.float64)
    marks = torch.rand(len(ends), 1, dtype=torch.float64) * ends[:, -1:]
    return torch.searchsorted(ends, marks, right=True).squeeze(1).clamp(max=ends.shape[1] - 1)


def _distinct(requests: Sequence[Request]) -> tuple[list[tuple[tuple[int, ...], tuple[bytes, ...]]], list[int]]:
    """The different prompts, which are prefilled once, and for each request the index of its own."""
    where = {prompt: k for k, prompt in enumerate(dict.fromkeys((r.prompt_ids, r.images) for r in requests))}
    return list(where), [where[r.prompt_ids, r.images] for r in requests]


class _Plain:
    """Sequences that are read by `PlainText`. `logits` (R, V) are of the next tokens."""

    def __init__(self, model: Any, codec: Codec, requests: Sequence[Request], device: torch.device) -> None:
        prompts, rows = _distinct(requests)
        inputs = codec.text_inputs([ids for ids, _ in prompts], pad_left=True)
        ids = inputs["input_ids"]
        self._text = PlainText(model, len(prompts), ids.shape[1] + requests[0].sampling.max_new_tokens)
        self.logits = self._text.prefill(ids, inputs["attention_mask"])[rows]
        if len(prompts) < len(requests):
            self._text.repeat(torch.tensor(rows))

    def keep(self, rows: Sequence[int]) -> None:
        self._text.keep(rows)

    def append(self, tokens: Tensor) -> None:
        self.logits = self._text.read(tokens)


class _Cached:
    """Sequences that are read by a model of transformers. `logits` (R, V) are of the next tokens.

    A model with images would keep the offsets of positions as its own state, which a forward pass in another thread
    overwrites.
    """

    def __init__(self, model: Any, codec: Codec, requests: Sequence[Request], device: torch.device) -> None:
        prompts, where = _distinct(requests)
        inputs = codec.collate([p for p, _ in prompts], [images for _, images in prompts], pad_left=True, device=device)
        self._positions, offsets = positions_of(model, inputs)
        out = model(**inputs, position_ids=self._positions, use_cache=True, logits_to_keep=1)
        self._model, self._cache = model, out.past_key_values
        rows = torch.tensor(where, device=device)
        if len(prompts) < len(requests):
            self._cache.reorder_cache(rows)
        self.logits, self._mask, self._offsets = out.logits[rows, -1], inputs["attention_mask"][rows], offsets[rows]

    def keep(self, rows: Sequence[int]) -> None:
        kept = torch.tensor(rows, device=self._mask.device)
        self._mask, self._offsets = self._mask[kept], self._offsets[kept]
        self._cache.reorder_cache(kept)

    def append(self, tokens: Tensor) -> None:
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        out = self._model(
            input_ids=tokens.unsqueeze(1),
            attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
            position_ids=next_positions(self._mask, self._offsets, self._positions),
            logits_to_keep=1,
        )
        self.logits = out.logits[:, -1]
