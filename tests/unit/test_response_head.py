"""Log-probabilities of a few tokens at a time: those of the plain formula, its gradients, and less memory."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from mobilerl.engines.scoring import sample_logprobs
from mobilerl.models import response_head, tiny
from mobilerl.models.codec import Codec
from mobilerl.models.loading import add_lora, load_model
from mobilerl.models.response_head import ResponseHead
from mobilerl.records import TrainingSample

TEMPERATURE = 0.7
WORDS = "open the settings app and turn the wireless network off before you finish"


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    tiny.create(path, [WORDS], hidden=32, layers=1, heads=2, vision_hidden=16)
    return load_model(path).float(), Codec.load(path)


def rows_of(codec: Codec) -> list[TrainingSample]:
    prompt = codec.encode([{"role": "user", "content": [{"type": "text", "text": "open"}]}], ())
    response = codec.encode_response(WORDS)
    return [TrainingSample("", i, prompt, response[i:], (0.0,) * len(response[i:]), (), 0) for i in range(3)]


def loss_and_gradients(model, codec):
    model.zero_grad()
    logp, _ = sample_logprobs(model, codec, rows_of(codec), TEMPERATURE, "cpu")
    (torch.linspace(-1, 1, logp.numel()).view_as(logp) * logp).sum().backward()
    whole = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return logp.detach(), {n: g.full_tensor() if isinstance(g, DTensor) else g for n, g in whole.items()}


def assert_equal(found, wanted):
    torch.testing.assert_close(found[0], wanted[0], atol=1e-6, rtol=1e-6)
    assert found[1].keys() == wanted[1].keys() and wanted[1]
    for name, gradient in wanted[1].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-6, rtol=1e-5, msg=name)


def plain(model):
    """With the output layer of torch, and so with all logits."""
    model.get_output_embeddings().__class__ = torch.nn.Linear
    return model


def few_at_a_time(model, monkeypatch, tokens=5):
    assert isinstance(model.get_output_embeddings(), ResponseHead)
    monkeypatch.setattr(response_head, "LOGITS", tokens * model.config.get_text_config().vocab_size)
    return model


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_parts_have_the_values_and_gradients_of_all_logits_at_once(policy, lora_rank, monkeypatch):
    model, codec = copy.deepcopy(policy[0]), policy[1]
    if lora_rank:
        torch.manual_seed(0)
        model = add_lora(model, lora_rank)
    wanted = loss_and_gradients(plain(copy.deepcopy(model)), codec)
    assert_equal(loss_and_gradients(few_at_a_time(model, monkeypatch), codec), wanted)


def test_an_adapter_of_the_output_layer_is_not_left_out(policy):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    model, codec = get_peft_model(copy.deepcopy(policy[0]), LoraConfig(r=2, target_modules=["lm_head"])), policy[1]
    without, _ = loss_and_gradients(model, codec)
    torch.nn.init.normal_(model.get_output_embeddings().lora_B["default"].weight)
    found = loss_and_gradients(model, codec)
    assert not torch.allclose(found[0], without, atol=0.1)
    model.zero_grad()
    model.get_output_embeddings().base_layer.__class__ = torch.nn.Linear
    assert_equal(found, loss_and_gradients(model, codec))


class LargestLogits(TorchDispatchMode):
    """Looks for the most rows of logits in one tensor."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary, self.rows = vocabulary, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        # The layer's own weight is transposed, and so not contiguous.
        if isinstance(out, torch.Tensor) and out.shape[-1:] == (self.vocabulary,) and out.is_contiguous():
            self.rows = max(self.rows, out.numel() // self.vocabulary)
        return out


def test_neither_pass_has_more_logits_in_memory(policy, monkeypatch):
    model, codec = policy
    model = few_at_a_time(model.requires_grad_(False), monkeypatch)  # gradients of the layer are as large as itself
    model.model.language_model.norm.weight.requires_grad_(True)
    tokens = sum(len(row.response_ids) for row in rows_of(codec))
    with LargestLogits(model.config.get_text_config().vocab_size) as seen:
        _, gradients = loss_and_gradients(model, codec)
    assert len(gradients) == 1 and seen.rows == 5 < tokens


def test_sharded_weights_are_there_when_logits_are_computed_again(policy, tmp_path, monkeypatch):
    """FSDP2, as with verl."""
    model, codec = copy.deepcopy(policy[0]).requires_grad_(True), policy[1]
    wanted = loss_and_gradients(plain(copy.deepcopy(model)), codec)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
        for module in (*model.model.language_model.layers, model):
            fully_shard(module, mesh=mesh, reshard_after_forward=True)
        assert_equal(loss_and_gradients(few_at_a_time(model, monkeypatch), codec), wanted)
    finally:
        dist.destroy_process_group()
