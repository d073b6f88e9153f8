"""The lock files beside what pyproject.toml asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("python", ["3.11", "3.12"])
@pytest.mark.parametrize(
    ("lock", "extras", "apart"),
    [
        ("constraints.txt", ["dev"], {"torch", "setuptools"}),  # torch: the scripts install it; setuptools: any
        (
            "recipes/cluster/constraints.txt",
            ["verl", "vllm", "tracking", "docker", "androidworld", "androidlab"],
            set(),
        ),
    ],
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
