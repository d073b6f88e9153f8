"""Value functions at work: features of trajectories, and heads with their optimisers."""

from mobilerl.algorithms.critics.encoder import Encoded, Encoder, Features
from mobilerl.algorithms.critics.trainer import ValueTrainer, seeded

__all__ = ["Encoded", "Encoder", "Features", "ValueTrainer", "seeded"]
