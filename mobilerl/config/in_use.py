"""Finds settings that a recipe does not use, by the marks beside the settings (`mobilerl.config.marks`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mobilerl.config.flags import members
from mobilerl.config.marks import NotWith, OnlyWith, UsedBy, accepts, flag_value, format_value
from mobilerl.config.recipe import Recipe, recipe_with_plugins

Tables = Mapping[str, Any]
"""Values nested by section, such as the content of a recipe file."""


def find_unused(given: Tables, under: Tables, command: str = "", as_flags: bool = False) -> dict[str, str]:
    """The settings in `given` that have no effect in the recipe `under`, by dotted name, with the reason and the fix.

    A value that switches something off (0, false, empty, null) asks for nothing, so it is not among them. `command` is
    the one that is to run, such as `eval sim`; without it, settings of all commands are in use.
    """
    reasons = {name: _why(name, under, command, as_flags) for name in names(given) if value_of(name, under)}
    return {name: why for name, why in reasons.items() if why}


def drop_unused(recipe: Recipe) -> dict[str, Any]:
    """The recipe's settings, as JSON values nested by section, without those that it does not use."""
    tables = recipe.model_dump(mode="json")

    def keep_used(table: Tables, prefix: str = "") -> dict[str, Any]:
        inner = {k: keep_used(v, f"{prefix}{k}.") if isinstance(v, Mapping) else v for k, v in table.items()}
        return {k: v for k, v in inner.items() if v != {} and (isinstance(v, Mapping) or not _why(prefix + k, tables))}

    return keep_used(tables)


def is_read_by(name: str, under: Tables, command: str) -> bool:
    """Whether the command reads the setting at all."""
    mark = _commands_of(name, under)
    return mark is None or command in mark.commands


def _commands_of(name: str, under: Tables) -> UsedBy | None:
    """The mark nearest to the setting that says which commands read it; None if all do."""
    marks = [mark for info in info_of(name, under) for mark in info.metadata if isinstance(mark, UsedBy)]
    return marks[-1] if marks else None


def is_union(name: str, under: Tables) -> bool:
    """Whether a section has a `type` that says which settings it has."""
    infos = info_of(name, under)
    return bool(infos) and len(members(infos[-1].annotation)) > 1


def shared_settings(name: str, under: Tables) -> set[str]:
    """Keys of a section with a `type` that every type has from a common base class, with its default."""
    kinds = members(info_of(name, under)[-1].annotation)
    bases = set.intersection(*({base for base in kind.__mro__ if issubclass(base, BaseModel)} for kind in kinds))
    return {key for base in bases for key, info in base.model_fields.items() if not info.is_required()}


def names(tables: Tables, prefix: str = "") -> Iterator[str]:
    """Dotted names of the settings in nested tables."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from names(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def value_of(name: str, under: Tables) -> Any:
    """The value of a setting, by default that of its section's class; None if there is no such setting."""
    path = list(_path(name, under))
    return path[-1][1] if len(path) == name.count(".") + 1 else None


def differing(left: Tables, right: Tables) -> list[str]:
    """Dotted names of the settings in which two recipes differ, in the order of the sections."""
    every = dict.fromkeys([*names(left), *names(right)])
    return [name for name in every if value_of(name, left) != value_of(name, right)]


def info_of(name: str, under: Tables) -> list[FieldInfo]:
    """The fields on the way to a setting, its own last."""
    return [info for info, _ in _path(name, under)]


def _path(name: str, under: Tables) -> Iterator[tuple[FieldInfo, Any]]:
    """The fields and values on the way to a setting; ends early where there is none of that name."""
    section: type[BaseModel] | None = recipe_with_plugins()
    table: Any = under
    for part in name.split("."):
        info = section.model_fields.get(part) if section else None
        if info is None:
            return
        default = info.default
        table = table.get(part, default) if isinstance(table, Mapping) else getattr(table, part, default)
        yield info, table
        section = _section(info, table)


def _section(info: FieldInfo, table: Any) -> type[BaseModel] | None:
    """The class of a section, in a union that of its `type`; None for a setting."""
    found = members(info.annotation)
    if len(found) < 2:
        return next(iter(found), None)
    if isinstance(table, BaseModel):
        return type(table)
    kind = (table.get("type") if isinstance(table, Mapping) else None) or info.default.type
    return next((member for member in found if member.model_fields["type"].default == kind), None)


def _why(name: str, under: Tables, command: str = "", as_flags: bool = False) -> str:
    """Why a setting has no effect, and the fix; "" if it has one."""
    commands = _commands_of(name, under)
    if commands and command and command not in commands.commands:
        return f"{commands}, not for `mobilerl {command}`; leave it out"
    for mark in (mark for info in info_of(name, under) for mark in info.metadata):
        if isinstance(mark, NotWith) and accepts(mark.values, value_of(mark.setting, under)):
            return f"{mark}; leave it out"
        if isinstance(mark, OnlyWith) and name not in mark.any_of and _applies(mark, under, command):
            if why := _lacking(mark, under, command, as_flags):
                return why
    return ""


def _applies(mark: OnlyWith, under: Tables, command: str) -> bool:
    """Whether the condition holds for the command: not if that does not read what it depends on."""
    if mark.commands:
        return command in mark.commands
    return not command or any(is_read_by(switch, under, command) for switch in mark.any_of)


def _lacking(mark: OnlyWith, under: Tables, command: str, as_flags: bool) -> str:
    """Why none of the mark's settings makes another one effective; "" if one does. What the command does not read
    counts as it stands."""
    unused_switches = []
    for switch, values in mark.any_of.items():
        if accepts(values, value_of(switch, under)):
            read = not command or is_read_by(switch, under, command)
            if not read or not (why := _why(switch, under, command, as_flags)):
                return ""
            unused_switches.append(why)
    if unused_switches:
        return unused_switches[0]
    first = next(iter(mark.any_of))
    return _why(first, under, command, as_flags) or reason(mark, value_of(first, under), as_flags)


def reason(mark: OnlyWith, value: Any, as_flag: bool) -> str:
    """The condition, the `value` of its first setting, and the fix."""
    switch, values = next(iter(mark.any_of.items()))
    it = "it" if len(mark.any_of) == 1 else switch
    fix = f"add --{switch} {flag_value(values[0]) if values else 'VALUE'}" if as_flag else "set it as well"
    return f"{mark} ({it} is {format_value(value)}); {fix}, or leave this out"
