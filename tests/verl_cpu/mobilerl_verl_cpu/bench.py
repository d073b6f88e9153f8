"""`mobilerl bench gpu` with all of its phases, verl's included, at the size that two CPU cores bear.

    PYTHONPATH=.:tests:tests/verl_cpu python -m mobilerl_verl_cpu.bench [ARGUMENT ...]

Its processes are forks of one that has imported what they need.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from mobilerl_verl_cpu.launch import run

LIMIT_S = 1800
"""Far above what it takes; each phase has a deadline of its own."""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        status = run(["-m", "mobilerl", "bench", "gpu", *sys.argv[1:]], log, LIMIT_S)
        print(log.read_text(errors="replace"), end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
