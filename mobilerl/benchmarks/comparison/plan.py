"""recipes/compare.toml: the variants to train, with their recipes and flags, and the groups to compare them in."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from mobilerl.config import validate
from mobilerl.config.types import Section
from mobilerl.envs.text_files import read_text

Flags = tuple[str, ...]


class Variant(Section):
    """A variant to train."""

    title: str
    recipe: str
    """Name of a packaged recipe."""
    flags: Flags = ()
    offline: bool = False
    """Whether it collects no episodes, so that the budget and the flags of online runs do not apply."""


class Group(Section):
    """Variants that are shown in one table. The first one is the reference for the others."""

    title: str
    members: Annotated[tuple[str, ...], Field(min_length=1)]


class Evaluation(Section):
    config: str
    flags: Flags = ()


Split = Literal["dev", "test"]


class Plan(Section):
    """`online` are flags of all online runs, `recipes` of all variants of a recipe; both precede a variant's own."""

    split: Split = "test"
    """Split to evaluate on."""
    templates: dict[Split, tuple[str, ...]] = {}
    """Templates to train and evaluate on for each split, of which none may be in both; without, all."""
    online: Flags
    evaluation: Evaluation
    recipes: dict[str, Flags] = {}
    variants: dict[str, Variant]
    groups: dict[str, Group]

    @model_validator(mode="after")
    def _scopes_are_disjoint(self) -> Plan:
        if shared := set(self.templates.get("dev", ())) & set(self.templates.get("test", ())):
            raise ValueError(f"templates: {min(shared)!r} is for both tuning (dev) and testing")
        return self

    @model_validator(mode="after")
    def _members_exist(self) -> Plan:
        grouped = {member for group in self.groups.values() for member in group.members}
        if unknown := grouped - self.variants.keys():
            raise ValueError(f"{min(unknown)!r} is a member of a group but no variant")
        return self

    def flags(self, name: str, seed: int, steps: int, extra: Sequence[str] = ()) -> list[str]:
        """Flags of a variant, with {seed} and {steps} filled in; `extra` is for online variants."""
        variant = self.variants[name]
        own = (*self.recipes.get(variant.recipe, ()), *variant.flags)
        if not variant.offline:
            scope = self.templates.get(self.split)
            own = (*self.online, *(("--tasks.templates", json.dumps(scope)) if scope else ()), *own, *extra)
        return [word.replace("{seed}", str(seed)).replace("{steps}", str(steps)) for word in own]

    def evaluation_flags(self, extra: Sequence[str]) -> list[str]:
        """Flags of the evaluation; templates among `extra` replace those of the plan."""
        scope = () if "--template" in extra else self.templates.get(self.split, ())
        words = [word for template in scope for word in ("--template", template)]
        return ["--split", self.split, *self.evaluation.flags, *words, *extra]

    def choose(self, names: Sequence[str]) -> list[str]:
        """Variants of these names or groups, in the plan's order; all without names. Raises ValueError if unknown."""
        members = {name: (name,) for name in self.variants} | {name: g.members for name, g in self.groups.items()}
        if unknown := [name for name in names if name not in members]:
            raise ValueError(f"there is no variant or group {unknown[0]!r}; choose from {', '.join(members)}")
        wanted = {member for name in names or self.variants for member in members[name]}
        return [name for name in self.variants if name in wanted]

    def tables(self, chosen: Sequence[str]) -> list[tuple[Group, list[str]]]:
        """Groups with their chosen members: those with two or more, unless an earlier one has the same comparisons, and
        the first group of each remaining variant."""
        cut = [(group, [m for m in group.members if m in chosen]) for group in self.groups.values()]
        shown = {member for _, members in cut if len(members) > 1 for member in members}
        tables: list[tuple[Group, list[str]]] = []
        for group, members in cut:
            repeated = any(members[:1] == before[:1] and set(members) <= set(before) for _, before in tables)
            if not repeated and (len(members) > 1 or not shown.issuperset(members)):
                tables.append((group, members))
                shown.update(members)
        return tables


def read_plan(path: Path) -> Plan:
    """Reads a plan. Raises ValueError naming the file and the field."""
    return validate(Plan, tomllib.loads(read_text(path)), str(path))
