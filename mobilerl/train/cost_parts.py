"""What every estimate of a cost is made of: its lines, and the size of one step on a device."""

from __future__ import annotations

from dataclasses import dataclass

from mobilerl.config import Recipe
from mobilerl.train.model_shape import ModelShape

MB = 2**20
PNG_BYTES_PER_PIXEL = 0.1
"""Of a screenshot of a phone; measured on the embedded phone."""
SCREEN_XML_BYTES = 7000
"""Of the same screens' XML; measured."""
TOKEN_BYTES = 36
"""A token id in a Python tuple: its place and its object."""
TEXT_TOKENS = {"compact": 90, "chat": 2000}
"""Of a prompt, by its layout: measured with the tiny model's whole-word tokenizer; and a guess for real ones."""
REAL_SCREEN = (1080, 2400)
"""Pixels of a device whose screen the recipe does not say."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the estimate. `low` is None where there is only one number."""

    group: str
    what: str
    low: float | None
    high: float
    unit: str
    how: str


@dataclass(frozen=True, slots=True)
class Step:
    """Sizes of one step on a device."""

    image_tokens: int
    prompt_tokens: int
    png_bytes: float
    memory_bytes: float

    @classmethod
    def of(cls, recipe: Recipe, shape: ModelShape) -> Step:
        agent = recipe.agent
        embedded = recipe.fleet.type == "embedded" and recipe.phone.suite == "sim"
        width, height = (recipe.phone.width, recipe.phone.height) if embedded else REAL_SCREEN
        image = shape.image_tokens(width, height, recipe.engine.max_pixels)
        prompt = agent.screenshots * image + TEXT_TOKENS[agent.layout]
        png = PNG_BYTES_PER_PIXEL * width * height
        tokens = TOKEN_BYTES * (prompt + 2 * agent.max_new_tokens)
        return cls(image, prompt, png, png + SCREEN_XML_BYTES + tokens)


def most_replayed(recipe: Recipe) -> int:
    """Trajectories in the replay at most."""
    replay, collect = recipe.algorithm.replay, recipe.collect
    if replay.type == "none":
        return 0
    refills = recipe.algorithm.credit.max_refills if recipe.algorithm.credit.drop_constant_groups else 0
    enter = collect.tasks_per_iteration * collect.group_size * (1 + refills)
    if replay.type == "adapr":
        enter = min(enter, replay.kappa)
    return replay.capacity if recipe.offline.trajectories else min(replay.capacity, enter * recipe.train.iterations)
