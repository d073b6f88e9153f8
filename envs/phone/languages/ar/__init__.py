"""Arabic, as Android's own apps write it, with the digits 0 to 9, which many phones in Arabic show."""

from mobilerl.envs.phone.languages.ar.daily import DAILY
from mobilerl.envs.phone.languages.ar.leisure import LEISURE
from mobilerl.envs.phone.languages.ar.system import SYSTEM
from mobilerl.envs.phone.languages.language import Language

ARABIC = Language(
    code="ar",
    locale="ar-EG",
    name="العربية (مصر)",
    words={**SYSTEM, **DAILY, **LEISURE},
    rtl=True,
    first_weekday=5,
    weekday_letters="نثرخجسح",
)
