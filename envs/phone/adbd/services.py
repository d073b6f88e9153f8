"""adb's smaller services: `reverse:`, `framebuffer:`, `root:` and some that the phone refuses."""

from __future__ import annotations

import struct

from mobilerl.envs.phone import render
from mobilerl.envs.phone.phone import Phone

Reversed = dict[str, str]
"""Address on the phone -> address on the host, for one connection."""
_HEADER = struct.Struct("<13I")
FRAMEBUFFER_VERSION = 1
MAX_REVERSED = 64
_OKAY = b"OKAY"


def _fail(text: str) -> bytes:
    return b"FAIL" + f"{len(text.encode()):04x}{text}".encode()


def reverse(request: str, table: Reversed) -> bytes:
    """Answers `reverse:REQUEST`. Rules are only stored, as no program on the phone connects to them."""
    verb, _, rest = request.partition(":")
    if request == "list-forward":
        listed = "".join(f"(reverse) {remote} {local}\n" for remote, local in table.items())
        return f"{len(listed):04x}{listed}".encode()
    if request == "killforward-all":
        table.clear()
        return _OKAY
    if verb == "killforward":
        return _OKAY if table.pop(rest, None) is not None else _fail(f"listener '{rest}' not found")
    if verb != "forward":
        return _fail(f"unknown reverse service: {verb}")
    norebind = rest.startswith("norebind:")
    remote, _, local = rest.removeprefix("norebind:").partition(";")
    if norebind and remote in table:
        return _fail(f"cannot rebind existing socket for {remote}")
    if len(table) >= MAX_REVERSED:
        return _fail("too many listeners")
    table[remote] = local
    return _OKAY


def framebuffer(phone: Phone) -> bytes:
    """Header and pixels for `framebuffer:` in the format of version 1: RGBA, 8 bits each."""
    image = render.draw_screen(phone).convert("RGBA")
    width, height = image.size
    data = image.tobytes()
    offsets = (0, 8, 16, 8, 8, 8, 24, 8)  # red, blue, green, alpha: offset and length in bits
    return _HEADER.pack(FRAMEBUFFER_VERSION, 32, len(data), width, height, *offsets) + data


SAID: dict[str, bytes] = {
    "root": b"adbd is already running as root\n",
    "unroot": b"adbd of an embedded phone always runs as root\n",
    "tcpip": b"an embedded phone always listens on its own TCP port\n",
}
"""Services that only return a message."""
