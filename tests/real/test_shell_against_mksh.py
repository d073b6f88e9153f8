"""The phone's shell against Debian's mksh and toybox: equal output and exit codes for equal files and scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from envs.phone.apps.launcher import Launcher
from envs.phone.phone import Phone
from envs.phone.shell import Session, Shell

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
def tools(tmp_path_factory) -> Path:
    """A folder with toybox's programs: nothing of GNU is called."""
    folder = tmp_path_factory.mktemp("toybox")
    assert TOYBOX is not None
    for name in subprocess.run([TOYBOX], capture_output=True, text=True, check=True).stdout.split():
        (folder / name).symlink_to(TOYBOX)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("phone") / "w"


def real(script: str, folder: Path, tools: Path) -> tuple[bytes, int]:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o666)
    assert MKSH is not None
    done = subprocess.run(
        [MKSH, "-c", f"umask 000; cd {folder}\n{script}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        env={"PATH": str(tools), "HOME": "/", "LC_ALL": "C.UTF-8"},
    )
    return done.stdout, done.returncode


def ours(script: str, folder: Path) -> tuple[bytes, int]:
    PHONE.reset(0)
    PHONE.files = {f"{folder}/{name}": data for name, data in FILES.items()}
    result = Shell(PHONE).run(f"cd {folder}\n{script}", Session())
    return result.stdout, result.exit_code


@pytest.mark.parametrize("script", WRITTEN, ids=lambda s: s[:40])
def test_scripts_written_by_hand(script, folder, tools):
    assert ours(script, folder) == real(script, folder, tools)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_scripts_from_the_grammar(script, folder, tools):
    assert ours(script, folder) == real(script, folder, tools)
