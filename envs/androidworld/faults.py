"""What can go wrong with an AndroidWorld server. `kind` is what an evaluation counts a lost episode under."""

from __future__ import annotations

from envs.base import InfraError, NoScore, TaskFault


class ServerFault(InfraError):
    """The server or its phone did not do what was asked."""

    kind = "infrastructure"


class Unreachable(ServerFault):
    """Nothing answers: the server is still starting, has died, or lives elsewhere."""


class WrongServer(ServerFault):
    """Something answers, but not as AndroidWorld does: waiting will not help."""


class EnvironmentFault(ServerFault, TaskFault):
    """AndroidWorld's own code raised while it set a task up or scored it."""

    kind = "environment"


class CheckFault(EnvironmentFault, NoScore):
    """AndroidWorld's check of the task raised."""


class NanScore(CheckFault):
    """The score is not a number."""

    kind = "nan"
