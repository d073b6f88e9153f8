"""The documentation's links lead somewhere, and its tables of flags are those of the settings."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mobilerl.config import Recipe

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docker").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^|\n\n)(?: {4}.*\n?)+")
FLAG_ROW = re.compile(r"^\| `--([a-z_.]+)` \| `([^`]+)` \|", re.MULTILINE)
FLAG = re.compile(r"--((?:[a-z_]+\.)+[a-z_]+)")
NAMED_FILE = re.compile(r"`((?:mobilerl|envs|tests|recipes|docs|sft)/[\w/.-]+\.(?:py|md|toml|sh))`")
API_LINK = re.compile(r"api/\w+\.md#([\w.]+)\)")
MECHANISMS = sorted((ROOT / "docs" / "mechanisms").glob("*.md"))
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
WRITTEN = [*MECHANISMS, *GUIDES, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "adapters.md"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
each_mechanism = pytest.mark.parametrize("page", MECHANISMS, ids=lambda p: p.stem)


def prose(page: Path) -> str:
    return INDENTED.sub("\n", FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", head.strip().lower()) for head in heads)
    return {re.sub(r" +", "-", head.strip()) for head in plain}


@each_page
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT) and target.exists(), f"{page.name} links to {link}"
        if anchor and target.suffix == ".md" and target.parent.name != "api":
            assert anchor in anchors(target), f"{page.name} links to {link}; there are {sorted(anchors(target))}"


def default_of(flag: str) -> Any:
    """The default of a setting by its dotted name. Raises KeyError for a name that does not exist."""
    model: type[BaseModel] = Recipe
    *sections, name = flag.split(".")
    for section in sections:
        model = model.model_fields[section].annotation
    default = model.model_fields[name].default
    return list(default) if isinstance(default, tuple) else default


@each_mechanism
def test_the_flags_of_a_mechanism_exist_with_these_defaults(page: Path) -> None:
    flags = FLAG_ROW.findall(page.read_text(encoding="utf-8"))
    assert flags, "the page has no table of flags"
    for flag, written in flags:
        assert json.loads(written) == default_of(flag), f"{page.name}: --{flag}"


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


@each_mechanism
def test_the_code_of_a_mechanism_exists_and_is_in_the_reference(page: Path) -> None:
    names = API_LINK.findall(page.read_text(encoding="utf-8"))
    assert names, "the page names no code"
    reference = (ROOT / "docs" / "api" / "algorithms.md").read_text(encoding="utf-8")
    modules = re.findall(r"^::: (\S+)$", reference, re.MULTILINE)
    for name in names:
        assert defined(name), f"{page.name}: {name}"
        assert any(name == module or name.startswith(f"{module}.") for module in modules), f"{page.name}: {name}"


@pytest.mark.parametrize("page", [*GUIDES, *MECHANISMS], ids=lambda p: p.stem)
def test_every_flag_that_a_page_names_exists(page: Path) -> None:
    for flag in FLAG.findall(page.read_text(encoding="utf-8")):
        default_of(flag)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda p: p.stem)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    for name in NAMED_FILE.findall(page.read_text(encoding="utf-8")):
        if "NAME" not in name:
            assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda p: p.stem)
def test_every_module_of_the_reference_exists(page: Path) -> None:
    modules = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert modules and all(defined(module) for module in modules)


def test_an_adapter_has_at_most_sixty_lines() -> None:
    sizes = {f.name: len(f.read_text().splitlines()) for f in (ROOT / "mobilerl" / "adapters").glob("*.py")}
    assert len(sizes) > 4 and max(sizes.values()) <= 60, sizes
