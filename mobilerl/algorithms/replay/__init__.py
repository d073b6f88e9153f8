"""Replay of past trajectories. Every buffer has the methods of `Replay`."""

from mobilerl.algorithms.replay.adaptive import AdaptivePositiveReplay
from mobilerl.algorithms.replay.base import Replay
from mobilerl.algorithms.replay.circular import CircularReplay
from mobilerl.algorithms.replay.prioritized import PrioritizedReplay, PriorityTerms

__all__ = ["AdaptivePositiveReplay", "CircularReplay", "PrioritizedReplay", "PriorityTerms", "Replay"]
