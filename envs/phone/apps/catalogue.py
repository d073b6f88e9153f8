"""All apps of the phone, the launcher first, in the order of the home screen."""

from __future__ import annotations

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

APPS: tuple[type[App], ...] = (
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

APP_NAMES: dict[str, str] = {app.label: app.package for app in APPS}
"""Name under the icon -> package."""
