"""Installed packages against what mobilerl asks for, and against the versions it is tested with. Imports none."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from mobilerl.config import ConfigError
from mobilerl.doctor.check import Check, broken, missing, ok, warning

ROOT = Path(__file__).resolve().parents[2]
CHECKED_ELSEWHERE = {"verl", "vllm"}
"""Packages that are checked by the engines' own rules."""
PACKAGE_OF = {"yaml": "pyyaml", "PIL": "pillow"}
"""Modules that are not called as their package is."""
TORCH_FIRST = "torch==2.13.0"


def requirements(root: Path = ROOT) -> dict[str, list[str]]:
    """What is asked for, by extra; "" is what everything needs. From the sources where they are at hand."""
    if (root / "pyproject.toml").is_file():
        project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
        return {"": project["dependencies"], **project["optional-dependencies"]}
    from packaging.requirements import Requirement

    found: dict[str, list[str]] = {"": []}
    extras = metadata.metadata("mobilerl").get_all("Provides-Extra") or []
    for line in metadata.requires("mobilerl") or []:
        marker = Requirement(line).marker
        for extra in ["", *extras]:
            if marker is None and not extra or marker is not None and extra and marker.evaluate({"extra": extra}):
                found.setdefault(extra, []).append(line.partition(";")[0].strip())
    return found


def pins(root: Path = ROOT) -> dict[str, str]:
    """The versions mobilerl is tested with; {} where its sources are not at hand."""
    path = root / "constraints.txt"
    lines = path.read_text().splitlines() if path.is_file() else []
    pairs = (line.partition("#")[0].strip().partition("==") for line in lines)
    return {name.lower(): version for name, sign, version in pairs if sign}


def installed(extras: tuple[str, ...], asked: Mapping[str, list[str]], pinned: Mapping[str, str]) -> Iterator[Check]:
    """A line for every package of the extras."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield missing("packages", True, "packaging, which compares versions, is not installed", "pip install packaging")
        return
    seen: set[str] = set()
    waiting = [("", line) for line in asked.get("", ())] + [(e, line) for e in extras for line in asked.get(e, ())]
    while waiting:
        extra, line = waiting.pop(0)
        wanted = Requirement(line)
        name = wanted.name.lower()
        if name == "mobilerl":
            waiting[:0] = [(inner, more) for inner in wanted.extras for more in asked.get(inner, ())]
        elif name not in seen | CHECKED_ELSEWHERE:
            seen.add(name)
            yield package(wanted.name, str(wanted.specifier), pinned.get(name), extra)


def package(name: str, specifier: str, pin: str | None, extra: str) -> Check:
    """One package; `specifier` as in `>=2,<3`."""
    from packaging.specifiers import SpecifierSet

    whole = f"mobilerl[{extra}]" if extra else "mobilerl"
    fix = f"pip install '{TORCH_FIRST if name == 'torch' else whole}'"
    version = _version(name)
    if version is None:
        return missing(name, True, "not installed", fix)
    if not SpecifierSet(specifier).contains(version.partition("+")[0], prereleases=True):
        return broken(name, True, f"{version} is installed, {specifier} is needed", f"pip install '{name}{specifier}'")
    if pin is not None and version.partition("+")[0] != pin:
        return warning(name, f"{version}; tested with {pin}", f"pip install {name}=={pin}")
    return ok(name, version)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def engines(extras: tuple[str, ...]) -> Iterator[Check]:
    """verl, Ray and vLLM, by the rules of the engines that drive them."""
    if "verl" in extras:
        from mobilerl.engines.verl.packages import check_packages

        yield _by_rule("verl, vLLM, Ray", check_packages, "their versions fit together")
    elif "vllm" in extras:
        from mobilerl.engines.vllm.installed import check_installed

        yield _by_rule("vLLM", check_installed, "installed")


def _by_rule(name: str, rule: Callable[[], None], fine: str) -> Check:
    try:
        rule()
    except ConfigError as error:
        reason, _, fix = str(error).rpartition(": ")
        return missing(name, True, reason, fix)
    return ok(name, fine)


def installs(module: str | None) -> str:
    """A command for the first extra that asks for a module's package; "" if mobilerl does not ask for it."""
    top = (module or "").partition(".")[0]
    package = PACKAGE_OF.get(top, top).lower().replace("_", "-")
    for extra, lines in requirements().items():
        if package in (re.split(r"[\s\[<>=!~;]", line, maxsplit=1)[0].lower().replace("_", "-") for line in lines):
            whole = f"pip install 'mobilerl[{extra}]'" if extra else "pip install mobilerl"
            return f"pip install {TORCH_FIRST}, then {whole}" if package == "torch" else whole
    return ""
