"""Training of value functions: features of trajectories, and value heads with their optimizers."""

from mobilerl.algorithms.critics.encoder import Encoded, Encoder, Features
from mobilerl.algorithms.critics.trainer import ValueTrainer, seed_torch

__all__ = ["Encoded", "Encoder", "Features", "ValueTrainer", "seed_torch"]
