"""Facts about settings and sections, declared beside them in `Annotated`: when they are in use, and whether they may
differ when a run is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY: tuple[Any, ...] = ()
"""Accepted values of `OnlyWith` and `NotWith`: anything but empty, 0, false and null."""
EVAL_PLUGIN = "eval PLUGIN"
"""Evaluation on a suite of an installed package, as a command of `UsedBy`."""
WEB = ("eval miniwob", "eval mobilegym")
EVALUATIONS = ("eval sim", "eval generated", "eval instructions", "eval androidworld", *WEB, EVAL_PLUGIN)
"""All evaluations, as commands of `UsedBy`; those on pages of Chromium are in `WEB`."""


@dataclass(frozen=True, eq=False)
class OnlyWith:
    """In use only if one of the settings in `any_of`, itself in use, has one of its listed values."""

    any_of: Mapping[str, tuple[Any, ...]]
    commands: tuple[str, ...] = ()
    """Commands that it holds for; () for all."""

    def __str__(self) -> str:
        return f"only with {' or '.join(_condition(name, values) for name, values in self.any_of.items())}"


@dataclass(frozen=True)
class NotWith:
    """Not in use if the setting has one of the values."""

    setting: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"not with {_condition(self.setting, self.values)}"


@dataclass(frozen=True)
class UsedBy:
    """The commands that read a section or setting, as in `train` and `eval sim`; a setting's own mark replaces
    that of its section. A recipe may hold sections of other commands."""

    commands: tuple[str, ...]

    def __str__(self) -> str:
        return f"only for {' and '.join(f'`mobilerl {command}`' for command in self.commands)}"


@dataclass(frozen=True)
class Resumable:
    """May differ when a run is resumed, since it does not change what is learned."""

    from_checkpoint: bool = False
    """Whether only a run that has a checkpoint, which replaces what the setting names, may be resumed with another."""


RESUMABLE = Resumable()


def accepts(values: tuple[Any, ...], value: Any) -> bool:
    return value in values if values else bool(value)


def format_value(value: Any) -> str:
    """A value in a message: `false`, `'sim'` or `['a']`."""
    if value is None or isinstance(value, bool):
        return flag_value(value)
    return repr(list(value) if isinstance(value, tuple) else value)


def flag_value(value: Any) -> str:
    """A value as a word on the command line: `false`, `sim` or `''`."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value) or "''"


def _condition(name: str, values: tuple[Any, ...]) -> str:
    return f"{name} = {' or '.join(map(flag_value, values))}" if values else name
