"""adb's device side: what the real `adb` server talks to when it connects to an embedded phone."""

from envs.phone.adbd.server import ServedPhone

__all__ = ["ServedPhone"]
