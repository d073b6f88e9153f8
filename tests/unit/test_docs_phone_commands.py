"""Every command for a phone's shell in the documentation runs on an embedded phone."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
from test_docs import PAGES_OF_TODAY, ROOT

from mobilerl.cli import main
from mobilerl.envs.instructions.env import HARMLESS
from mobilerl.envs.phone.apps.catalogue import APPS
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import Shell
from mobilerl.envs.phone.shell.android import COMMANDS

ADB = re.compile(r"\badb (?:-s \S+ )?(?:shell|exec-out) ('[^']+'|[^`\n#]+)")
LISTED = re.compile(r"^ *(reset|start|check) = \[(.*?)\]\s*(?:#.*)?$", re.MULTILINE)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
SPAN = re.compile(r"`([^`\n]+)`")
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z_]+\b(?!\.)|\[|\.\.\.|://\w+$")
ANSWERS = {"check": (0, 1)}
"""Exit codes of commands that ask something."""


def commands(page: Path) -> list[tuple[str, str]]:
    """Kind and line of each command: what adb runs, what tasks list, and what the text quotes in full."""
    text = page.read_text(encoding="utf-8")
    found = [("adb", line.strip().strip("'")) for line in ADB.findall(text)]
    found += [(field, line) for field, lines in LISTED.findall(text) for line in QUOTED.findall(lines)]
    spans = (span for span in SPAN.findall(text) if " " in span and span.split()[0] in COMMANDS)
    found += [("span", span) for span in spans]
    return [(kind, line) for kind, line in found if kind not in ("adb", "span") or not PLACEHOLDER.search(line)]


FOUND = [(str(page.relative_to(ROOT)), *command) for page in PAGES_OF_TODAY for command in commands(page)]


@pytest.mark.parametrize(("page", "kind", "line"), FOUND, ids=lambda part: part)
def test_it_runs_on_an_embedded_phone(page, kind, line):
    result = Shell(Phone(APPS)).run(line)
    said = [text for text in result.stderr.decode().splitlines() if not HARMLESS.match(text)]
    assert result.exit_code in ANSWERS.get(kind, (0,)) and not said, f"{page}: {result}"


def test_the_file_of_the_page_on_instructions_runs_as_it_is(tmp_path, capsys):
    page = (ROOT / "docs" / "instructions.md").read_text(encoding="utf-8")
    file = textwrap.dedent(re.search(r"    # mine.toml\n(.*?)\n\nThen:", page, re.DOTALL)[1])
    (tmp_path / "mine.toml").write_text(file)
    words = ["eval", "instructions", str(tmp_path / "mine.toml"), "--agent", "finish", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (results["trials"], results["successes"], results["errors"]) == (2, 0, 0)
    assert "is not installed" not in capsys.readouterr().out
