"""The phone's shell against Debian's mksh and toybox: equal output and exit codes for equal files and scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from mobilerl.envs.phone.apps.launcher import Launcher
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Shell

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from shell_grammar import SCRIPTS  # noqa: E402

MKSH, TOYBOX = shutil.which("mksh"), shutil.which("toybox")
pytestmark = pytest.mark.skipif(
    MKSH is None or TOYBOX is None, reason="mksh and toybox are not installed (apt-get install mksh toybox)"
)
FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "b.txt": b"x y z\n\nlast",
    "d/c.txt": b"in d\n",
    "d/.hid": b"",
    "sp ace": b"s\n",
    "num": b"10\n9\n2\n2\n33\n",
}
WRITTEN = Path(__file__).with_name("shell_scripts.txt").read_text().split("\n%\n")
"""Written by hand; `%` on a line of its own stands between two."""
EXAMPLES = int(os.environ.get("MKSH_EXAMPLES", "150"))
PHONE = Phone((Launcher,))


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """A folder with toybox's programs (nothing of GNU is called) in `bin`, and place for the scripts in `w`."""
    work = tmp_path_factory.mktemp("mksh")
    (work / "bin").mkdir()
    for name in subprocess.run([TOYBOX], capture_output=True, text=True, check=True).stdout.split():
        (work / "bin" / name).symlink_to(TOYBOX)
    return work


def real(script: str, work: Path) -> tuple[bytes, int]:
    folder = work / "w"
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o666)
    done = subprocess.run(
        [MKSH, "-c", f"umask 000; cd {folder}\n{script}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        env={"PATH": str(work / "bin"), "HOME": "/", "LC_ALL": "C.UTF-8"},
    )
    return done.stdout, done.returncode


def ours(script: str, work: Path) -> tuple[bytes, int]:
    PHONE.reset(0)
    PHONE.files = {f"{work}/w/{name}": data for name, data in FILES.items()}
    result = Shell(PHONE).run(f"cd {work}/w\n{script}")
    return result.stdout, result.exit_code


@pytest.mark.parametrize("script", WRITTEN, ids=lambda s: s[:40])
def test_scripts_written_by_hand(script, work):
    assert ours(script, work) == real(script, work)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_scripts_from_the_grammar(script, work):
    assert ours(script, work) == real(script, work)
