"""recipes/compare.toml: what is trained, by which script and flags, and in which groups it is compared."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
VARIANT_FIELDS = {"title", "script", "flags", "offline"}


@dataclass(frozen=True, slots=True)
class Variant:
    """One set-up that is trained. `script` lies beside the plan and runs with RUN_DIR, SFT_DIR and EVALUATE=no."""

    name: str
    title: str
    script: str
    flags: tuple[str, ...] = ()
    offline: bool = False
    """It plays no episodes while it learns: neither the budget nor the flags of online runs are for it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Variants that are shown together. The first member is the one the others are compared with."""

    name: str
    title: str
    members: tuple[str, ...]

    @property
    def reference(self) -> str:
        return self.members[0]


@dataclass(frozen=True, slots=True)
class Plan:
    folder: Path
    """Where the scripts and the evaluations' recipe lie."""
    config: str
    """Recipe of all evaluations."""
    eval_flags: tuple[str, ...]
    """Of all evaluations."""
    templates: tuple[str, ...]
    """What is trained on and evaluated; empty: everything."""
    online_flags: tuple[str, ...]
    """Of every variant that is not offline, before its own."""
    variants: Mapping[str, Variant]
    groups: tuple[Group, ...]

    def words(self, variant: Variant, seed: int, steps: int, extra: Sequence[str] = ()) -> list[str]:
        """The script's arguments, with {seed} and {steps} filled in. `extra` goes to online variants, last."""
        flags = variant.flags if variant.offline else (*self.online_flags, *variant.flags, *extra)
        return [word.replace("{seed}", str(seed)).replace("{steps}", str(steps)) for word in flags]

    def evaluation_words(self, extra: Sequence[str]) -> list[str]:
        """Flags of an evaluation. Templates among `extra` replace the plan's."""
        templates = () if "--template" in extra else self.templates
        return [*self.eval_flags, *(word for t in templates for word in ("--template", t)), *extra]

    def choose(self, names: Sequence[str]) -> list[Variant]:
        """Variants by name, or by the name of their group; all of them when `names` is empty. In the plan's order.

        Raises ValueError for a name there is not, and for a chosen variant whose script is missing.
        """
        members = {group.name: group.members for group in self.groups}
        for name in names:
            if name not in members and name not in self.variants:
                known = ", ".join([*members, *self.variants])
                raise ValueError(f"there is no variant or group {name!r}; choose from {known}")
        wanted = {member for name in names for member in members.get(name, (name,))} or set(self.variants)
        chosen = [variant for name, variant in self.variants.items() if name in wanted]
        for variant in chosen:
            if not (self.folder / variant.script).is_file():
                path = self.folder / variant.script
                raise ValueError(f"variant {variant.name!r} is trained by {path}, which is not there: leave it out")
        return chosen

    def shown(self, chosen: Iterable[str]) -> list[Group]:
        """The groups with chosen members only: those with at least two, and more if a variant would be in none."""
        names = set(chosen)
        cut = [Group(g.name, g.title, tuple(m for m in g.members if m in names)) for g in self.groups]
        shown = [g.name for g in cut if len(g.members) > 1]
        for group in cut:
            covered = {m for g in cut if g.name in shown for m in g.members}
            if not covered.issuperset(group.members):
                shown.append(group.name)
        return [g for g in cut if g.name in shown]


def read_plan(path: Path) -> Plan:
    """Raises ValueError naming the file and what is wrong with it."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    try:
        return _plan(path.parent, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: a field is missing or of the wrong kind: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _plan(folder: Path, data: Mapping[str, Any]) -> Plan:
    of_script = {script: _words(flags) for script, flags in data.get("scripts", {}).items()}
    variants = {name: _variant(name, fields, of_script) for name, fields in data["variants"].items()}
    groups = tuple(Group(name, g["title"], tuple(g["members"])) for name, g in data["groups"].items())
    for group in groups:
        if group.name in variants:
            raise ValueError(f"{group.name!r} is both a group and a variant")
        if not group.members:
            raise ValueError(f"group {group.name!r} has no members")
        for member in group.members:
            if member not in variants:
                raise ValueError(f"group {group.name!r} has a member {member!r} that is no variant")
    alone = set(variants) - {member for group in groups for member in group.members}
    if alone:
        raise ValueError(f"variant {min(alone)!r} is in no group")
    evaluation, templates = data["evaluation"], data.get("scope", {}).get("templates", [])
    online = [*_words(data["online"]["flags"]), *(["--tasks.templates", json.dumps(templates)] if templates else [])]
    return Plan(folder, evaluation["config"], _words(evaluation.get("flags", [])), _words(templates), tuple(online),
                variants, groups)  # fmt: skip


def _variant(name: str, fields: Mapping[str, Any], of_script: Mapping[str, tuple[str, ...]]) -> Variant:
    """`of_script`: flags of all variants of a script, before a variant's own."""
    if not NAME.fullmatch(name):
        raise ValueError(f"variant {name!r} names a folder: small letters, digits and hyphens only")
    unknown = fields.keys() - VARIANT_FIELDS
    if unknown:
        raise ValueError(f"variant {name!r}: there is no field {min(unknown)!r}")
    script = fields["script"]
    flags = (*of_script.get(script, ()), *_words(fields.get("flags", [])))
    return Variant(name, fields["title"], script, flags, fields.get("offline", False))


def _words(flags: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(flags, list) or not all(isinstance(word, str) for word in flags):
        raise ValueError(f"flags are a list of texts, not {flags!r}")
    return tuple(flags)
