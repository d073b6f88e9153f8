"""The engines by name, and the packages they need."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from mobilerl.config import ConfigError, EngineSection
from mobilerl.engines import registry
from mobilerl.engines.registry import engine_kind

GOOD = {"verl": "0.9.1", "ray": "2.60.0", "vllm": "0.24.0+cu130"}
VERL, VLLM = EngineSection(type="verl"), EngineSection(type="vllm")


@pytest.fixture
def install(monkeypatch):
    def install(versions: dict[str, str]) -> None:
        def version(name: str) -> str:
            if name not in versions:
                raise PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: versions.get(name))
        monkeypatch.setattr(registry.metadata, "version", version)

    return install


@pytest.mark.parametrize(
    ("engine", "change", "said"),
    [
        (VERL, {"ray": None}, r"mobilerl\[verl\]"),
        (VERL, {"verl": "1.0.0"}, "verl 1.0.0"),
        (VLLM, {"vllm": None}, r"mobilerl\[vllm\]"),
        (VLLM, {"vllm": "0.23.1+cpu"}, "needs >=0.24"),
    ],
)
def test_a_missing_package_or_another_version_is_an_error_of_one_line(install, engine, change, said):
    install(GOOD)
    engine_kind(engine).check()
    install({name: v for name, v in (GOOD | change).items() if v})
    with pytest.raises(ConfigError, match=said) as error:
        engine_kind(engine).check()
    assert "\n" not in str(error.value)


def test_the_versions_are_those_of_the_extra():
    root = Path(__file__).parents[2]
    extra = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["vllm"]
    assert extra == [f"vllm{registry.VLLM['vllm']}"]
