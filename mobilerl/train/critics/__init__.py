"""Value functions at work: they judge all that the replay holds, anew in each iteration, before it is drawn from."""

from __future__ import annotations

from pathlib import Path

import torch

from mobilerl.config import Recipe
from mobilerl.engines.base import Engine
from mobilerl.train.critics.base import Critic
from mobilerl.train.critics.digirl import DigirlCritic
from mobilerl.train.critics.distrl import DistrlCritic
from mobilerl.train.critics.features import Encoder

__all__ = ["Critic", "make_critic"]


def make_critic(recipe: Recipe, engine: Engine) -> Critic | None:
    """The one that the recipe names, on the features of the checkpoint the run began with."""
    settings = recipe.algorithm
    if settings.critic.type == "none":
        return None
    from mobilerl.engines.features import FrozenFeatures, features_device

    encoder = Encoder(FrozenFeatures(Path(recipe.model), recipe.engine.max_pixels, features_device(recipe.engine.type)))
    with torch.random.fork_rng(devices=[]):  # the same heads with every engine, and no draw of the engine's is spent
        torch.manual_seed(recipe.train.seed)
        if settings.critic.type == "digirl":
            return DigirlCritic(encoder, settings.critic, settings.digirl)
        return DistrlCritic(encoder, settings.critic, settings.distrl, engine)
