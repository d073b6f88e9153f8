"""`python3 -m avd.cpu`: prints model and features of the host's CPU, which a snapshot depends on, in two lines."""

from __future__ import annotations

import sys
from pathlib import Path


def main(text: str) -> int:
    lines = [line.partition(":") for line in text.splitlines()]
    for names in (("model name",), ("flags", "Features")):
        print(next((value.strip() for name, _, value in lines if name.strip() in names), ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path("/proc/cpuinfo").read_text()))
