"""Folders that Python may take for packages: docker/ in a clone, and a clone seen from the folder around it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from mobilerl.system.installed import is_installed

ROOT = Path(__file__).parents[2]
WITHOUT_SDK = """
import sys
from importlib.machinery import PathFinder

class Finder:
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [""]) if name == "docker" else None  # the folder, not the installed SDK

sys.meta_path.insert(0, Finder)
import docker
assert docker.__file__ is None
from mobilerl.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "words", ["doctor", "fleet status", "train --dry-run --config recipes/adagrpo.toml --run-dir x"]
)
def test_the_folder_docker_is_not_the_sdk(words):
    command = [sys.executable, "-c", WITHOUT_SDK, *words.split()]
    flags = [] if words == "fleet status" else ["--fleet.type", "docker"]
    done = subprocess.run([*command, *flags], cwd=ROOT, capture_output=True, text=True, timeout=300)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode in (1, 2) and "pip install 'mobilerl[docker]'" in said and "Traceback" not in said


def test_a_folder_without_files_of_a_package_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "offline_runs").mkdir()
    assert not is_installed("offline_runs") and not is_installed("nosuch") and is_installed("numpy")
    (tmp_path / "offline_runs/__init__.py").touch()
    importlib.invalidate_caches()
    assert is_installed("offline_runs")


@pytest.mark.slow
def test_a_script_beside_a_clone_called_mobilerl_imports_the_installed_package(tmp_path):
    clone = tmp_path / "mobilerl"
    clone.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    for name in ("mobilerl", "envs", "sft", "recipes", "docker"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    build = f"from setuptools import build_meta; print(build_meta.build_editable({str(tmp_path)!r}))"  # pip install -e
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True, timeout=300)
    venv, environment = tmp_path / "venv", {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    install = [sys.executable, "-m", "pip", "--python", venv / "bin/python", "install", "-q", "--no-deps", "--no-index"]
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([*install, wheel], check=True, capture_output=True, env=environment, timeout=300)
    [site] = venv.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib"))  # whose own .pth files are not followed
    (tmp_path / "script.py").write_text("import mobilerl; from mobilerl import PhoneEnv; print(mobilerl.__file__)")
    done = subprocess.run(
        [venv / "bin/python", "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and f"{clone}/mobilerl/__init__.py" in done.stdout, done.stderr
