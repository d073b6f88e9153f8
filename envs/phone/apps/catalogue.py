"""All apps of the phone, the launcher first, in the order of the home screen.

Installed packages add theirs as entry points of the group `mobilerl.phone_apps`, which are read when an app is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from envs.phone.app import App
from envs.phone.apps.calculator import Calculator
from envs.phone.apps.calendar_app import Calendar
from envs.phone.apps.clock import Clock
from envs.phone.apps.contacts import Contacts
from envs.phone.apps.files import Files
from envs.phone.apps.launcher import Launcher
from envs.phone.apps.maps import Maps
from envs.phone.apps.messages import Messages
from envs.phone.apps.music import Music
from envs.phone.apps.notes import Notes
from envs.phone.apps.settings import Settings
from envs.phone.apps.shop import Shop
from envs.phone.apps.todo import Todo
from envs.plugins import LazyDict, LazyList, with_plugins

OWN: tuple[type[App], ...] = (
    Launcher,
    Settings,
    Contacts,
    Messages,
    Notes,
    Calculator,
    Calendar,
    Clock,
    Todo,
    Files,
    Shop,
    Music,
    Maps,
)


def _apps() -> list[type[App]]:
    for name_of in (attrgetter("package"), attrgetter("label")):  # no two apps may share either
        found = with_plugins({name_of(app): app for app in OWN}, "mobilerl.phone_apps", App, name_of)
    return list(found.values())


APPS: Sequence[type[App]] = LazyList(_apps)
APP_NAMES: Mapping[str, str] = LazyDict(lambda: {app.label: app.package for app in APPS})
"""Name under the icon -> package."""
