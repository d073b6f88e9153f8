"""A `Transport` without a wire: the phone's shell, called directly."""

from __future__ import annotations

from collections.abc import Sequence

from mobilerl.envs.base import InfraError, ShellResult
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Shell, files
from mobilerl.envs.phone.shell.command import Failure


class InProcessTransport:
    """Implements `mobilerl.envs.base.Transport` on a phone of this process. Nothing can time out."""

    def __init__(self, phone: Phone, serial: str = "sim-0") -> None:
        self.serial = serial
        self.phone = phone
        self._shell = Shell(phone)

    def shell(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> ShellResult:
        result = self._shell.run(cmd)
        return ShellResult(
            result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace"), result.exit_code
        )

    def exec_out(self, cmd: Sequence[str] | str, timeout: float = 10.0) -> bytes:
        """Standard output and standard error together, as `adb exec-out` gives them."""
        result = self._shell.run(cmd)
        return result.stdout + result.stderr

    def push(self, data: bytes, path: str) -> None:
        try:
            files.write(self.phone, path, data)
        except Failure as failure:
            raise InfraError(f"{self.serial}: cannot push to {failure}") from None

    def pull(self, path: str) -> bytes:
        try:
            return files.read(self.phone, path)
        except Failure as failure:
            raise InfraError(f"{self.serial}: cannot pull {failure}") from None
