"""Samples in a file that several processes read: one safetensors file, mapped into memory and never unpickled.

Tensors, S samples, P different images: `tokens` int32, the prompts and replies of all samples in a row; `prompt` and
`reply` (S,) their lengths; `trained` uint8, one for every token of a reply; `images` (S,) how many each sample has and
`image` which of the PNGs; `png` uint8, the different PNGs in a row, and `png_end` (P,) where each ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from sft.samples import Sample

FORMAT = "mobilerl samples 1"


def write_samples(samples: Sequence[Sample], path: Path) -> None:
    """Writes `samples`; an image that many of them show is stored once."""
    known: dict[bytes, int] = {}
    shown = [known.setdefault(png, len(known)) for sample in samples for png in sample.images]
    tokens = [np.array((*s.prompt_ids, *s.response_ids), np.int32) for s in samples]
    trained = [np.array((1,) * len(s.response_ids) if s.trained is None else s.trained, np.uint8) for s in samples]
    arrays = {
        "tokens": np.concatenate(tokens),
        "prompt": np.array([len(s.prompt_ids) for s in samples], np.int64),
        "reply": np.array([len(s.response_ids) for s in samples], np.int64),
        "trained": np.concatenate(trained),
        "images": np.array([len(s.images) for s in samples], np.int64),
        "image": np.array(shown, np.int64),
        "png": np.frombuffer(bytearray().join(known), np.uint8),
        "png_end": np.cumsum([len(png) for png in known], dtype=np.int64),
    }
    save_file({name: torch.from_numpy(array) for name, array in arrays.items()}, path, {"format": FORMAT})


class SampleFile(Sequence[Sample]):
    """The samples of a file. Raises ValueError when it is not one of them."""

    def __init__(self, path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("format") != FORMAT:
                raise ValueError(f"{path} is not a file of samples: its format is not {FORMAT!r}")
            parts = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118 - no mapping
        self._tokens, self._trained, self._png, self._image = (parts[n] for n in ("tokens", "trained", "png", "image"))
        self._prompt, self._reply = parts["prompt"], parts["reply"]
        ends = np.stack([self._prompt + self._reply, self._reply, parts["images"]]).cumsum(1)
        self._ends = np.concatenate([np.zeros((3, 1), np.int64), ends], axis=1)
        """(3, S + 1) where the tokens, the replies' tokens and the images of each sample begin."""
        self._png_ends = np.concatenate([np.zeros(1, np.int64), parts["png_end"]])

    def __len__(self) -> int:
        return len(self._prompt)

    def lengths(self) -> list[int]:
        """Tokens of every sample."""
        return (self._prompt + self._reply).tolist()

    def images(self) -> list[int]:
        """Images of every sample."""
        return np.diff(self._ends[2]).tolist()

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        token, reply, image = self._ends[:, index]
        ids = self._tokens[token : self._ends[0, index + 1]].tolist()
        trained = self._trained[reply : self._ends[1, index + 1]].astype(bool).tolist()
        images = (self._read_png(i) for i in self._image[image : self._ends[2, index + 1]])
        split = self._prompt[index]
        return Sample(tuple(ids[:split]), tuple(ids[split:]), tuple(images), None if all(trained) else tuple(trained))

    def _read_png(self, number: int) -> bytes:
        return self._png[self._png_ends[number] : self._png_ends[number + 1]].tobytes()
