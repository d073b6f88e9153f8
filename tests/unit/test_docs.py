"""The links, anchors, flags, defaults, files and modules in the documentation exist."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from mobilerl.config import Recipe
from mobilerl.config.flags import settings_of

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *DOCS, *(ROOT / "docker").rglob("*.md")])
PAGES_OF_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^|\n\n)(?: {4}.*\n?)+")
FLAG_ROW = re.compile(r"^\| `--([a-z_.]+)` \| `([^`]+)` \|", re.MULTILINE)
SETTING_ROW = re.compile(r"^\| (\d+) \| `([a-z_.]+)` \| `([^`]+)` \|", re.MULTILINE)
FLAG = re.compile(r"--((?:[a-z_]+\.)+[a-z_]+)(?![\w-])")
OTHERS = ("env.", "collector.")
"""Flags of other programs: verifiers and node_exporter."""
NAMED_FILE = re.compile(r"`((?:mobilerl|envs|tests|recipes|docs|sft)/[\w/.-]+\.(?:py|md|toml|sh))`")
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
ALGORITHMS = {"GiGPO": "gigpo", "DigiRL and Filtered BC": "digirl", "DistRL": "distrl"}
"""Sections of docs/algorithms.md whose defaults are not AdaGRPO's."""
SETTINGS = settings_of([Recipe])
WIDTH = 130


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    return INDENTED.sub("\n", FENCED.sub("", text_of(page)))


def anchors(page: Path) -> list[str]:
    """Of the headings, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.+)$", FENCED.sub("", text_of(page)), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", head.strip().lower()) for head in heads)
    return [re.sub(r" +", "-", head.strip()) for head in plain]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT) and target.exists(), f"{page.name} links to {link}"
        if target.name == "api.md" and anchor.startswith("mobilerl."):
            assert defined(anchor), f"{page.name} links to {link}"
        elif anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {link}; there are {anchors(target)}"


@pytest.mark.parametrize("page", PAGES_OF_TODAY, ids=named)
def test_headings_have_anchors_of_their_own_and_lines_fit(page: Path) -> None:
    found = anchors(page)
    assert {head for head in found if found.count(head) > 1} == set()
    written = FENCED.sub("", text_of(page)).partition("<!-- comparison:begin -->")[0]
    assert [
        line for line in written.splitlines() if len(line) > WIDTH and not line.startswith(("|", "    ", "!["))
    ] == []
    assert not re.search(r"^(<{7}|>{7}) ", written, re.MULTILINE), "markers of a merge conflict"


def test_there_are_few_pages_and_the_site_lists_them_all() -> None:
    listed = re.findall(r"^ +- (?:[\w ]+: )?(\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*(page.name for page in DOCS), "index.md"]) and len(DOCS) <= 20


def default_of(flag: str, algorithm: str) -> Any:
    value = Recipe(algorithm={"type": algorithm}).model_dump(mode="json")
    for name in flag.split("."):
        value = value[name]
    return value


@pytest.mark.parametrize("page", PAGES_OF_TODAY, ids=named)
def test_the_flags_that_a_page_names_exist(page: Path) -> None:
    unknown = [flag for flag in FLAG.findall(text_of(page)) if flag not in SETTINGS and not flag.startswith(OTHERS)]
    assert unknown == []


def test_the_flags_of_an_algorithm_have_these_defaults() -> None:
    _, *parts = HEADING.split(text_of(ROOT / "docs" / "algorithms.md"))
    rows = 0
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        for flag, written in FLAG_ROW.findall(text):
            assert json.loads(written) == default_of(flag, ALGORITHMS.get(heading, "adagrpo")), f"{heading}: --{flag}"
            rows += 1
    assert rows > 40


def test_the_first_twenty_settings_have_these_defaults() -> None:
    rows = SETTING_ROW.findall(text_of(ROOT / "docs" / "recipes.md"))
    assert [int(number) for number, _, _ in rows] == list(range(1, 21))
    # The default of `suite.file` is that of another suite than the recipe's.
    wrong = [
        name for _, name, written in rows if name != "suite.file" and json.loads(written) != default_of(name, "adagrpo")
    ]
    assert wrong == []


def defined(dotted: str) -> bool:
    """Whether `package.module[.name]` is there, without importing it."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:cut])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists():
            names = {getattr(node, "name", "") for node in ast.parse(text_of(file)).body}
            return cut == len(parts) or parts[cut] in names
    return False


@pytest.mark.parametrize("page", PAGES_OF_TODAY, ids=named)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    for name in NAMED_FILE.findall(text_of(page)):
        if "NAME" not in name:
            assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_every_module_of_the_reference_exists() -> None:
    modules = re.findall(r"^::: (\S+)$", text_of(ROOT / "docs" / "api.md"), re.MULTILINE)
    assert len(modules) > 15 and all(defined(module) for module in modules)
