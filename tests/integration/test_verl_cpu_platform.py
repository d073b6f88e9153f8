"""What tests/verl_cpu changes of verl so that it runs on a CPU, and when."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("verl", "vllm"))),
        reason="verl and vLLM are not installed: bash tests/install_verl_cpu.sh .venv",
    ),
]


def said(code: str, **variables: str) -> str:
    """What a new interpreter prints."""
    env = {name: value for name, value in os.environ.items() if name != "MOBILERL_VERL_CPU"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env | variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


def test_verl_is_as_published_unless_asked_for():
    code = (
        "import os, importlib.metadata as m; from verl.utils.device import get_device_name; print(get_device_name(),"
        " os.environ.get('VERL_ENGINE_DEVICE'), any('cpualias' in d.version for d in m.distributions(name='vllm')))"
    )
    assert said(code) == "cuda None False"
    assert said(code, MOBILERL_VERL_CPU="1") == "cpu cuda True"
