"""Seeing pre-training of a tiny model from scratch: first its vision tower, then finding what a screenshot shows.

A pretrained model sees words in an image and finds them. A random tower gives tokens that language layers cannot tell
apart, and with only an action's coordinates to learn from they do not begin to. So each image token within an element
of the screen is first trained to have the embeddings of the element's words and of the point that touches it, the
tower's weights alone. Then all weights learn from screenshots that are followed by a description of every element: nine
lookups where a demonstrated step has one, which is what it takes to leave the plateau of guessing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from mobilerl.envs.base import COORD_MAX
from mobilerl.models.codec import Codec
from mobilerl.models.loading import load_model, save_model
from mobilerl.policy.screen import Element, Screen
from mobilerl.sft.samples import ExpertStep, Sample

BATCH_SIZE = 16
LEARNING_RATE = 3e-3
WARMUP = 30
"""Optimizer steps over which the learning rate rises; it decays to 0 over the second half of all."""


def _name(element: Element) -> list[str]:
    return element.text.replace("|", " ").split()


def said_words(element: Element, codec: Codec) -> list[int]:
    """Ids of an element's words, of its states and of the point that touches it. The name counts twice in their sum: it
    is what a goal names and a description starts with, so that it has to stand out."""
    x, y = element.centre
    texts = [" ".join([*_name(element) * 2, *element.states]), str(x), str(y)]
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
    """Mean over image tokens (N, hidden) of the squared distance to the sum of their labels' embeddings `words`
    (vocabulary, hidden); those without any are left out. A cross-entropy would leave tokens free to be mostly
    something else, in which language layers find no words."""
    labeled = [i for i, said in enumerate(labels) if said]
    wanted = torch.stack([words[list(labels[i])].sum(0) for i in labeled])
    return (tokens[labeled] - wanted).square().sum(-1).mean()


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
    known: dict[int, list[list[int]]] = {}
    for number in range(total):
        drawn = rng.choices(range(len(steps)), k=BATCH_SIZE)
        patches = [codec.images.patches(steps[i].observation.screenshot) for i in drawn]
        for i, (_, size) in zip(drawn, patches, strict=True):
            if i not in known:
                known[i] = label_tokens(steps[i].screen, int(size[1]) // merge, int(size[2]) // merge, codec)
        labels = [said for i in drawn for said in known[i]]
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


def describing_samples(steps: Sequence[ExpertStep], codec: Codec, count: int, rng: random.Random) -> Iterator[Sample]:
    """`count` screenshots drawn from `steps`, each followed by a line for every element that can be acted on; none of
    those with fewer than two, in which there is nothing to find. Raises ValueError if that leaves none.

    A line has the words of its name in random order, the point that touches it, and its states: whatever word comes
    first, the rest can only be found on the screenshot. The first word comes again between the point's coordinates, so
    that each of them follows a word: finding what the current token says is learned much sooner than finding what an
    earlier one said (docs/results.md).
    """
    prompt: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "image"}]}]
    shown = [(step, [element for element in step.screen.elements if element.mark is not None]) for step in steps]
    several = [(step, marked) for step, marked in shown if len(marked) > 1]
    if not several:
        raise ValueError("sft.seeing_samples: no demonstrated screen has two elements to describe; set it to 0")
    for step, marked in rng.choices(several, k=count):
        lines = [_line(element, rng) for element in rng.sample(marked, len(marked))]
        images = (step.observation.screenshot,)
        yield Sample(codec.encode(prompt, images), codec.encode_response("".join(lines)), images)


def _line(element: Element, rng: random.Random) -> str:
    name = _name(element)
    rng.shuffle(name)
    x, y = map(str, element.centre)
    return " ".join([*name, x, *name[:1], y, *element.states]) + "\n"
