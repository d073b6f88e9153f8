"""Attention within concatenated sequences, registered in transformers as `ATTENTION`.

The samples of a packed row, and the windows of a vision tower, must not attend to each other. On a GPU in bfloat16 one
torch kernel computes them all; elsewhere they are computed one by one, neighbors of equal length together. Padded
batches, as in sampling, use the `sdpa` of transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from itertools import accumulate, groupby
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "flash_varlen"
"""Because of "flash" in the name, vision towers pass all their windows in one call."""


def use_concatenated_attention(model: torch.nn.Module) -> None:
    """Switches a loaded model to `ATTENTION`; if loaded with this name, transformers would require a package for it."""
    for module in model.modules():
        if (config := getattr(module, "config", None)) is not None:
            config._attn_implementation = ATTENTION


class Sequences:
    """Lengths of concatenated sequences, computed once for all layers."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths, self.longest = list(lengths), max(lengths)
        self._ends: Tensor | None = None
        self._numbers: Tensor | None = None

    def ends(self, device: torch.device) -> Tensor:
        """Cumulative lengths: (N + 1,) int32, starting with 0."""
        if self._ends is None:
            self._ends = torch.tensor([0, *accumulate(self.lengths)], dtype=torch.int32, device=device)
        return self._ends

    def numbers(self, device: torch.device) -> Tensor:
        """The sequence of every token, counted from 0: (1, T) int32."""
        if self._numbers is None:
            counted = torch.arange(len(self.lengths), dtype=torch.int32)
            self._numbers = counted.repeat_interleave(torch.tensor(self.lengths)).unsqueeze(0).to(device)
        return self._numbers


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sequences: Sequences | None = None,
    cu_seq_lens_q: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention function of transformers: (1, heads, T, size) query, key and value -> (1, T, heads, size).

    Vision towers pass `cu_seq_lens_q`, the language model `sequences`.
    """
    if cu_seq_lens_q is not None:
        sequences = _windows(cu_seq_lens_q)
    if sequences is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, is_causal=is_causal, **kwargs
        )
    causal = cast("bool", module.is_causal) if is_causal is None else is_causal
    kind = query.device.type
    if torch.is_autocast_enabled(kind):  # rotary positions make float32 of query and key
        dtype = torch.get_autocast_dtype(kind)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    together = _kernel if query.is_cuda and query.dtype != torch.float32 else _one_by_one
    return together(query, key, value, sequences, causal, scaling), None


def _windows(ends: Tensor) -> Sequences:
    """The windows of a vision tower, cached on the tensor that its layers share, as reading it waits for the GPU."""
    if (known := getattr(ends, "_sequences", None)) is None:
        known = Sequences(ends.diff().tolist())
        ends._sequences = known  # type: ignore[attr-defined]
    return known


def _kernel(query: Tensor, key: Tensor, value: Tensor, of: Sequences, causal: bool, scale: float | None) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    grouped: dict[str, Any] = {}
    if (group := q.shape[1] // k.shape[1]) > 1:
        if "enable_gqa" in signature(varlen_attn).parameters:
            grouped["enable_gqa"] = True
        else:  # torch 2.11, which vLLM needs, does not document fewer heads of keys than of queries
            k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    ends = of.ends(query.device)
    window = (-1, 0) if causal else (-1, -1)
    out = varlen_attn(q, k, v, ends, ends, of.longest, of.longest, scale=scale, window_size=window, **grouped)
    assert isinstance(out, Tensor)
    return out.unsqueeze(0)


def _one_by_one(query: Tensor, key: Tensor, value: Tensor, of: Sequences, causal: bool, scale: float | None) -> Tensor:
    runs = [(length, len(list(run))) for length, run in groupby(of.lengths)]
    split = [x[0].split([length * n for length, n in runs], dim=1) for x in (query, key, value)]
    out = []
    for (length, n), *parts in zip(runs, *split, strict=True):
        # (heads, n * length, size) -> (n, heads, length, size)
        q, k, v = (part.unflatten(1, (n, length)).transpose(0, 1) for part in parts)
        gqa = q.shape[1] != k.shape[1]
        run = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=gqa)
        out.append(run.transpose(1, 2).flatten(0, 1))
    return torch.cat(out).unsqueeze(0)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
