"""Every setting is told in words, by help, by `mobilerl settings`, and by nothing else than its own text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Annotated, Literal

import pytest
from measured import processor_time
from pydantic import Field

from mobilerl.cli import main
from mobilerl.commands.settings import listing
from mobilerl.config import load_recipe
from mobilerl.config.describe import find, sections, settings
from mobilerl.config.types import Positive, Section, Share


def test_every_setting_has_a_meaning():
    assert [s.name for s in settings() if not s.meaning] == []


def test_every_section_says_what_it_is_about():
    assert [name for name, text in sections().items() if not text] == []


def test_settings_are_exactly_those_a_recipe_takes():
    """Each flag is accepted with its own default, and leaves the recipe as it is."""
    plain = [s for s in settings() if s.flag and not isinstance(s.default, tuple)]
    assert len(plain) > 120
    words = [f"{s.flag}={given(s.default)}" for s in plain]
    assert load_recipe(None, words) == load_recipe(None)


def given(value) -> str:
    return "null" if value is None else str(value)


class Inner(Section):
    """What is inside."""

    share: Share = 0.5
    """A part. (MobileRL, DigiRL eq. 4.3)"""


class Outer(Section):
    """Everything."""

    kind: Literal["a", "b"] = "a"
    """`a` or
    `b`."""
    boot_s: Annotated[float, Field(gt=0.0)] | None = None
    """Longest start."""
    capacity: Positive = 3
    """How many. Unit: trajectories."""
    pair: tuple[int, int] = (1, 2)
    bare: bool = True
    inner: Inner = Inner()
    listed: tuple[Inner, ...] = ()
    """Several."""


def test_types_ranges_units_and_papers():
    found = {s.name: s for s in settings(Outer)}
    assert list(found) == ["kind", "boot_s", "capacity", "pair", "bare", "inner.share", "listed", "listed[].share"]
    kind = found["kind"]
    assert (kind.kind, kind.choices, kind.meaning) == ("choice", ("a", "b"), "`a` or `b`.")
    boot = found["boot_s"]
    assert (boot.kind, boot.allowed, boot.unit, boot.default) == ("number or null", "above 0", "seconds", None)
    capacity = found["capacity"]
    assert (capacity.unit, capacity.allowed, capacity.meaning) == ("trajectories", "at least 1", "How many.")
    assert found["pair"].kind == "list of 2 integers" and found["pair"].meaning == ""
    assert found["bare"].choices == ("true", "false")
    share = found["inner.share"]
    assert share.allowed == "0 to 1" and share.flag == "--inner.share"
    assert [p.split(",")[0] for p in share.papers] == ["MobileRL", "DigiRL"]
    assert found["listed[].share"].flag == ""  # only a file can give it
    assert sections(Outer) == {"": "Everything.", "inner": "What is inside."}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("algorithm.replay.gamma", {"algorithm.replay.gamma"}),
        ("--train.seed", {"train.seed"}),
        ("[eval]", {s.name for s in settings() if s.section == "eval"}),
        ("popup_rate", {"phone.popup_rate"}),
        ("OpenAI endpoint proposer", {"sft.proposer_url"}),
        ("sft.sources", {s.name for s in settings() if s.name.startswith("sft.sources")}),
        ("", set()),
        ("zzz", set()),
    ],
)
def test_find(wanted, names):
    assert {s.name for s in find(wanted)} == names


def test_settings_command(capsys):
    assert main(["settings"]) == 0
    assert "algorithm.replay" in capsys.readouterr().out
    assert main(["settings", "fleet.boot_s"]) == 0
    said = capsys.readouterr().out
    assert "--fleet.boot_s" in said and "number, above 0; seconds; default 120" in said
    assert main(["settings", "gamma", "--json"]) == 0
    assert {"algorithm.replay.gamma"} <= {s["name"] for s in json.loads(capsys.readouterr().out)}
    assert main(["settings", "gama"]) == 2
    assert "did you mean 'gamma'" in capsys.readouterr().err


def test_the_listing_fits_its_width():
    lines = listing(settings(), width=80).splitlines()
    assert max(len(line) for line in lines if " " in line.strip()) <= 80


@pytest.mark.parametrize(("command", "shown", "hidden"), [("train", "algorithm", "sft"), ("sft", "sft", "algorithm")])
def test_help_teaches_and_is_quick(command, shown, hidden):
    code = "import sys; from mobilerl.cli import main\ntry: main(sys.argv[1:])\nfinally: print('torch' in sys.modules)"
    status, said, seconds = processor_time(code, command, "--help", enough=1.5)
    assert status == 0 and said.endswith("False\n") and seconds < 1.5
    names = re.findall(r"^  --([\w.]+)$", said, re.MULTILINE)
    wanted = [s.flag[2:] for s in settings() if s.flag and s.name.partition(".")[0] == shown]
    assert set(wanted) <= set(names) and not any(name.startswith(f"{hidden}.") for name in names)
    assert main_short(command).count("\n") < 25


def main_short(command: str) -> str:
    return subprocess.run([sys.executable, "-m", "mobilerl", command, "-h"], capture_output=True, text=True).stdout
