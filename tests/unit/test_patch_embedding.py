import pytest
import torch

from mobilerl.benchmarks.model_families import FAMILIES, create
from mobilerl.models.loading import load_model
from mobilerl.models.patch_embedding import PatchProjection, multiply_patches


@pytest.mark.parametrize("family", FAMILIES)
def test_a_product_of_matrices_embeds_patches_as_the_convolution_does(family, tmp_path):
    create(FAMILIES[family], tmp_path, ["open the clock"])
    projection = load_model(tmp_path).model.visual.patch_embed.proj.double()
    assert isinstance(projection, PatchProjection)
    patches = torch.randn(5, projection.in_channels, *projection.kernel_size, dtype=torch.float64)
    outcomes = []
    for embed in (projection, projection.product):
        projection.zero_grad()
        embedded = embed(patches)
        embedded.square().sum().backward()
        outcomes.append([embedded.detach(), *(p.grad for p in projection.parameters())])
    torch.testing.assert_close(*outcomes)


def test_overlapping_windows_stay_a_convolution():
    embedding = torch.nn.Module()
    embedding.proj = torch.nn.Conv3d(3, 8, kernel_size=4, stride=2)
    with pytest.raises(ValueError, match="overlap"):
        multiply_patches(torch.nn.ModuleDict({"patch_embed": embedding}))
