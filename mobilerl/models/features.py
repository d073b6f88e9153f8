"""Frozen features of screens and texts for value functions, from the checkpoint's vision tower and token embedding.

They use the initial weights and never change, so each is computed once, and value functions trained on them stay valid
while the policy changes.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model

CACHED = 50_000
"""Default number of cached vectors of each kind; a vector with 3,584 numbers takes 14 KiB."""
SCREENS_AT_ONCE = 8


class FrozenFeatures:
    """Computes and caches feature vectors of length `size` and root mean square 1, on the CPU.

    Args:
        path: checkpoint folder, as for an engine.
        max_pixels: maximum image size, as for an engine.
        device: device of the vision tower.
    """

    def __init__(self, path: Path, max_pixels: int | None = None, device: str | torch.device = "cpu") -> None:
        self._codec = Codec.load(path, max_pixels)
        model = load_model(path)
        model = model.get_base_model() if hasattr(model, "peft_config") else model
        self._embedding = model.get_input_embeddings().weight.detach().cpu()
        visual: Any = getattr(model.model, "visual", torch.nn.Identity())  # a text model is shown no screens
        self._tower = visual.eval().requires_grad_(False).to(device)
        self.size = self._embedding.shape[1]
        self._device = device
        self._room = CACHED
        self._screens: dict[bytes, Tensor] = {}
        self._texts: dict[bytes, Tensor] = {}

    def make_room(self, vectors: int) -> None:
        """Raises the cache size to at least `vectors` of each kind, since a larger replay buffer would never hit it."""
        self._room = max(self._room, vectors)

    def screens(self, pngs: Sequence[bytes]) -> Tensor:
        """(N, size) means over the image tokens of each screenshot; 0 for b"", a step without a screenshot."""
        wanted = [png for png in dict.fromkeys(pngs) if png]
        known = {png: vector for png in wanted if (vector := self._screens.get(_name(png))) is not None}
        missing = [png for png in wanted if png not in known]
        for start in range(0, len(missing), SCREENS_AT_ONCE):
            part = missing[start : start + SCREENS_AT_ONCE]
            for png, vector in zip(part, self._encode_screens(part), strict=True):
                known[png] = self._keep(self._screens, _name(png), vector)
        known[b""] = torch.zeros(self.size)
        return torch.stack([known[png] for png in pngs])

    def prompts(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """(N, size) mean embeddings of the tokens of each prompt, without image placeholders."""
        return torch.stack([self._text(ids) for ids in prompts])

    def instruction(self, text: str) -> Tensor:
        """(size,) mean embedding of the tokens of a text."""
        return self._text(self._codec.tokenizer.encode(text, add_special_tokens=False))

    def _text(self, ids: Sequence[int]) -> Tensor:
        name = _name(array("q", ids).tobytes())
        if (known := self._texts.get(name)) is not None:
            return known
        kept = torch.tensor([i for i in ids if i != self._codec.image_token_id], dtype=torch.long)
        mean = _unit(self._embedding[kept].float().mean(0)) if len(kept) else torch.zeros(self.size)
        return self._keep(self._texts, name, mean)

    def _keep(self, cache: dict[bytes, Tensor], name: bytes, vector: Tensor) -> Tensor:
        cache[name] = vector
        while len(cache) > self._room:
            del cache[next(iter(cache))]  # the oldest
        return vector

    @torch.no_grad()
    def _encode_screens(self, pngs: Sequence[bytes]) -> list[Tensor]:
        parts = [self._codec.images.patches(png) for png in pngs]
        grid = torch.stack([torch.as_tensor(g, dtype=torch.long) for _, g in parts]).to(self._device)
        pixels = self._codec.images.values([p for p, _ in parts], self._device).to(self._tower.dtype)
        merged = self._tower(pixels, grid_thw=grid).pooler_output.float()
        counts = (grid.prod(-1) // self._codec.merge).tolist()
        return [_unit(tokens.mean(0)).cpu() for tokens in torch.split(merged, counts)]


def _name(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.square().mean().sqrt().clamp(min=1e-12)
