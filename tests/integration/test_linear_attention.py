"""Qwen3.5's linear attention: the samples of a packed row, with and without the kernels that know where they begin."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import conv1d, pad, silu
from transformers.models.qwen3_5 import modeling_qwen3_5

from mobilerl.benchmarks.model_families import FAMILIES, create
from mobilerl.config import ConfigError
from mobilerl.engines.local import LocalEngine, LocalSettings
from mobilerl.engines.scoring import sample_logprobs
from mobilerl.models import linear_attention
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, load_model
from mobilerl.records import TrainingSample
from mobilerl.records.engine import Request, Sampling

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ("tap", "open the settings and turn on the light, " * 6, "go back to the home screen")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    create(FAMILIES["Qwen3.5"], path, TEXTS)
    return path


def asked(codec: Codec, tokens: int = 6) -> list[Request]:
    prompts = [codec.encode([{"role": "user", "content": text}], ()) for text in TEXTS]
    return [Request(prompt, (), Sampling(1.0, tokens)) for prompt in prompts]


def made_rows(codec: Codec) -> list[TrainingSample]:
    response = codec.encode_response("do it now")
    return [TrainingSample("t", 0, r.prompt_ids, response, (0.0,) * len(response), (), 0) for r in asked(codec)]


def separate_conv(x, weight, bias, activation, seq_idx):
    """What causal-conv1d computes, with its signature: x (1, C, T), weight (C, K), seq_idx (1, T) int32."""
    assert bias is None and activation == "silu" and seq_idx.dtype == torch.int32
    parts = x.split(torch.bincount(seq_idx[0]).tolist(), dim=2)
    kernel = weight.unsqueeze(1)
    return torch.cat([silu(conv1d(pad(p, (kernel.shape[2] - 1, 0)), kernel, groups=len(kernel))) for p in parts], 2)


def separate_rule(query, key, value, cu_seqlens, g, beta, **options):
    """What flash-linear-attention computes, with its signature: all (1, T, ...), cu_seqlens (N + 1,) int32."""
    assert cu_seqlens.dtype == torch.int32
    lengths = cu_seqlens.diff().tolist()
    split = zip(*(x.split(lengths, dim=1) for x in (query, key, value, g, beta)), strict=True)
    rule = modeling_qwen3_5.torch_chunk_gated_delta_rule
    return torch.cat([rule(q, k, v, g=g, beta=b, **options)[0] for q, k, v, g, b in split], dim=1), None


def test_kernels_get_the_lengths_of_packed_samples(folder, monkeypatch):
    """With stand-ins for the kernels, which need a GPU, on rows that are nowhere padded."""
    model, codec = load_model(folder), Codec.load(folder)
    rows = made_rows(codec)

    def result():
        model.zero_grad()
        logp, _ = sample_logprobs(model, codec, rows, 1.0, "cpu")
        logp.sum().backward()
        return logp.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    logp, wanted = result()
    monkeypatch.setattr(linear_attention, "takes_lengths", lambda module, hidden: True)
    layers = [m for name, m in model.named_modules() if name.endswith(".linear_attn")]
    for layer in layers:
        layer.causal_conv1d_fn, layer.chunk_gated_delta_rule = separate_conv, separate_rule
    packed, gradients = result()
    assert layers
    torch.testing.assert_close(packed, logp, atol=1e-5, rtol=1e-5)
    for name, value in wanted.items():
        torch.testing.assert_close(gradients[name], value, atol=1e-4, rtol=1e-4, msg=name)


def test_the_kernels_are_used_where_they_are(folder):
    (layer,) = (m for name, m in load_model(folder).named_modules() if name.endswith(".linear_attn"))
    on_gpu, on_cpu = SimpleNamespace(is_cuda=True), SimpleNamespace(is_cuda=False)
    assert not linear_attention.takes_lengths(layer, on_gpu)
    layer.chunk_gated_delta_rule = separate_rule  # flash-linear-attention alone
    assert not linear_attention.takes_lengths(layer, on_gpu)
    layer.causal_conv1d_fn = separate_conv
    assert linear_attention.takes_lengths(layer, on_gpu) and not linear_attention.takes_lengths(layer, on_cpu)


def test_an_older_transformers_is_refused(folder, monkeypatch):
    """Its layers are not told where the samples of a packed row begin."""
    layer = modeling_qwen3_5.Qwen3_5GatedDeltaNet
    monkeypatch.setattr(layer, "forward", lambda self, hidden_states, cache_params=None, attention_mask=None: None)
    with pytest.raises(ConfigError, match="linear attention needs transformers 5.9 or later"):
        load_model(folder)


def test_reference_weights_stay_as_they_were(folder):
    """They are a copy of the model, and its layers must not be those of the policy."""
    engine = LocalEngine(folder, LocalSettings(reference=True))
    rows = made_rows(engine.codec)
    before = engine.logprobs(rows)
    with torch.no_grad():
        for weight in engine.model.parameters():
            weight.mul_(1.5)
    assert engine.logprobs(rows, reference=True) == before != engine.logprobs(rows)


def test_padding_on_the_left_changes_no_response(folder):
    """Prompts of different lengths in one batch, and the same ones alone."""
    engine = LocalEngine(folder, LocalSettings())
    greedy = [Request(r.prompt_ids, (), Sampling(0.0, 12)) for r in asked(engine.codec)]
    together = engine.generate(greedy)
    for request, done in zip(greedy, together, strict=True):
        (alone,) = engine.generate([request])
        assert alone.token_ids == done.token_ids
        torch.testing.assert_close(torch.tensor(alone.logprobs), torch.tensor(done.logprobs), atol=1e-5, rtol=0)


@pytest.mark.parametrize("thinking", [None, True, False])
def test_a_checkpoint_keeps_its_thinking_switch(folder, tmp_path, thinking):
    codec = Codec.load(folder, thinking=thinking)
    codec.save(tmp_path)
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    ends = "<think>\n\n</think>\n\n" if thinking is False else "<think>\n"
    for loaded in (codec, Codec.load(tmp_path)):
        prompt = loaded.encode([{"role": "user", "content": "tap"}], ())
        assert loaded.tokenizer.decode(prompt).endswith(f"<|im_start|>assistant\n{ends}")
    other = Codec.load(tmp_path, thinking=thinking is False)
    assert other.tokenizer.chat_template.count("set enable_thinking") == 1
    assert other.encode([{"role": "user", "content": "tap"}], ()) != prompt


def test_a_template_without_the_switch_is_refused(tmp_path):
    create(FAMILIES["Qwen3-VL"], tmp_path, TEXTS)
    with pytest.raises(ConfigError, match="engine.thinking is set, but .* has no thinking switch"):
        Codec.load(tmp_path, thinking=False)


def test_adapters_cover_the_linear_attention(folder):
    modules = add_lora(load_model(folder), 4).named_modules()
    adapted = {name.rpartition(".")[2] for name, module in modules if hasattr(module, "lora_A")}
    linear = {"in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"}
    assert adapted == linear | {f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")}
