"""Tools that drive Android phones over adb, adbutils and uiautomator2, on a served phone.

python tests/real/test_adb_tools.py --table         # the table of docs/devices.md
MOBILERL_UIAUTOMATOR2_PYTHON=PYTHON ...             # uiautomator2 too, with an interpreter that has it
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import adbutils_probes  # noqa: E402
from phones import Served, served  # noqa: E402
from probing import Outcome, loaded, report, table  # noqa: E402

PYTHON = "MOBILERL_UIAUTOMATOR2_PYTHON"
SECONDS = 300


@pytest.fixture(scope="module")
def phone() -> Iterator[Served]:
    with served() as found:
        yield found


def uiautomator2(phone: Served) -> dict[str, list[Outcome]]:
    probes = Path(__file__).with_name("uiautomator2_probes.py")
    done = subprocess.run(
        [os.environ[PYTHON], str(probes)], env=phone.env, capture_output=True, text=True, timeout=SECONDS
    )
    lines = [line.split("\t", 1) for line in done.stdout.splitlines() if "\t[{" in line]
    if not lines:
        raise RuntimeError(f"{probes.name} failed: {done.stderr[-2000:]}")
    return {program: loaded(outcomes) for program, outcomes in lines}


def test_every_public_call_of_adbutils_is_tried():
    named = {call.partition("(")[0] for call in adbutils_probes.probe.calls}
    assert adbutils_probes.public_calls() == named


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_adbutils_drives_the_phone(phone, monkeypatch):
    for name, value in phone.env.items():
        monkeypatch.setenv(name, value)
    assert not (wrong := report(adbutils_probes.run(phone))), wrong


@pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter with uiautomator2")
def test_uiautomator2_drives_the_phone_as_far_as_adb_goes(phone):
    assert not (wrong := "\n".join(map(report, uiautomator2(phone).values()))), wrong


def main() -> int:
    with served() as found:
        os.environ.update(found.env)
        programs = {adbutils_probes.probe.program: adbutils_probes.run(found)}
        if os.environ.get(PYTHON):
            programs |= uiautomator2(found)
    for program, outcomes in programs.items():
        print(table(program, outcomes) if "--table" in sys.argv else report(outcomes))
    return int(any(not o.held for outcomes in programs.values() for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
