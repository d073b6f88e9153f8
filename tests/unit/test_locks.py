"""What pyproject.toml asks for, beside the lock files and what is imported."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mobilerl.doctor.packages import PACKAGE_OF

ROOT = Path(__file__).parents[2]
OWN = ("mobilerl", "envs", "sft")
ASIDE = {"pydantic-core", "markupsafe", "ray", "hydra", "omegaconf", "fastapi", "verifiers", "bench-env"}
"""Half of what pydantic, Jinja2, verl and OpenEnv are; and what has an environment of its own: verifiers, and
MobileGym's Python, which its checkout brings."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def asked(extra: str) -> list[Requirement]:
    found = []
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == "mobilerl":
            found += [r for inner in requirement.extras for r in asked(inner)]
        else:
            found.append(requirement)
    return found


CPU = ("constraints.txt", ["dev"], {"torch", "setuptools"})  # torch: the scripts install it; setuptools: any
GPU = ("recipes/cluster/constraints.txt", ["verl", "vllm", "tracking", "docker", "androidworld", "androidlab"], set())


@pytest.mark.parametrize(
    ("lock", "extras", "apart", "python"),
    [(*CPU, "3.11"), (*CPU, "3.12"), (*CPU, "3.13"), (*GPU, "3.11"), (*GPU, "3.12")],  # verl's limit is below 3.13
)
def test_a_lock_has_one_version_of_every_requirement(lock, extras, apart, python):
    lines = (ROOT / lock).read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    here = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    versions: dict[str, list[str]] = {}
    for pin in pins:
        assert [s.operator for s in pin.specifier] == ["=="], f"{pin} leaves a version open"
        if pin.marker is None or pin.marker.evaluate(here):
            versions.setdefault(canonicalize_name(pin.name), []).append(next(iter(pin.specifier)).version)
    wanted = [*map(Requirement, PROJECT["dependencies"]), *(r for extra in extras for r in asked(extra))]
    for requirement in wanted:
        if requirement.name not in apart:
            (version,) = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement}, but {lock} has {version}"
    assert all(len(found) == 1 for found in versions.values())


def imported() -> set[str]:
    """The first names of all modules that are imported anywhere."""
    nodes = [n for top in OWN for path in (ROOT / top).rglob("*.py") for n in ast.walk(ast.parse(path.read_text()))]
    names = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    names += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module and not n.level]
    return {name.partition(".")[0] for name in names}


def test_whatever_is_imported_is_asked_for():
    """Not left to come along with something else, which another version of it may end."""
    wanted = [*map(Requirement, PROJECT["dependencies"])]
    wanted += [requirement for extra in PROJECT["optional-dependencies"] for requirement in asked(extra)]
    modules = imported() - set(OWN) - sys.stdlib_module_names
    packages = {canonicalize_name(PACKAGE_OF.get(name, name)) for name in modules}
    assert packages - {canonicalize_name(requirement.name) for requirement in wanted} == ASIDE
