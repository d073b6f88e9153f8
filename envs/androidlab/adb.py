"""adb with `adb root`, which AndroidLab's set-up needs."""

from __future__ import annotations

from mobilerl.envs.adb import AdbTransport

ROOT_S = 30.0


class LabTransport(AdbTransport):
    """One device of an adb server."""

    def root(self) -> str:
        """Restarts the device's adbd as root; returns what it says. The device is gone for a moment afterwards."""
        with self._service("root:", ROOT_S) as answer:
            return answer.rest().decode(errors="replace").strip()
