"""The program of an emulator's container: `python3 -m avd` runs the emulator, and ends when it ends.

On the standard library alone. Settings are environment variables (settings.py); what stands behind the image's name on
the command line goes to the emulator as it is.
"""

BAD_SETTINGS, BOOT_FAILED, CHILD_FAILED = 2, 3, 4
"""Exit codes of the container, beside the emulator's own."""


class Failure(Exception):
    """Ends the container: one line that names the cure, and the exit code."""

    def __init__(self, message: str, code: int = CHILD_FAILED) -> None:
        super().__init__(message)
        self.code = code
