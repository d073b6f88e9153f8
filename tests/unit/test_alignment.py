import pytest
import torch
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLMLP

from mobilerl.models.alignment import align_vision_mlps

WIDTH, INNER = 16, 44


@pytest.fixture
def tower():
    torch.manual_seed(0)
    mlp = Qwen2_5_VLMLP(Qwen2_5_VLVisionConfig(hidden_size=WIDTH, intermediate_size=INNER), bias=True)
    return torch.nn.ModuleDict({"visual": torch.nn.ModuleDict({"mlp": mlp})})


def _outcome(tower):
    torch.manual_seed(1)
    hidden = torch.randn(5, WIDTH, requires_grad=True)
    tower.zero_grad()
    out = tower["visual"]["mlp"](hidden)
    out.square().sum().backward()
    return [out.detach(), hidden.grad, *(p.grad for p in tower.parameters())]


def test_a_padded_mlp_has_the_same_results_and_gradients(tower):
    before, names = _outcome(tower), list(tower.state_dict())
    align_vision_mlps(tower)
    torch.testing.assert_close(_outcome(tower), before)
    assert list(tower.state_dict()) == names and tower["visual"]["mlp"].gate_proj.weight.shape == (INNER, WIDTH)


def test_every_product_of_a_padded_mlp_has_aligned_rows(tower, monkeypatch):
    widths = []

    def spy(x, weight, bias):
        widths.append(weight.shape)
        return torch.nn.functional.linear(x, weight, bias)

    align_vision_mlps(tower)
    monkeypatch.setattr("mobilerl.models.alignment.linear", spy)
    _outcome(tower)
    assert widths == [(48, WIDTH), (48, WIDTH), (WIDTH, 48)]
