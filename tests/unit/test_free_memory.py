from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import random
from mobilerl.free_memory import give_back_free_memory

def resident_mb():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS"))) / 1024

held = [bytes(random.Random(i).randrange(20_000, 60_000)) for i in range(3000)]
del held[::2]
before = resident_mb()
give_back_free_memory()
print(before - resident_mb())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_what_was_freed_between_what_stays_goes_back_to_the_system():
    """120 MB in pieces, every second of which is freed: malloc alone would give nothing back."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert float(done.stdout) > 30


def test_where_there_is_nothing_to_give_back_nothing_happens(monkeypatch):
    from mobilerl import free_memory

    monkeypatch.setattr(free_memory.sys, "platform", "darwin")
    free_memory.give_back_free_memory()
    monkeypatch.setattr(free_memory.sys, "platform", "linux")
    monkeypatch.setattr(free_memory.ctypes, "CDLL", lambda name: object())
    free_memory.give_back_free_memory()
