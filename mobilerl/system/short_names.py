"""`envs` and `sft`, in a clone, as names of `mobilerl.envs` and `mobilerl.sft`, which they were before."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Finder(MetaPathFinder, Loader):
    def __init__(self, name: str) -> None:
        self._prefix = f"{name}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname.startswith(self._prefix) else None

    def exec_module(self, module: ModuleType) -> None:
        # The import system takes what is there afterwards: not a second module of the same file.
        sys.modules[module.__name__] = import_module(f"mobilerl.{module.__name__}")


def alias(name: str) -> None:
    """Makes the package `name`, which is being imported, and all in it the same as in mobilerl."""
    warnings.warn(f"import mobilerl.{name} instead of {name}", FutureWarning, stacklevel=2)
    sys.meta_path.insert(0, _Finder(name))
    sys.modules[name] = import_module(f"mobilerl.{name}")
