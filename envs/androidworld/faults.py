"""Faults of an AndroidWorld server. `kind` is the category under which an evaluation counts the lost episode."""

from __future__ import annotations

from mobilerl.envs.base import InfraError, NoScore, TaskFault


class ServerFault(InfraError):
    """The server or its phone did not do what was requested."""

    kind = "infrastructure"


class Unreachable(ServerFault):
    """Nothing answers: the server is still starting, has died, or has another address."""


class WrongServer(ServerFault):
    """Something answers, but not as AndroidWorld does. Waiting does not help."""


class EnvironmentFault(ServerFault, TaskFault):
    """AndroidWorld's own code raised while setting up or scoring a task."""

    kind = "environment"


class CheckFault(EnvironmentFault, NoScore):
    """AndroidWorld's check of the task raised."""


class NanScore(CheckFault):
    """The score is not a number."""

    kind = "nan"
