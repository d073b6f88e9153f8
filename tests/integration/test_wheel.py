"""The wheel, installed without the checkout: what it puts where, and its commands in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from mobilerl.records.files import load_trajectories

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "mobilerl", "envs", "sft", "recipes")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DISPLAY")}
ONE_ITERATION = """--train.iterations 1 --train.checkpoint_every 1 --eval.every 0 --fleet.count 2 --rollout.workers 0
    --rollout.tasks_per_iteration 1 --tasks.per_template 1 --tasks.templates TodoDue""".split()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # A copy, since setuptools builds beside the sources and takes what an earlier build left there.
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, folder]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def command(wheel, tmp_path_factory) -> Path:
    """The command `mobilerl` of an environment with this wheel and the packages of the tests' own."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True, env=ENVIRONMENT)
    [site] = venv.glob("lib/python*/site-packages")
    packages = Path(sysconfig.get_path("purelib"))  # whose own .pth files are not followed, and one of which is needed
    repairs = packages / "mobilerl_verl_cpu.pth"  # tests/install_verl_cpu.sh
    (site / "packages.pth").write_text(f"{packages}\n{repairs.read_text() if repairs.is_file() else ''}")
    return venv / "bin" / "mobilerl"


def test_one_package_is_installed_and_the_recipes_are_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"mobilerl"}
    recipes = {path.relative_to(ROOT).as_posix() for path in (ROOT / "recipes").rglob("*.toml")}
    checkpoint = {path.relative_to(ROOT).as_posix() for path in (ROOT / "recipes/generated/checkpoint").iterdir()}
    assert {f"mobilerl/{name}" for name in recipes | checkpoint} <= set(names)


def test_packages_called_envs_and_sft_stay_what_they_are(command, tmp_path):
    """Two of these names are on PyPI."""
    [site] = command.parents[1].glob("lib/python*/site-packages")
    words = f"-m pip install -q --no-deps --target {tmp_path} envs==1.4 sft==0.1.1"
    install = [sys.executable, *words.split()]
    if subprocess.run(install, capture_output=True).returncode:
        pytest.skip("envs and sft cannot be installed from PyPI here")
    code = (
        "from importlib.util import find_spec as find\n"
        "import mobilerl.envs.base, mobilerl.sft\n"
        "print(find('envs').origin, find('sft').origin, mobilerl.sft.__file__)"
    )
    options = {
        "cwd": tmp_path,
        "env": {**ENVIRONMENT, "PYTHONPATH": str(tmp_path)},
        "capture_output": True,
        "text": True,
    }
    done = subprocess.run([command.with_name("python"), "-c", code], **options)
    assert done.returncode == 0, done.stderr
    theirs, other, ours = done.stdout.split()
    assert theirs.startswith(str(tmp_path)) and other.startswith(str(tmp_path)) and ours.startswith(str(site))


def test_the_commands_run_without_the_checkout(command, tmp_path):
    def run(*words: str) -> str:
        done = subprocess.run([command, *words], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "demo" in run("--help")
    train = ("train", "--config", "adagrpo", "--run-dir", "run", *ONE_ITERATION)
    shipped = r'^model = "(.*/site-packages/mobilerl/recipes/generated/checkpoint)"$'
    model = re.search(shipped, run(*train, "--dry-run"), re.M)[1]
    assert not any(tmp_path.iterdir())
    small = ("--eval-flags", "--instances 2 --template TodoDue")
    said = run("run", "adagrpo", "--model", model, "--run-dir", "run", *small, *ONE_ITERATION)
    assert re.search(r"^\| AdaGRPO \| +[\d.]+% ", said, re.M) and (tmp_path / "run/view/index.html").is_file()
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") == 1
    expert = ("eval", "sim", "--config", "adagrpo", "--agent", "expert", "--instances", "1", "--template", "TodoDue")
    assert "100.0%" in run(*expert, "--out", "expert")
    said = run("demo")
    assert re.search(r"^task: .+", said, re.M) and re.search(r"^  action   .+", said, re.M)
    assert re.search(r"^[1-9]\d* of 11 tasks were solved", said, re.M)
    [path] = (tmp_path / "runs" / "demo").glob("eval/demo/trajectories/*.jsonl")
    longest = max(len(episode.steps) for episode in load_trajectories(path) if episode.success)
    assert len(re.findall(r"^step \d+", said, re.M)) == longest
    assert (tmp_path / "runs" / "demo" / "view" / "index.html").is_file()
