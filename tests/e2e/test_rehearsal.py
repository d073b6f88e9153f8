"""recipes/paper/rehearse.sh: MobileRL's main table at tiny size, with the commands of docs/reproduce.md."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from prepared import program

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ROWS = ["base", "+ reasoning-free SFT", "+ reasoning SFT", "+ AdaGRPO"]
CHECKOUTS = [f"MOBILERL_ANDROID{name}" for name in ("WORLD", "WORLD_PYTHON", "LAB", "LAB_PYTHON")]
TINY = """--config --instances --template --step-cap --runs --suite.servers --fleet.type --task --rounds --interval
    --launch-wait --judge-python --sft.proposer_model""".split()
"""Flags for the size of the rehearsal and for its stand-ins; --config also has the overlay."""


def rehearse(out: Path, **checkouts: str) -> str:
    own = {"PATH": f"{program().parent}{os.pathsep}{os.environ['PATH']}", **checkouts}
    env = {name: value for name, value in os.environ.items() if name not in CHECKOUTS} | own
    command = ["bash", str(ROOT / "recipes/paper/rehearse.sh"), str(out)]
    done = subprocess.run(command, env=env, cwd=out.parent, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def commands(text: str) -> list[list[str]]:
    """The words of the lines that begin with mobilerl or python, without the options' values."""
    joined = text.replace("\\\n", " ")
    return [
        shlex.split(line, comments=True) for line in re.findall(r"^(?:\$| {3}) ((?:mobilerl|python) .+)", joined, re.M)
    ]


def flags_by_command(found: list[list[str]]) -> dict[tuple[str, ...], set[str]]:
    """Names of flags by `mobilerl` and what follows it up to the first flag."""
    flags: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for words in found:
        first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
        if words[0] == "mobilerl":
            flags[tuple(words[:first])] |= {word for word in words if word.startswith("--")}
    return flags


def check(said: str, tables: int) -> None:
    assert re.findall(r"^\| (\S[^|]*?) +\| +\d", said, re.M) == ROWS * tables
    page = flags_by_command(commands((ROOT / "docs/reproduce.md").read_text()))
    ran = flags_by_command(
        commands(said.replace("mobilerl eval sim", "mobilerl eval androidworld --protocol mobilerl"))
    )
    assert {words[1] for words in ran} == {"eval", "sft", "run"}
    missing = {words: flags - page[words] - set(TINY) for words, flags in ran.items()}
    assert not any(missing.values()), f"not in docs/reproduce.md: {missing}"


def test_the_table_without_checkouts(tmp_path):
    said = rehearse(tmp_path / "out")
    check(said, tables=1)
    assert "MOBILERL_ANDROIDWORLD is not set" in said and "MOBILERL_ANDROIDLAB is not set" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    again = ["bash", str(ROOT / "recipes/paper/rehearse.sh"), str(tmp_path / "out")]
    refused = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 2 and "exists already" in refused.stderr


@pytest.mark.skipif(not all(map(os.environ.get, CHECKOUTS)), reason=f"{', '.join(CHECKOUTS)} name no checkouts")
def test_the_tables_with_both_checkouts(tmp_path):
    check(rehearse(tmp_path / "out", **{name: os.environ[name] for name in CHECKOUTS}), tables=2)
