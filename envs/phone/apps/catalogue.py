"""All apps of the phone, the launcher first, in the order of the home screen."""

from __future__ import annotations

from envs.phone.app import App
from envs.phone.apps.launcher import Launcher
from envs.phone.apps.notes import Notes

APPS: tuple[type[App], ...] = (Launcher, Notes)
