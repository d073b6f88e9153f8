"""Devices as Docker containers, on one engine or several: embedded phones, or Android emulators.

Every container carries `LABEL` with its fleet's name, and the process that owns it. Nothing without the label is ever
touched. What an owner that was killed has left is removed by the next one that opens a fleet where that one ran.
"""

from envs.docker_avd.engine import LABEL, ContainerSettings, Engine, Listed
from envs.docker_avd.owner import DETACHED
from envs.docker_avd.provider import DockerProvider

__all__ = ["DETACHED", "LABEL", "ContainerSettings", "DockerProvider", "Engine", "Listed"]
