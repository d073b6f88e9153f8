"""German, as Android's own apps write it."""

from mobilerl.envs.phone.languages.de.daily import DAILY
from mobilerl.envs.phone.languages.de.leisure import LEISURE
from mobilerl.envs.phone.languages.de.system import SYSTEM
from mobilerl.envs.phone.languages.language import Language

GERMAN = Language(
    code="de",
    locale="de-DE",
    name="Deutsch (Deutschland)",
    words={**SYSTEM, **DAILY, **LEISURE},
    decimal=",",
    first_weekday=0,
    weekday_letters="MDMDFSS",
)
