"""Android's own commands. Unlike `toybox`, they do not use standard input, the current folder or variables."""

from __future__ import annotations

from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android import activity, dumps, inputs, packages, providers, services, system
from mobilerl.envs.phone.shell.command import Failure, Handler
from mobilerl.envs.phone.shell.lang.escapes import to_bytes

COMMANDS: dict[str, Handler] = {}
for _module in (activity, dumps, inputs, packages, providers, services, system):
    COMMANDS.update(_module.COMMANDS)


def run_command(phone: Phone, name: str, words: list[str]) -> tuple[bytes, bytes, int]:
    """Output, errors and exit code of one command."""
    words = [word if word.isascii() else to_bytes(word).decode(errors="replace") for word in words]
    try:
        out = COMMANDS[name](phone, words)
    except Failure as failure:
        message = f"{failure}\n" if str(failure) else ""
        return to_bytes(failure.stdout), to_bytes(message), failure.exit_code
    return out if isinstance(out, bytes) else to_bytes(out), b"", 0
