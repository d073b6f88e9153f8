"""All apps of the phone, the launcher first, in the order of the home screen.

Installed packages add theirs as entry points of the group `mobilerl.phone_apps`, which are read when an app is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from mobilerl.envs.phone.app import App
from mobilerl.envs.phone.apps.board import Board
from mobilerl.envs.phone.apps.calculator import Calculator
from mobilerl.envs.phone.apps.calendar_app import Calendar
from mobilerl.envs.phone.apps.clock import Clock
from mobilerl.envs.phone.apps.contacts import Contacts
from mobilerl.envs.phone.apps.files import Files
from mobilerl.envs.phone.apps.launcher import Launcher
from mobilerl.envs.phone.apps.maps import Maps
from mobilerl.envs.phone.apps.messages import Messages
from mobilerl.envs.phone.apps.music import Music
from mobilerl.envs.phone.apps.notes import Notes
from mobilerl.envs.phone.apps.settings import Settings
from mobilerl.envs.phone.apps.shop import Shop
from mobilerl.envs.phone.apps.todo import Todo
from mobilerl.envs.plugins import LazyDict, LazyList, with_plugins

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


EXTRA_APPS: dict[str, type[App]] = {Board.authority: Board}
"""Apps that are only on the phones of tasks that ask for them (`sim reset --apps NAME`)."""
APPS: Sequence[type[App]] = LazyList(_apps)
APP_NAMES: Mapping[str, str] = LazyDict(lambda: {app.label: app.package for app in APPS})
"""Name under the icon -> package."""
