"""AndroidWorld's own controllers, on AndroidEnv's, drive a served phone. docs/devices.md says how to run this."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

from androidworld_stack import CHECKOUT, PYTHON, needs_androidworld
from phones import served

PROBES = Path(__file__).with_name("androidworld_probes.py")
WORKING = {"AndroidWorld's controllers": 103}
"""Calls that have a use on the phone."""


@needs_androidworld
def test_androidworlds_controllers_drive_the_phone():
    with served() as phone:
        command = [os.environ[PYTHON], str(PROBES), os.environ[CHECKOUT]]
        done = subprocess.run(command, env=phone.env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    calls = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"program"')]
    assert not [call for call in calls if call["error"]]
    assert Counter(call["program"] for call in calls if not call["reason"]) == WORKING
