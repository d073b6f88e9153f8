"""All apps of the phone, the launcher first, in the order of the home screen."""

from __future__ import annotations

from envs.phone.app import App
from envs.phone.apps.calculator import Calculator
from envs.phone.apps.calendar_app import Calendar
from envs.phone.apps.clock import Clock
from envs.phone.apps.launcher import Launcher
from envs.phone.apps.notes import Notes
from envs.phone.apps.todo import Todo

APPS: tuple[type[App], ...] = (Launcher, Notes, Calculator, Calendar, Clock, Todo)
