"""Fixtures of all tests."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
"""No deadlines: the machine may be busy."""

if adbutils := importlib.util.find_spec("adbutils"):
    # The adb that adbutils brings, whatever is on the PATH: Debian's 29.0.6 lacks `--one-device`.
    bundled = Path(adbutils.origin or "").parent / "binaries/adb"
    if bundled.is_file():
        os.environ.setdefault("ADBUTILS_ADB_PATH", str(bundled))

# Sums come out equal every time. And several tests share two cores, where threads would wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

# Every vLLM process would compile some small functions with gcc, which takes longer than a test uses them.
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")

LONGEST = (
    "test_verl_engine.py",
    "test_deepspeed.py",
    "test_recipes.py",
    "test_resume.py",
    "test_learning.py",
    "test_vllm_runs.py",
    "test_vllm_sampler.py",
    "test_verl.py",
    "test_vllm_server.py",
    "test_reachagent.py",
    "test_docker.py",
)
"""Files that take minutes, in the order in which they start. The two that need the cluster are far apart."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: at the end, one of them would keep a single process busy while the others are done."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


@pytest.fixture(autouse=True)
def wide_output() -> Iterator[None]:
    """Messages are not wrapped, so that tests can look for them."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "1000"
    yield
    os.environ.pop("COLUMNS")
    if before is not None:
        os.environ["COLUMNS"] = before


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """torch on one thread: sums come out equal every time. For a whole module: `pytest.mark.usefixtures`."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def one_cluster() -> Iterator[None]:
    """One Ray cluster with vLLM servers at a time on a machine: two would not find the memory."""
    with open(Path(tempfile.gettempdir()) / "mobilerl-tests-cluster.lock", "w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        yield
