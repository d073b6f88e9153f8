"""A script without `if __name__ == "__main__":`, which runs again in every rollout worker that imports it."""

from __future__ import annotations

import sys
from multiprocessing.process import current_process

UNGUARDED = 79
"""Exit code of such a worker."""
MESSAGE = (
    "this script would run again in every rollout worker: put what it does, the call of mobilerl.train included, below "
    'a line `if __name__ == "__main__":`, or set rollout.workers = 0'
)


def exit_if_imported_by_worker() -> None:
    """Ends this process if it is a worker that still imports the script, as multiprocessing itself finds out."""
    if getattr(current_process(), "_inheriting", False):
        sys.exit(UNGUARDED)
