"""Replay of past trajectories."""

from mobilerl.algorithms.replay.adaptive import AdaptivePositiveReplay
from mobilerl.algorithms.replay.circular import CircularReplay
from mobilerl.algorithms.replay.prioritized import PrioritizedReplay, PriorityTerms

__all__ = ["AdaptivePositiveReplay", "CircularReplay", "PrioritizedReplay", "PriorityTerms"]
