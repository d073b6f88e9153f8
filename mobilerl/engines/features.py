"""Frozen features of screens and texts, for value functions: the checkpoint's own vision tower and token embedding.

They are of the weights a run began with and never change, so each is computed once, and a value function that has
learned from them stays valid while the policy moves.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from mobilerl.engines.codec import Codec

CACHED = 50_000
"""Vectors kept of each kind, if there is room for no more: one of 3,584 numbers takes 14 KiB."""
SCREENS_AT_ONCE = 8


class FrozenFeatures:
    """Vectors of `size` numbers of root mean square 1, on the CPU.

    Args:
        path: a checkpoint folder, as for an engine.
        max_pixels: as for the engine: what an image is cut down to.
        device: where the vision tower runs.
    """

    def __init__(self, path: Path, max_pixels: int | None = None, device: str | torch.device = "cpu") -> None:
        from mobilerl.engines.loading import load_model

        self._codec = Codec.load(path, max_pixels)
        model = load_model(path)
        model = model.get_base_model() if hasattr(model, "peft_config") else model
        self._embedding = model.get_input_embeddings().weight.detach().cpu()
        self._tower = model.model.visual.eval().requires_grad_(False).to(device)
        self._merged = self._codec.merge
        self.size = self._embedding.shape[1]
        self._device = device
        self._room = CACHED
        self._screens = _Cache()
        self._texts = _Cache()

    def make_room(self, vectors: int) -> None:
        """Keeps at least so many of each kind from now on. A buffer that is gone through again and again, and is one
        vector larger than what is kept, would find none of its own."""
        self._room = max(self._room, vectors)

    def screens(self, pngs: Sequence[bytes]) -> Tensor:
        """(N, size): the mean over each picture's image tokens; 0 for b"", a step without a screenshot."""
        known = {png: self._screens.get(_name(png)) for png in dict.fromkeys(pngs) if png}
        missing = [png for png, vector in known.items() if vector is None]
        for start in range(0, len(missing), SCREENS_AT_ONCE):
            part = missing[start : start + SCREENS_AT_ONCE]
            for png, vector in zip(part, self._seen(part), strict=True):
                known[png] = self._screens.put(_name(png), vector, self._room)
        known[b""] = torch.zeros(self.size)
        return torch.stack([known[png] for png in pngs])

    def prompts(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """(N, size): the mean over the embeddings of each prompt's tokens, without its images' places."""
        return torch.stack([self._text(ids) for ids in prompts])

    def instruction(self, text: str) -> Tensor:
        """(size,): the mean over the embeddings of a text's tokens."""
        return self._text(self._codec.tokenizer.encode(text, add_special_tokens=False))

    def _text(self, ids: Sequence[int]) -> Tensor:
        name = _name(array("q", ids).tobytes())  # a tuple of its ids may well take more than its vector
        if (known := self._texts.get(name)) is not None:
            return known
        kept = torch.tensor([i for i in ids if i != self._codec.image_token_id], dtype=torch.long)
        mean = _unit(self._embedding[kept].float().mean(0)) if len(kept) else torch.zeros(self.size)
        return self._texts.put(name, mean, self._room)

    @torch.no_grad()
    def _seen(self, pngs: Sequence[bytes]) -> list[Tensor]:
        parts = [self._codec.pixels(png) for png in pngs]
        grid = torch.stack([torch.as_tensor(g, dtype=torch.long) for _, g in parts]).to(self._device)
        pixels = torch.cat([torch.from_numpy(p) for p, _ in parts]).to(self._device, self._tower.dtype)
        merged = self._tower(pixels, grid_thw=grid).pooler_output.float()
        counts = (grid.prod(-1) // self._merged).tolist()
        return [_unit(tokens.mean(0)).cpu() for tokens in torch.split(merged, counts)]


class _Cache:
    """The newest vectors, by name."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Tensor] = OrderedDict()

    def get(self, name: bytes) -> Tensor | None:
        if name in self._kept:
            self._kept.move_to_end(name)
        return self._kept.get(name)

    def put(self, name: bytes, vector: Tensor, room: int) -> Tensor:
        self._kept[name] = vector
        while len(self._kept) > room:
            self._kept.popitem(last=False)
        return vector


def _name(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.square().mean().sqrt().clamp(min=1e-12)


def features_device(engine: str) -> str:
    """Where the vision tower goes beside an engine of that type: verl's GPUs belong to its workers."""
    return "cuda" if engine == "local" and torch.cuda.is_available() else "cpu"
