"""What is said before verl is imported when it is not there, or another one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from mobilerl.config import ConfigError
from mobilerl.engines.verl import packages

GOOD = {"verl": "0.9.1", "ray": "2.60.0", "vllm": "0.24.0"}


def installed(monkeypatch, versions: dict[str, str]) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(packages, "version", version)


def test_known_versions_are_accepted(monkeypatch):
    installed(monkeypatch, GOOD)
    packages.check_packages()


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_package_is_named_with_its_cure(monkeypatch, name):
    installed(monkeypatch, {n: v for n, v in GOOD.items() if n != name})
    with pytest.raises(ConfigError, match=rf'needs {name}: pip install "mobilerl\[verl\]", or engine.type = "local"'):
        packages.check_packages()


@pytest.mark.parametrize(("name", "other"), [("verl", "0.8.0"), ("verl", "1.0.0"), ("ray", "3.0.0")])
def test_another_version_is_refused(monkeypatch, name, other):
    installed(monkeypatch, {**GOOD, name: other})
    with pytest.raises(ConfigError, match=f"{name} {other} is installed but this engine needs"):
        packages.check_packages()
