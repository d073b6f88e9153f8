"""`python3 -m avd.health`: exits 0 when the container is ready and adb still sees its phone."""

from __future__ import annotations

import os
import sys

from avd import Failure, settings
from avd.adb import Adb


def main() -> int:
    try:
        wanted = settings.read(os.environ)
        if not wanted.ready_file.exists():
            print("starting: the phone is not ready yet")
            return 1
        state = Adb(wanted.serial).says("get-state")
    except Failure as failure:
        print(failure)
        return 1
    print(f"{wanted.serial}: {state or 'adb does not see it'}")
    return 0 if state == "device" else 1


if __name__ == "__main__":
    sys.exit(main())
