"""The packages of the phone: its apps, the helpers that test tools expect, and Android's own providers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mobilerl.envs.phone.phone import Phone

ADB_KEYBOARD = "com.android.adbkeyboard"
CLIPPER = "ca.zgrs.clipper"
FIRST_UID = 10_100
INSTALLED = {"com.android.notes", "com.android.tasks", "com.android.maps", ADB_KEYBOARD, CLIPPER}
"""Packages that count as installed by the user; all others came with the system."""
SYSTEM = (
    "android",
    "com.android.dialer",
    "com.android.inputmethod.latin",
    "com.android.permissioncontroller",
    "com.android.providers.contacts",
    "com.android.providers.media",
    "com.android.providers.settings",
    "com.android.providers.telephony",
    "com.android.shell",
    "com.android.systemui",
)
"""Packages without an app on the home screen."""
ACTIVITIES = {
    "com.android.settings": (".Settings",),
    "com.android.contacts": (".activities.PeopleActivity", ".activities.ContactEditorActivity"),
    "com.android.messaging": (".ui.conversationlist.ConversationListActivity",),
    "com.android.calculator2": (".Calculator",),
    "com.android.calendar": (".AllInOneActivity",),
    "com.android.deskclock": (".DeskClock",),
    "com.android.documentsui": (".files.FilesActivity",),
    CLIPPER: (".Main",),
}
"""Names under which Android's own apps have their main page. `DEFAULT_ACTIVITY` works for every app as well."""
DEFAULT_ACTIVITY = ".MainActivity"
PROVIDED = {
    "com.android.providers.contacts": "com.android.contacts",
    "com.android.providers.telephony": "com.android.messaging",
}
"""Providers and the app that holds their data."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    uid: int

    @property
    def system(self) -> bool:
        return self.name not in INSTALLED

    @property
    def path(self) -> str:
        if self.system:
            return f"/system/app/{self.name.rpartition('.')[2]}/{self.name.rpartition('.')[2]}.apk"
        return f"/data/app/~~{self.name}==/base.apk"


def names(phone: Phone) -> list[str]:
    """All packages, the apps first."""
    return [*phone.apps, ADB_KEYBOARD, CLIPPER, *SYSTEM]


def all_packages(phone: Phone) -> dict[str, Package]:
    """Name -> package, in the same order."""
    return {name: Package(name, 1000 if name == "android" else FIRST_UID + i) for i, name in enumerate(names(phone))}


def main_activity(package: str) -> str:
    """The activity behind the icon, in short form: `.Settings`."""
    return ACTIVITIES.get(package, (DEFAULT_ACTIVITY,))[0]


def full_name(package: str, activity: str) -> str:
    return package + activity if activity.startswith(".") else activity


def short_name(package: str, activity: str) -> str:
    """As Android shortens a class of the package itself: `.Settings`."""
    return activity.removeprefix(package) if activity.startswith(package + ".") else activity


def has_activity(package: str, activity: str) -> bool:
    known = (*ACTIVITIES.get(package, ()), DEFAULT_ACTIVITY)
    return full_name(package, activity) in {full_name(package, n) for n in known}


def top_activity(phone: Phone) -> tuple[str, str]:
    """Package and full name of the activity in front; the shade covers one, and does not replace it."""
    from mobilerl.envs.phone import panels

    if phone.panel is not None:
        package, activity = panels.component(phone, phone.panel)
        if activity:
            return package, activity
    package = phone.foreground.package
    return package, full_name(package, main_activity(package))
