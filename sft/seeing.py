"""Seeing pre-training of a tiny model's vision tower: every token of a screenshot is to say what it shows.

A pretrained tower sees words in an image; a random one gives tokens that language layers cannot tell apart, and with
only an action's coordinates to learn from they hardly begin to. Here each image token within an element of the screen
is trained to have the embeddings of the element's words and of the point that touches it, so that language layers find
it like a word of the prompt. Only the tower is trained.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mobilerl.envs.base import COORD_MAX
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model, save_model
from mobilerl.policy.screen import Element, Screen
from mobilerl.sft.samples import ExpertStep

BATCH_SIZE = 16
LEARNING_RATE = 3e-3
WARMUP = 30
"""Optimizer steps over which the learning rate rises; it decays to 0 over the second half of all."""
SHARPNESS = 4.0
"""Factor on the logits, products of image tokens with word embeddings of unit length."""


def said_words(element: Element, codec: Codec) -> list[int]:
    """Ids of an element's words, of its states and of the point that touches it."""
    x, y = element.centre
    texts = [" ".join([*element.text.split("|"), *element.states]), str(x), str(y)]
    return [i for ids in codec.tokenizer(texts, add_special_tokens=False)["input_ids"] for i in ids]


def label_tokens(screen: Screen, rows: int, columns: int, codec: Codec) -> list[list[int]]:
    """For each of `rows` x `columns` image tokens the words of the smallest element around its center, or []."""
    labels = []
    for row in range(rows):
        for column in range(columns):
            x, y = (COORD_MAX * (2 * i + 1) // (2 * n) for i, n in ((column, columns), (row, rows)))
            element = screen.at(x, y, marked_only=True)
            labels.append(said_words(element, codec) if element else [])
    return labels


def seeing_loss(tokens: Tensor, labels: Sequence[Sequence[int]], words: Tensor) -> Tensor:
    """Mean over image tokens (N, hidden) of the cross-entropy between what they say and the uniform distribution over
    their labels; those without any are left out. `words` (vocabulary, hidden) are unit vectors."""
    rows = torch.tensor([i for i, said in enumerate(labels) for _ in said])
    ids = torch.tensor([word for said in labels for word in said])
    shares = torch.tensor([1 / len(said) for said in labels for _ in said])
    log_probs = (SHARPNESS * tokens[rows.unique()] @ words.T).log_softmax(-1)
    places = torch.searchsorted(rows.unique(), rows)
    return -(log_probs[places, ids] * shares).sum() / len(rows.unique())


def learn_to_see(
    base: Path, out: Path, codec: Codec, steps: Sequence[ExpertStep], count: int, seed: int, show: Callable[..., None]
) -> Path:
    """Trains the vision tower of the checkpoint `base` on `count` screenshots drawn from `steps`, into folder `out`."""
    torch.manual_seed(seed)
    rng, model = random.Random(seed), load_model(base, learns=True)
    tower: Any = model.model.visual
    words = normalize(model.get_input_embeddings().weight.detach())
    optimizer = torch.optim.AdamW(tower.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    total = math.ceil(count / BATCH_SIZE)
    merge = codec.image_processor.merge_size
    for number in range(total):
        drawn = rng.choices(steps, k=BATCH_SIZE)
        patches = [codec.images.patches(step.observation.screenshot) for step in drawn]
        sizes = [(int(grid[1]) // merge, int(grid[2]) // merge) for _, grid in patches]
        labels = [
            said for step, size in zip(drawn, sizes, strict=True) for said in label_tokens(step.screen, *size, codec)
        ]
        pixels = codec.images.values([raw for raw, _ in patches], words.device)
        grid = torch.tensor([g.tolist() for _, g in patches], device=words.device)
        loss = seeing_loss(tower(pixels, grid_thw=grid).pooler_output, labels, words)
        rate = LEARNING_RATE * min(1, (number + 1) / WARMUP, 2 * (1 - number / total))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
        show(number + 1, total, f"loss {loss.item():.3f}")
    save_model(model, codec, out)
    return out
