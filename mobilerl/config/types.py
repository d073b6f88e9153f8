"""What the sections are made of: a strict base class and the ranges of numbers that recur."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainSerializer

from mobilerl.redaction import without_users, without_value

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]
Rate = Annotated[float, Field(gt=0.0)]
Url = Annotated[str, PlainSerializer(without_users)]
"""Saved without user and password."""
Variable = Annotated[str, PlainSerializer(without_value)]
"""`NAME=VALUE`, saved without the value, or `NAME`."""


class Section(BaseModel):
    """A strict section. Numbers are finite: what means "none" is null, which a saved recipe can hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


def chosen_by_type(default: str) -> Discriminator:
    """For a union of tagged sections: its member is chosen by `type`, without which it is `default`."""

    def type(value: Any) -> str:
        return value.get("type", default) if isinstance(value, Mapping) else getattr(value, "type", default)

    return Discriminator(type)
