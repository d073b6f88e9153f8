"""Embedding of patches by a matrix product on GPUs, in the place of a convolution whose windows do not overlap."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear


class PatchProjection(torch.nn.Conv3d):
    """A convolution whose input is one window, (N, channels, *kernel_size) -> (N, out_channels, 1, 1, 1).

    cuDNN has no fast kernel for it in bfloat16, and torch 2.9 and later use none of cuDNN's with some of its versions:
    they then compute one patch after another, 2,400 for a screen of half a megapixel.
    """

    def forward(self, input: Tensor) -> Tensor:
        # On CPUs the convolution is fast enough, and runs are to be repeatable bit for bit.
        return self.product(input) if input.is_cuda else super().forward(input)

    def product(self, input: Tensor) -> Tensor:
        """The same, as a product of matrices."""
        return linear(input.flatten(1), self.weight.flatten(1), self.bias)[:, :, None, None, None]


def multiply_patches(model: torch.nn.Module) -> None:
    """Makes the patch embeddings of a model's vision tower `PatchProjection`. Names and weights stay as they are."""
    for name, module in model.named_modules():
        if name.endswith("patch_embed.proj") and type(module) is torch.nn.Conv3d:
            if module.kernel_size != module.stride or module.groups != 1:
                raise ValueError(f"{name} is not an embedding of patches: its windows overlap")
            module.__class__ = PatchProjection
