"""Entries that installed packages add to a registry through entry points."""

from __future__ import annotations

from collections import UserDict, UserList
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib.metadata import entry_points
from typing import Any, TypeVar

T = TypeVar("T")


class LazyDict(UserDict):
    """A dictionary that `make` creates when it is first accessed."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make

    @cached_property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        return self._make()


class LazyList(UserList):
    """A list that `make` creates when it is first accessed."""

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        self._make = make

    @cached_property
    def data(self) -> list[Any]:  # type: ignore[override]
        return self._make()


class PluginError(ValueError):
    """An installed package registers something that cannot be used. The message names the package."""


def with_plugins(
    own: Mapping[str, type[T]], group: str, kind: type[T], name_of: Callable[[type[T]], str]
) -> dict[str, type[T]]:
    """`own` and the subclasses of `kind` that the entry points of `group` name, each a class or a list of classes.

    Raises PluginError for one that cannot be loaded, is not such a class, or has a name that is taken.
    """
    found = dict(own)
    for point in entry_points(group=group):
        package = point.dist.name if point.dist else "?"
        where = f"the entry point {point.name} = {point.value} of {group}, of the installed package {package},"
        try:
            loaded = point.load()
        except Exception as error:  # another package's module may raise anything
            raise PluginError(f"{where} cannot be loaded ({error!r}): repair or uninstall the package") from error
        for made in loaded if isinstance(loaded, list | tuple) else [loaded]:
            if not (isinstance(made, type) and issubclass(made, kind)):
                raise PluginError(f"{where} is {made!r}, not a subclass of {kind.__module__}.{kind.__qualname__}")
            if (name := name_of(made)) in found:
                raise PluginError(f"{where} is called {name!r}, as another one is: rename it, or uninstall the package")
            found[name] = made
    return found
