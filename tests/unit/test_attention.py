"""The call of torch's variable-length kernel, which needs a GPU: with its two signatures in the place of the kernel."""

from inspect import signature

import pytest
import torch
from torch.nn.attention import varlen
from torch.nn.functional import scaled_dot_product_attention

from mobilerl.models import attention
from mobilerl.models.attention import Sequences


def kernel(q, k, v, ends, key_ends, longest, longest_key, *, scale, window_size, gqa):
    """(T, heads, size) -> the same, by torch's own attention of each sequence."""
    assert torch.equal(ends, key_ends) and longest == longest_key == int(ends.diff().max())
    if not gqa:
        assert q.shape[1] == k.shape[1]
    out = []
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        parts = [x[start:end].transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
        out.append(
            scaled_dot_product_attention(*parts, is_causal=window_size == (-1, 0), scale=scale, enable_gqa=gqa)[0]
        )
    return torch.cat(out, dim=1).transpose(0, 1)


def of_torch_2_11(q, k, v, ends, key_ends, longest, longest_key, *, scale=None, window_size=(-1, -1)):
    return kernel(q, k, v, ends, key_ends, longest, longest_key, scale=scale, window_size=window_size, gqa=False)


def of_torch_2_13(q, k, v, ends, key_ends, longest, longest_key, *, scale=None, window_size=(-1, -1), enable_gqa=False):
    return kernel(q, k, v, ends, key_ends, longest, longest_key, scale=scale, window_size=window_size, gqa=enable_gqa)


@pytest.mark.parametrize("varlen_attn", [of_torch_2_11, of_torch_2_13])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_the_kernel_gets_what_attention_within_each_sequence_needs(monkeypatch, varlen_attn, key_heads, causal):
    monkeypatch.setattr(varlen, "varlen_attn", varlen_attn)
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, heads, 12, 8, generator=draw) for heads in (4, key_heads, key_heads))
    sequences = Sequences([3, 5, 4])
    one_by_one = attention._one_by_one(query, key, value, sequences, causal, 0.3)
    torch.testing.assert_close(attention._kernel(query, key, value, sequences, causal, 0.3), one_by_one)


def test_the_installed_torch_has_one_of_the_two_signatures():
    parameters = list(signature(varlen.varlen_attn).parameters)
    assert parameters[:7] == ["query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k"]
    assert {"scale", "window_size"} < set(parameters)
