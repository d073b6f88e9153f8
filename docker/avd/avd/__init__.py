"""The entry point of an emulator's container: `python3 -m avd` runs the emulator and exits when it exits.

Uses only the standard library. Settings are environment variables (settings.py); arguments after the image's name are
passed to the emulator.
"""

BAD_SETTINGS, BOOT_FAILED, CHILD_FAILED = 2, 3, 4
"""Exit codes of the container, in addition to the emulator's own."""


class Failure(Exception):
    """Ends the container with an exit code and one line that names the fix."""

    def __init__(self, message: str, code: int = CHILD_FAILED) -> None:
        super().__init__(message)
        self.code = code
