"""The languages of the phone's interface, each a file of translations here, and which of them a phone shows."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

from mobilerl.envs.phone.languages.language import Language, Plural


def _read(code: str) -> Language:
    found = tomllib.loads(resources.files(__package__).joinpath(f"{code}.toml").read_text(encoding="utf-8"))
    words = {key: Plural(**word) if isinstance(word, dict) else word for key, word in found.pop("words").items()}
    return Language(**found, words=words)


ENGLISH = Language("en", "en-US", "English (United States)")
LANGUAGES = {"en": ENGLISH, "de": _read("de"), "ar": _read("ar")}


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
