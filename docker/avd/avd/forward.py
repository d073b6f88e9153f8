"""The emulator's ports, handed on to whoever reaches the container.

The emulator binds its console and adb to 127.0.0.1 only. The same numbers are bound once more, on the container's own
address, where Docker sends what arrives at a published port. Binding 0.0.0.0 would fail: the emulator has the port
already. Other numbers would do, but then AndroidWorld, the fleet and adb would each need to be told, and adb's server,
which looks for emulators on 127.0.0.1:5555 to 5585, could find the same phone twice.
"""

from __future__ import annotations

import socket

from avd import BAD_SETTINGS, Failure
from avd.settings import Settings


def address(settings: Settings) -> str:
    """The address to bind; "" when nothing is to be handed on. Raises Failure."""
    if settings.forward != "auto":
        return "" if settings.forward == "none" else settings.forward
    try:
        found = socket.gethostbyname(socket.gethostname())
    except OSError:
        found = ""
    if not found or found.startswith("127."):
        cure = "give FORWARD_ADDRESS: an IPv4 address of the container, or none where it shares the host's network"
        raise Failure(f"the container's own address cannot be told ({found or 'it has none'}): {cure}", BAD_SETTINGS)
    return found


def ports(settings: Settings, with_tasks: bool) -> list[int]:
    return [settings.console_port, settings.adb_port, *([settings.task_port] if with_tasks else [])]


def command(own: str, port: int) -> list[str]:
    return ["socat", f"TCP-LISTEN:{port},bind={own},fork,reuseaddr,nodelay", f"TCP:127.0.0.1:{port},nodelay"]
