"""The links, flags, files and modules in the documentation exist."""

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
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docker").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^|\n\n)(?: {4}.*\n?)+")
FLAG_ROW = re.compile(r"^\| `--([a-z_.]+)` \| `([^`]+)` \|", re.MULTILINE)
FLAG = re.compile(r"--((?:[a-z_]+\.)+[a-z_]+)")
NAMED_FILE = re.compile(r"`((?:mobilerl|envs|tests|recipes|docs|sft)/[\w/.-]+\.(?:py|md|toml|sh))`")
MECHANISMS = sorted((ROOT / "docs" / "mechanisms").glob("*.md"))
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
SETTINGS = settings_of([Recipe])
WRITTEN = [*MECHANISMS, *GUIDES, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "adapters.md"]


def prose(page: Path) -> str:
    return INDENTED.sub("\n", FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", head.strip().lower()) for head in heads)
    return {re.sub(r" +", "-", head.strip()) for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT) and target.exists(), f"{page.name} links to {link}"
        if anchor and target.suffix == ".md" and target.parent.name != "api":
            assert anchor in anchors(target), f"{page.name} links to {link}; there are {sorted(anchors(target))}"


def default_of(flag: str, page: Path) -> Any:
    """The default of a setting for the algorithm that a page is named after, or else for AdaGRPO."""
    algorithm = page.stem if (ROOT / "recipes" / f"{page.stem}.toml").exists() else "adagrpo"
    value = Recipe(algorithm={"type": algorithm}).model_dump(mode="json")
    for name in flag.split("."):
        value = value[name]
    return value


@pytest.mark.parametrize("page", [*GUIDES, *MECHANISMS], ids=lambda p: p.stem)
def test_the_flags_that_a_page_names_exist_with_these_defaults(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for flag in FLAG.findall(text):
        assert flag in SETTINGS, f"{page.name} names --{flag}"
    for flag, written in FLAG_ROW.findall(text) if page in MECHANISMS else ():
        assert json.loads(written) == default_of(flag, page), f"{page.name}: --{flag}"


def defined(dotted: str) -> bool:
    """Whether `package.module[.name]` is there, without importing it."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:cut])
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.exists():
            names = {getattr(node, "name", "") for node in ast.parse(file.read_text(encoding="utf-8")).body}
            return cut == len(parts) or parts[cut] in names
    return False


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.stem)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    for name in NAMED_FILE.findall(page.read_text(encoding="utf-8")):
        if "NAME" not in name:
            assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda p: p.stem)
def test_every_module_of_the_reference_exists(page: Path) -> None:
    modules = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert modules and all(defined(module) for module in modules)
