"""adb's device side: what the real `adb` server talks to when it connects to an embedded phone."""

from __future__ import annotations

from envs.phone.adbd.server import PhoneServer, ServedPhone

__all__ = ["PhoneServer", "ServedPhone"]
