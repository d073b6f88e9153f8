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
    logits, mask, positions, offsets, cache = _prefill(model, codec, requests, device)
    banned = codec.banned.to(device)
    done = [Sampled() for _ in requests]
    alive = list(range(len(requests)))
    for drawn in range(1, sampling.max_new_tokens + 1):
        tokens, logps = draw(logits, banned, sampling)
        values = tokens.tolist()
        for i, token, logp in zip(alive, values, logps.tolist(), strict=True):
            done[i].ids.append(token)
            done[i].logprobs.append(logp)
        going = [k for k, token in enumerate(values) if token not in codec.end_ids]
        if not going or drawn == sampling.max_new_tokens:
            break
        if len(going) < len(alive):
            keep = torch.tensor(going, device=device)
            alive = [alive[k] for k in going]
            tokens, mask, offsets = tokens[keep], mask[keep], offsets[keep]
            cache.reorder_cache(keep)
        mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)
        out = model(
            input_ids=tokens.unsqueeze(1),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            position_ids=next_positions(mask, offsets, positions),
            logits_to_keep=1,
        )
        logits = out.logits[:, -1]
    return done


def draw(logits: Tensor, banned: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draws (R,) tokens from (R, V) logits and returns them with their log-probabilities. Temperature 0 is greedy."""
    scores = logits.float() / (sampling.temperature or 1.0)
    scores[:, banned] = -torch.inf
    logps = scores.log_softmax(-1)
    if sampling.temperature > 0:
        tokens = torch.multinomial(logps.exp(), 1).squeeze(1)
    else:
        tokens = logps.argmax(-1)
    return tokens, logps.gather(1, tokens.unsqueeze(1)).squeeze(1)


def _prefill(
    model: Any, codec: Codec, requests: Sequence[Request], device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor, Any]:
    """Prefills each distinct prompt once; returns (R, V) logits, (R, L) mask, the prompts' positions with (R,) offsets
    (see `positions_of`), and the cache.

    A model with images would keep the offsets as its own state, which a forward pass in another thread overwrites.
    """
    prompts = list(dict.fromkeys((r.prompt_ids, r.images) for r in requests))
    inputs = codec.collate([ids for ids, _ in prompts], [images for _, images in prompts], pad_left=True, device=device)
    positions, offsets = positions_of(model, inputs)
    out = model(**inputs, position_ids=positions, use_cache=True, logits_to_keep=1)
    mask, cache = inputs["attention_mask"], out.past_key_values
    where = {prompt: k for k, prompt in enumerate(prompts)}
    rows = torch.tensor([where[r.prompt_ids, r.images] for r in requests], device=device)
    if len(prompts) < len(requests):
        cache.reorder_cache(rows)
    return out.logits[rows, -1], mask[rows], positions, offsets[rows], cache
