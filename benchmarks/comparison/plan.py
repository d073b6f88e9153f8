"""recipes/compare.toml: what is trained, by which script and flags, and in which groups it is compared."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from mobilerl.config import validate
from mobilerl.config.types import Section

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]
"""Name of a variant and of the directory of its runs."""
Flags = tuple[str, ...]


class Variant(Section):
    """One set-up that is trained. `script` lies beside the plan and runs with RUN_DIR, SFT_DIR and EVALUATE=no."""

    title: str
    script: str
    flags: Flags = ()
    offline: bool = False
    """It collects no episodes: neither the budget nor the flags of online runs apply."""


class Group(Section):
    """Variants that are shown in one table. The first one is the reference of the others."""

    title: str
    members: Annotated[tuple[str, ...], Field(min_length=1)]


class Scope(Section):
    templates: tuple[str, ...] = ()
    """Trained on and evaluated; empty: all."""


class Evaluation(Section):
    config: str
    flags: Flags = ()


class Online(Section):
    flags: Flags


class Plan(Section):
    """`scripts`: flags of all variants of a script, before a variant's own."""

    scope: Scope = Scope()
    evaluation: Evaluation
    online: Online
    scripts: dict[str, Flags] = {}
    variants: dict[Name, Variant]
    groups: dict[str, Group]

    @model_validator(mode="after")
    def _names_fit(self) -> Plan:
        grouped = {member for group in self.groups.values() for member in group.members}
        if unknown := grouped - self.variants.keys():
            raise ValueError(f"{min(unknown)!r} is a member of a group but no variant")
        if alone := self.variants.keys() - grouped:
            raise ValueError(f"variant {min(alone)!r} is in no group")
        if both := self.variants.keys() & self.groups.keys():
            raise ValueError(f"{min(both)!r} is both a group and a variant")
        return self

    def flags(self, name: str, seed: int, steps: int, extra: Sequence[str] = ()) -> list[str]:
        """The arguments of a variant's script, with {seed} and {steps} filled in; `extra` is for online variants."""
        variant = self.variants[name]
        own = (*self.scripts.get(variant.script, ()), *variant.flags)
        if not variant.offline:
            templates = ("--tasks.templates", json.dumps(self.scope.templates)) if self.scope.templates else ()
            own = (*self.online.flags, *templates, *own, *extra)
        return [word.replace("{seed}", str(seed)).replace("{steps}", str(steps)) for word in own]

    def evaluation_flags(self, extra: Sequence[str]) -> list[str]:
        """Templates among `extra` replace the plan's."""
        templates = () if "--template" in extra else self.scope.templates
        return [*self.evaluation.flags, *(word for t in templates for word in ("--template", t)), *extra]

    def choose(self, names: Sequence[str]) -> list[str]:
        """The variants of these names or groups, in the plan's order; all if there are no names. ValueError."""
        for name in names:
            if name not in self.groups and name not in self.variants:
                known = ", ".join([*self.groups, *self.variants])
                raise ValueError(f"there is no variant or group {name!r}; choose from {known}")
        members = {name: group.members for name, group in self.groups.items()}
        wanted = {member for name in names for member in members.get(name, (name,))} or set(self.variants)
        return [name for name in self.variants if name in wanted]

    def tables(self, chosen: Iterable[str]) -> dict[str, Group]:
        """The groups with only their chosen members: those with two or more, and others for variants left out."""
        chosen = set(chosen)
        cut = {}
        for name, group in self.groups.items():
            if members := tuple(m for m in group.members if m in chosen):
                cut[name] = group.model_copy(update={"members": members})
        shown = {name for name, group in cut.items() if len(group.members) > 1}
        for name, group in cut.items():
            if not {m for other in shown for m in cut[other].members}.issuperset(group.members):
                shown.add(name)
        return {name: group for name, group in cut.items() if name in shown}


def read_plan(path: Path) -> Plan:
    """Raises ValueError naming the file and the field."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    return validate(Plan, data, str(path))
