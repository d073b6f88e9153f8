"""AndroidEnv's and AndroidWorld's own controllers drive a served phone.

    MOBILERL_ANDROIDWORLD=CHECKOUT MOBILERL_ANDROIDWORLD_PYTHON=PYTHON \\
        python tests/real/test_androidworld_controllers.py --table        # the table of docs/devices.md
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from phones import Served, served  # noqa: E402
from probing import Outcome, loaded, report, table  # noqa: E402

CHECKOUT, PYTHON = "MOBILERL_ANDROIDWORLD", "MOBILERL_ANDROIDWORLD_PYTHON"
PROBES = Path(__file__).with_name("androidworld_probes.py")
SECONDS = 900
MUST_WORK = 40
"""Of AndroidWorld's controller calls; 28 of 45 did before the phone was made for them."""


def run(phone: Served) -> dict[str, list[Outcome]]:
    """The outcomes of each program."""
    command = [os.environ[PYTHON], str(PROBES), os.environ[CHECKOUT]]
    done = subprocess.run(command, env=phone.env, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"{PROBES.name} failed: {done.stderr[-2000:]}")
    lines = [line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line]
    return {program: loaded(outcomes) for program, outcomes in lines}


@pytest.mark.skipif(
    not (os.environ.get(CHECKOUT) and os.environ.get(PYTHON)),
    reason=f"{CHECKOUT} names no checkout of AndroidWorld, or {PYTHON} no interpreter",
)
def test_androidworlds_controllers_drive_the_phone():
    with served() as phone:
        programs = run(phone)
    assert not (wrong := "\n".join(report(outcomes) for outcomes in programs.values()).strip()), wrong
    works = [o for o in programs["AndroidWorld's controllers"] if not o.reason]
    assert len(works) >= MUST_WORK


def main() -> int:
    with served() as phone:
        programs = run(phone)
    for program, outcomes in programs.items():
        print(table(program, outcomes) if "--table" in sys.argv else report(outcomes))
    return int(any(not o.held for outcomes in programs.values() for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
