"""The languages of the phone's interface, and which of them a phone shows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache

from mobilerl.envs.phone.languages import ar, de
from mobilerl.envs.phone.languages.language import Language

ENGLISH = Language("en", "en-US", "English (United States)")
LANGUAGES = {language.code: language for language in (ENGLISH, de.GERMAN, ar.ARABIC)}


@lru_cache(maxsize=256)
def parse_locales(locales: str) -> tuple[Language, ...]:
    """The known languages of Android's setting `system_locales`, such as `de-DE,en-US`, in its order."""
    codes = (locale.strip().partition("-")[0] for locale in locales.split(","))
    return tuple(dict.fromkeys(LANGUAGES[code] for code in codes if code in LANGUAGES))


def current(locales: str) -> Language:
    """The first known language of `system_locales`; English when there is none."""
    return next(iter(parse_locales(locales)), ENGLISH)


def locales_for(codes: Sequence[str], seed: int) -> str:
    """`system_locales` of a phone that has the languages `codes`, one of which the seed chooses to be shown."""
    first = random.Random(f"{seed}/language").choice(list(codes))
    return ",".join(LANGUAGES[code].locale for code in (first, *(c for c in codes if c != first)))
