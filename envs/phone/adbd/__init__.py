"""The device side of adb, to which a real `adb` server connects."""

from mobilerl.envs.phone.adbd.server import ServedPhone

__all__ = ["ServedPhone"]
