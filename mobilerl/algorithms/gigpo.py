"""GiGPO (arXiv 2505.10978): compares episodes within their group, and steps with others taken in the same state.

    A(step t of episode i) = A_E(i) + step_weight * A_S(t, i)

A_E is the group-relative advantage of the episode's reward. For A_S, the steps of a group that were taken on the same
screen (an anchor state) form a subgroup in which discounted returns are compared.
"""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ET

import torch

from mobilerl.algorithms.advantages import group_relative
from mobilerl.algorithms.grouped import GroupAlgorithm, StepAdvantages
from mobilerl.config.algorithms import GiGPOSection
from mobilerl.envs.base import Observation
from mobilerl.records import Group

STATE_ATTRIBUTES = ("class", "resource-id", "text", "content-desc", "checked", "selected", "enabled")
"""Node attributes that distinguish screens; positions, indices and focus are ignored."""
SYSTEM_UI = "com.android.systemui"
"""Package of the status bar, which is ignored: its clock would make every screen a different state."""


class GiGPO(GroupAlgorithm):
    settings: GiGPOSection

    def group_advantages(self, group: Group) -> list[StepAdvantages]:
        reward = torch.tensor([t.reward for t in group.trajectories], dtype=torch.float64)
        lengths, states = group_states(group)
        settings = self.settings
        advantage = step_advantages(
            reward, lengths, states, settings.gamma, settings.step_weight, settings.normalize_std
        )
        return [part.tolist() for part in advantage.split(lengths.tolist())]


def step_advantages(
    reward: torch.Tensor,
    length: torch.Tensor,
    state: torch.Tensor,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    normalize_std: bool = True,
) -> torch.Tensor:
    """Step advantages of one group of B episodes with R steps in total.

        A_E(i)  = (r_i - mean r) / std r       over the group

    Args:
        reward: (B,) rewards of the episodes.
        length: (B,) number of steps of each episode.
        state: (R,) integer id of the state in which each step was taken, episode by episode.

    Returns:
        (R,) in reward's dtype.
    """
    episode = group_relative(reward, torch.zeros_like(length), normalize_std).repeat_interleave(length)
    return episode + step_weight * state_advantages(reward, length, state, gamma, normalize_std)


def state_advantages(
    reward: torch.Tensor, length: torch.Tensor, state: torch.Tensor, gamma: float, normalize_std: bool
) -> torch.Tensor:
    """A_S, which compares steps taken in the same state; arguments and result as in `step_advantages`.

        R(t, i) = gamma^(T_i - t) r_i          the return from step t on; the only reward comes with the last step T_i
        A_S     = (R - mean R) / std R         over the steps with the same state

    A_S = 0 for a state that was visited once or whose returns are all equal.
    """
    if int(length.sum()) != len(state):
        raise ValueError(f"{len(state)} states, but episodes of {int(length.sum())} steps")
    to_go = torch.cat([torch.arange(int(n) - 1, -1, -1) for n in length])
    returns = gamma ** to_go.to(reward.dtype) * reward.repeat_interleave(length)
    return group_relative(returns, state, normalize_std)


def group_states(group: Group) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (B,) lengths of a group's episodes and (R,) ids of the screens on which their steps were taken."""
    states = [state_key(s.observation) for t in group.trajectories for s in t.steps]
    number = {key: i for i, key in enumerate(dict.fromkeys(states))}
    return torch.tensor([len(t.steps) for t in group.trajectories]), torch.tensor([number[key] for key in states])


def state_key(observation: Observation) -> str:
    """Hash of the foreground app and the normalized UI tree: equal for the same screen of the same app."""
    digest = hashlib.sha256(observation.app.encode())
    try:
        nodes = ET.fromstring(observation.xml).iter("node")
        for node in nodes:
            if node.get("package") != SYSTEM_UI:
                digest.update(repr([node.get(name) for name in STATE_ATTRIBUTES]).encode())
    except ET.ParseError:  # a truncated dump: only an identical one is the same state
        digest.update(observation.xml.encode())
    return digest.hexdigest()
