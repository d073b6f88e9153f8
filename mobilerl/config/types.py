"""Building blocks of sections: a strict base class and common ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainSerializer, Tag

from mobilerl.system.redaction import without_users, without_value

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]
Rate = Annotated[float, Field(gt=0.0)]
Url = Annotated[str, PlainSerializer(without_users)]
"""URL that is saved without user and password."""
Variable = Annotated[str, PlainSerializer(without_value)]
"""`NAME`, or `NAME=VALUE`, which is saved without the value."""


class Section(BaseModel):
    """A strict section. Numbers must be finite; "none" is null rather than infinity, so that JSON can hold it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


def chosen_by_type(default: str) -> Discriminator:
    """Discriminator of a union of tagged sections by `type`, which defaults to `default`."""

    def type(value: Any) -> str:
        return value.get("type", default) if isinstance(value, Mapping) else getattr(value, "type", default)

    return Discriminator(type)


def union_of(sections: Mapping[str, type[Section]], default: str) -> Any:
    """Annotated union of sections by their `type`, which is `default` where it is not given."""
    tagged = tuple(Annotated[section, Tag(name)] for name, section in sections.items())
    return Annotated[Union[tagged], chosen_by_type(default)]  # noqa: UP007 - of a tuple


def type_of(section: type[Section]) -> str:
    """The value of `type` that selects a member of a union."""
    return section.model_fields["type"].default
