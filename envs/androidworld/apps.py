"""AndroidWorld's apps: the name under the icon, the package, and the other names people and models use."""

from __future__ import annotations

import re
from collections.abc import Mapping

APPS: dict[str, str] = {
    "Audio Recorder": "com.dimowner.audiorecorder",
    "Broccoli": "com.flauschcode.broccoli",
    "Camera": "com.android.camera2",
    "Chrome": "com.android.chrome",
    "Clipper": "ca.zgrs.clipper",
    "Clock": "com.google.android.deskclock",
    "Contacts": "com.google.android.contacts",
    "Dialer": "com.google.android.dialer",
    "Files": "com.google.android.documentsui",
    "Joplin": "net.cozic.joplin",
    "Markor": "net.gsantner.markor",
    "Messages": "com.google.android.apps.messaging",
    "OpenTracks": "de.dennisguse.opentracks",
    "OsmAnd": "net.osmand",
    "Pro Expense": "com.arduia.expense",
    "Retro Music": "code.name.monkey.retromusic",
    "Settings": "com.android.settings",
    "Simple Calendar Pro": "com.simplemobiletools.calendar.pro",
    "Simple Draw Pro": "com.simplemobiletools.draw.pro",
    "Simple Gallery Pro": "com.simplemobiletools.gallery.pro",
    "Simple SMS Messenger": "com.simplemobiletools.smsmessenger",
    "Tasks": "org.tasks",
    "VLC": "org.videolan.vlc",
}
"""Name -> package. The lower-case name is also the one that AndroidWorld's `open_app` knows."""

ALIASES: dict[str, str] = {
    "arduia pro expense": "Pro Expense",
    "broccoli recipe": "Broccoli",
    "calendar": "Simple Calendar Pro",
    "draw": "Simple Draw Pro",
    "expense": "Pro Expense",
    "expenses": "Pro Expense",
    "gallery": "Simple Gallery Pro",
    "google chrome": "Chrome",
    "open tracks sports tracker": "OpenTracks",
    "phone": "Dialer",
    "recipe": "Broccoli",
    "retro": "Retro Music",
    "retro player": "Retro Music",
    "simple calendar": "Simple Calendar Pro",
    "simple draw": "Simple Draw Pro",
    "simple gallery": "Simple Gallery Pro",
    "simple sms": "Simple SMS Messenger",
    "sms": "Simple SMS Messenger",
    "sms messenger": "Simple SMS Messenger",
    "sports tracker": "OpenTracks",
    "system settings": "Settings",
    "tasks.org": "Tasks",
    "vlc player": "VLC",
}


def resolve(name: str, apps: Mapping[str, str] = APPS) -> str | None:
    """The name in `apps` that is meant, without regard to case, spacing, hyphens and a final "app"; else None."""
    known = {_plain(label): label for label in apps}
    known |= {_plain(alias): label for alias, label in ALIASES.items() if label in apps and _plain(alias) not in known}
    return known.get(_plain(name))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold()).removesuffix("app")
