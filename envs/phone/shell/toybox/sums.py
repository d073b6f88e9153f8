"""`md5sum`, `sha1sum`, `sha256sum` and `base64`."""

from __future__ import annotations

import base64 as base64_codec
import binascii
import hashlib

from envs.phone.shell.command import Failure
from envs.phone.shell.toybox.call import Call, Program


def digest(call: Call) -> None:
    flags, names = call.options("b")
    for name, data in call.inputs(names):
        found = hashlib.new(call.name.removesuffix("sum"), data, usedforsecurity=False).hexdigest()
        call.out(f"{found}\n" if "b" in flags else f"{found}  {name}\n")


def base64(call: Call) -> None:
    flags, names = call.options("diw:")
    width = call.number(flags.get("w", "76"))
    for _, data in call.inputs(names):
        if "d" in flags:
            try:
                call.out(base64_codec.b64decode(b"".join(data.split()), validate="i" not in flags))
            except binascii.Error:
                raise Failure("base64: bad input") from None
            continue
        text = base64_codec.b64encode(data).decode()
        lines = [text[i : i + width] for i in range(0, len(text), width)] if width > 0 else [text]
        call.out("\n".join(lines) + "\n" * (width > 0 and bool(text)))


PROGRAMS: dict[str, Program] = {**dict.fromkeys(("md5sum", "sha1sum", "sha256sum"), digest), "base64": base64}
