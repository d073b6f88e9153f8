"""A language of the interface: translations of the texts that the apps and the system write, and its formats.

English is what the code is written in. Where an app makes a text, it marks it with `self.t("Delete")`, or with the
values that stand in it: `self.t("Delete {name}?", name=name)`. What users wrote and other data is never marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

COUNTED = r"\d+"
_VALUE = re.compile(r"\{(\w+)\}")
_DECIMAL = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Plural:
    """The forms of a text by its `count`, in Unicode's categories for Arabic; `other` holds for 0 and from 100 on."""

    two: str
    few: str
    many: str
    other: str

    def form(self, count: int) -> str:
        if count == 2:
            return self.two
        rest = count % 100
        return self.few if 3 <= rest <= 10 else self.many if rest >= 11 else self.other


Words = Mapping[str, str | Plural]


@dataclass(frozen=True, eq=False)
class Language:
    """`words` maps English texts to translations; those without one, such as a plugin's, are shown in English."""

    code: str
    locale: str
    name: str
    """What the language and its country are called in itself."""
    words: Words = field(default_factory=dict, repr=False)
    rtl: bool = False
    """Whether it is written from right to left, and its screens are mirrored."""
    decimal: str = "."
    first_weekday: int = 6
    """The day on which a week of the calendar begins; 0 is Monday."""
    weekday_letters: str = "MTWTFSS"

    def text(self, english: str, values: Mapping[str, object]) -> str:
        """The translation of `english`, with `values` put in."""
        found = self.words.get(english, english)
        if not isinstance(found, str):
            found = found.form(int(str(values["count"])))
        return found.format_map(values) if values else found

    def number(self, digits: str) -> str:
        """A number such as `1.5` with the language's decimal separator."""
        return digits.replace(".", self.decimal)

    def readings(self, shown: str) -> tuple[str, ...]:
        """What may stand on a screen of this language where an English one reads `shown`, itself included.

        A text does not tell its pattern's words from a name, so that there can be several.
        """
        return tuple(dict.fromkeys((*self._translations(shown), shown)))

    def _translations(self, shown: str) -> Iterator[str]:
        direct = self.words.get(shown)
        if isinstance(direct, str):
            yield direct
        for pattern, english in self._patterns:
            if match := pattern.fullmatch(shown):
                values = match.groupdict()
                inner = {name: next(iter(self._translations(value)), value) for name, value in values.items()}
                yield self.text(english, inner)
                yield self.text(english, values)
        if self.decimal != "." and _DECIMAL.fullmatch(shown):
            yield self.number(shown)

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        return [(_pattern(english), english) for english in self.words if "{" in english]


def _pattern(english: str) -> re.Pattern[str]:
    """Finds the values in a text that `english` was filled in for."""
    parts = _VALUE.split(english)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (rf"(?P<{name}>{COUNTED if name == 'count' else '.+'})" for name in parts[1::2])
    return re.compile("".join(parts))
