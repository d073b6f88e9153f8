"""Devices as Docker containers, on one engine or several: embedded phones, or Android emulators.

Every container is labelled with the name of its fleet (`LABEL`) and the process that owns it. Containers without the
label are never touched. What a killed owner left behind is removed when another process on its machine opens a fleet.
"""

from mobilerl.envs.docker_avd.engine import LABEL, ContainerSettings, Engine, Listed
from mobilerl.envs.docker_avd.owner import DETACHED
from mobilerl.envs.docker_avd.provider import DockerProvider

__all__ = ["DETACHED", "LABEL", "ContainerSettings", "DockerProvider", "Engine", "Listed"]
