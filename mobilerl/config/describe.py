"""Every setting in words: what it means, its unit, what it may be, its default and the paper it comes from.

The text below a field of a section is the only source of its meaning. `Unit: pixels.` at the end of it gives a unit
that the name does not say, and the name of a paper ("DigiRL eq. 4.3") its reference. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mobilerl.config.recipe import Recipe

PAPERS = {
    "MobileRL": "MobileRL, ICLR 2026, arXiv 2509.18119",
    "DigiRL": "DigiRL, NeurIPS 2024, arXiv 2406.11896",
    "DistRL": "DistRL, ICLR 2025, arXiv 2410.14803",
    "ReachAgent": "ReachAgent, NAACL 2025",
    "GRPO": "DeepSeekMath (GRPO), arXiv 2402.03300",
    "DAPO": "DAPO, arXiv 2503.14476",
    "AndroidWorld": "AndroidWorld, ICLR 2025, arXiv 2405.14573",
    "LoRA": "LoRA, ICLR 2022, arXiv 2106.09685",
    "DPO": "DPO, NeurIPS 2023, arXiv 2305.18290",
}
"""What a name in a setting's text stands for."""
UNITS = {"_s": "seconds", "_mb": "MiB", "_minutes": "minutes", "_tokens": "tokens", "pixels": "pixels",
         "_steps": "steps"}  # fmt: skip
"""Units that the end of a name says."""
_UNIT = re.compile(r"\s*Unit: ([^.]+)\.")
_KINDS = {int: "integer", float: "number", str: "text", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `flag` is "" for the fields of a list's entries, which only a file can give."""

    name: str
    kind: str
    """`integer`, `number`, `text`, `true or false`, `choice`, `list of ...`; " or null" where there may be none."""
    choices: tuple[str, ...]
    allowed: str
    """The range of a number, or the choices in words; "" when there is no limit."""
    unit: str
    default: Any
    required: bool
    meaning: str
    papers: tuple[str, ...]
    flag: str

    @property
    def section(self) -> str:
        return self.name.rpartition(".")[0]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def settings(kind: type[BaseModel] = Recipe) -> list[Setting]:
    """All settings below `kind`, in the order of the sections."""
    return list(_walk(kind, "", listed=False))


def sections(kind: type[BaseModel] = Recipe) -> dict[str, str]:
    """What each section is about, by its dotted name; "" is the recipe itself."""
    found = {"": inspect.cleandoc(kind.__doc__ or "")}
    for name, info in kind.model_fields.items():
        if _is_section(info.annotation):
            inner = sections(info.annotation)
            found[name] = field_texts(kind).get(name) or inner.pop("")
            found |= {f"{name}.{deeper}": text for deeper, text in inner.items() if deeper}
    return found


def find(wanted: str) -> list[Setting]:
    """The setting of that name, or those of that section, or those whose name or meaning holds every word of it."""
    every, wanted = settings(), wanted.strip().removeprefix("--").strip("[]. ")
    for matches in (
        [s for s in every if s.name == wanted or s.name.startswith(f"{wanted}[].")],
        [s for s in every if s.name.startswith((f"{wanted}.", f"{wanted}[]."))],
        [s for s in every if s.name.rpartition(".")[2] == wanted],
    ):
        if matches:
            return matches
    words = wanted.lower().split()
    return [s for s in every if words and all(w in f"{s.name} {s.meaning} {s.allowed}".lower() for w in words)]


def _walk(kind: type[BaseModel], prefix: str, listed: bool) -> Iterator[Setting]:
    texts = field_texts(kind)
    for name, info in kind.model_fields.items():
        if _is_section(info.annotation):
            yield from _walk(info.annotation, f"{prefix}{name}.", listed)
            continue
        yield _setting(prefix + name, info, texts.get(name, ""), listed)
        entry = next((a for a in get_args(info.annotation) if _is_section(a)), None)
        if entry is not None:
            yield from _walk(entry, f"{prefix}{name}[].", listed=True)


def _setting(name: str, info: FieldInfo, text: str, listed: bool) -> Setting:
    annotation = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    kind, choices, allowed = _type(annotation)
    unit = _UNIT.search(text)
    last = name.rpartition(".")[2]
    by_name = next((u for end, u in UNITS.items() if last.endswith(end)), "")
    numeric = kind.startswith(("integer", "number"))
    meaning = " ".join(_UNIT.sub("", text).split())
    return Setting(
        name, kind, choices, allowed,
        unit=unit[1] if unit else by_name if numeric else "",
        default=None if info.is_required() else info.default,
        required=info.is_required(),
        meaning=meaning,
        papers=tuple(full for short, full in PAPERS.items() if re.search(rf"\b{short}\b", meaning)),
        flag="" if listed else f"--{name}",
    )  # fmt: skip


def _type(annotation: Any) -> tuple[str, tuple[str, ...], str]:
    """(kind, choices, allowed values) of a type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kind, choices, allowed = _type(arguments[0])
        return kind, choices, _range(arguments[1:]) or allowed
    if origin in (Union, types.UnionType):
        kind, choices, allowed = _type(next(a for a in arguments if a is not type(None)))
        return f"{kind} or null", choices, allowed
    if origin is Literal:
        choices = tuple(map(str, arguments))
        return "choice", choices, ", ".join(choices)
    if origin is tuple:
        if _is_section(arguments[0]):
            return "list of tables", (), ""
        kind, choices, allowed = _type(arguments[0])
        count = "" if Ellipsis in arguments else f"{len(arguments)} "
        return f"list of {count}{kind}s", choices, allowed
    if annotation is bool:
        return _KINDS[bool], ("true", "false"), ""
    return _KINDS[annotation], (), ""


def _range(limits: tuple[Any, ...]) -> str:
    """`0 to 1`, `at least 1`, `above 0`."""
    flat = [m for limit in limits for m in (limit.metadata if isinstance(limit, FieldInfo) else [limit])]
    low = next((m for m in flat if isinstance(m, Ge | Gt)), None)
    high = next((m for m in flat if isinstance(m, Le | Lt)), None)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f"{low.ge:g} to {high.le:g}"
    parts = []
    if low is not None:
        parts.append(f"at least {low.ge:g}" if isinstance(low, Ge) else f"above {low.gt:g}")
    if high is not None:
        parts.append(f"at most {high.le:g}" if isinstance(high, Le) else f"below {high.lt:g}")
    return ", ".join(parts)


@cache
def field_texts(kind: type[BaseModel]) -> dict[str, str]:
    """The text below each field of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
    found = {}
    for field, below in pairwise(body):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            found[field.target.id] = inspect.cleandoc(str(below.value.value))
    return found


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
