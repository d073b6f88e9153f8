"""`python3 -m avd.bake [FOLDER]`: makes the snapshot that containers start from. Run by docker/avd/bake.sh.

Installs the APKs of FOLDER/apks, runs AndroidWorld's set-up of its apps if the package is installed, adds the public
keys of FOLDER/keys, applies quiet settings, and saves the snapshot. FOLDER is removed at the end.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from avd import Failure, emulator, settings
from avd.adb import Adb, authorize
from avd.processes import say

INSTALL_S = 300.0


def main(folder: Path) -> int:
    try:
        wanted = settings.read(os.environ)
        bake(wanted, Adb(wanted.serial), folder)
    except Failure as failure:
        say(str(failure))
        return failure.code
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def bake(wanted: settings.Settings, adb: Adb, folder: Path) -> None:
    """Raises Failure before a snapshot is saved."""
    apks = sorted((folder / "apks").glob("*.apk"))
    for apk in apks:
        say(f"installing {apk.name}")
        if "Success" not in (said := adb.ask("install", "-r", "-g", str(apk), timeout=INSTALL_S)):
            raise Failure(f"{apk.name} was not installed: {said.splitlines()[-1] if said else 'adb says nothing'}")
    if importlib.util.find_spec("android_world") is not None:
        say("setting up AndroidWorld's apps; it downloads them, and taps through their first screens")
        set_up_androidworld(wanted)
    elif not apks:
        say("there are no APKs and no AndroidWorld: the snapshot will be a bare phone")
    for key in sorted((folder / "keys").glob("*.pub")):
        authorize(adb, key)
    emulator.quiet(adb)
    adb.ask("shell", "input", "keyevent", "KEYCODE_HOME")
    say(f"saving the snapshot {wanted.snapshot}")
    adb.emu("avd", "snapshot", "save", wanted.snapshot)
    names = [line.split()[1] for line in adb.emu("avd", "snapshot", "list").splitlines() if len(line.split()) > 2]
    if wanted.snapshot not in names:
        raise Failure(f"the emulator saved no snapshot {wanted.snapshot}: is the disk full?")


def set_up_androidworld(wanted: settings.Settings) -> None:
    """Runs the package's own set-up, like its flag `--perform_emulator_setup`. Needs the internet."""
    from android_world.env import env_launcher

    try:
        env = env_launcher.load_and_setup_env(
            console_port=wanted.console_port,
            emulator_setup=True,
            freeze_datetime=True,
            adb_path=shutil.which("adb") or "adb",
            grpc_port=wanted.grpc_port,
        )
        env.close()
    except Exception as error:  # the package has no error class of its own
        raise Failure(f"AndroidWorld's set-up failed: {type(error).__name__}: {str(error)[:300]}") from None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/bake")))
