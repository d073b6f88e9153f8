"""Building blocks of sections: a strict base class and common ranges of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainSerializer

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
