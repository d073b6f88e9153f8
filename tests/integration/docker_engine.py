"""A real Docker Engine for the tests: the one that answers, or one of their own, started and stopped here."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

IMAGE = "mobilerl-phone-test"
ROOT = Path(__file__).resolve().parents[2]


def answers() -> bool:
    return subprocess.run(["docker", "version"], capture_output=True, timeout=300).returncode == 0


@pytest.fixture(scope="module")
def docker_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an engine that has `IMAGE`, built from this machine's Python; DOCKER_HOST says it too.

    One at a time on a machine, whatever tests run beside these: two would take each other's routes away.
    """
    with open(Path(tempfile.gettempdir()) / "mobilerl-tests-docker.lock", "w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        yield from _engine(tmp_path_factory)


def _bridges() -> set[str]:
    """Networks of engines on this machine. An engine that ends leaves them."""
    return {path.name for path in Path("/sys/class/net").glob("br-*")}


def _engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("docker") is None or shutil.which("dockerd") is None or shutil.which("ldd") is None:
        pytest.skip("no Docker Engine here (apt-get install -y docker.io)")
    before, daemon = os.environ.get("DOCKER_HOST"), None
    if not answers():
        if os.getuid() != 0:
            pytest.skip("no Docker Engine answers, and only root can start one")
        folder = tmp_path_factory.mktemp("docker")
        os.environ["DOCKER_HOST"] = f"unix://{folder}/socket"
        with open(folder / "log", "wb") as log:
            places = ["--data-root", folder / "data", "--exec-root", folder / "exec", "--pidfile", folder / "pid"]
            pool = ["--default-address-pool", "base=10.213.0.0/16,size=24"]  # Docker's own has room for thirty networks
            bridges = _bridges()
            command = ["dockerd", "--host", os.environ["DOCKER_HOST"], *places, *pool]
            daemon = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + 90
        while not answers():
            if daemon.poll() is not None or time.monotonic() > until:
                daemon.kill()
                pytest.skip(f"dockerd does not start here: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.5)
    try:
        subprocess.run(
            ["bash", ROOT / "docker/phone/build-local.sh", IMAGE],
            check=True,
            timeout=1200,
            env={**os.environ, "PYTHON": sys.executable},
        )
        yield os.environ.get("DOCKER_HOST", "")
    finally:
        subprocess.run(["docker", "image", "rm", "-f", IMAGE], capture_output=True)
        if daemon is not None:
            subprocess.run(["docker", "network", "prune", "-f"], capture_output=True)
            daemon.terminate()
            daemon.wait(60)
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
    if daemon is not None:
        assert _bridges() <= bridges, "a network outlived its engine: its addresses are lost to later ones"
