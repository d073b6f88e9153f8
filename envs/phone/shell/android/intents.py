"""Intents of `am start`: parsing them, finding the app that handles one, and opening its page."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

from mobilerl.envs.phone import packages, panels, telephony
from mobilerl.envs.phone.app import Page
from mobilerl.envs.phone.apps.contacts import Contacts
from mobilerl.envs.phone.apps.messages import Messages
from mobilerl.envs.phone.apps.settings import Settings
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.command import Failure, option

MAIN, VIEW, DIAL, CALL, SENDTO, INSERT = (
    f"android.intent.action.{n}" for n in ("MAIN", "VIEW", "DIAL", "CALL", "SENDTO", "INSERT")
)
HOME = "android.intent.category.HOME"
SETTINGS_ACTIONS = {
    "SETTINGS": "",
    "WIFI_SETTINGS": "Network & internet",
    "WIRELESS_SETTINGS": "Network & internet",
    "AIRPLANE_MODE_SETTINGS": "Network & internet",
    "BLUETOOTH_SETTINGS": "Connected devices",
    "DISPLAY_SETTINGS": "Display",
    "SOUND_SETTINGS": "Sound",
    "BATTERY_SAVER_SETTINGS": "Battery",
    "LOCATION_SOURCE_SETTINGS": "Location",
    "DATE_SETTINGS": "Date & time",
    "DEVICE_INFO_SETTINGS": "About phone",
}
"""`android.settings.<key>` -> the section of Settings that it opens; "" is the first page."""
SCHEMES = {
    "sms": "Messages",
    "smsto": "Messages",
    "geo": "Maps",
    "content://com.android.calendar": "Calendar",
    "content://contacts": "Contacts",
    "content://com.android.contacts": "Contacts",
}
"""Prefix of a VIEW intent's data -> the app. There is no browser, mail app or gallery."""
_WITH_VALUE = {"-a", "-c", "-d", "-f", "-n", "-p", "-t"}
_TEXT = {"-e", "--es", "--ez", "--ei", "--el", "--ef", "--esa", "--eia", "--ela", "--eu", "--ecn"}


@dataclass(slots=True)
class Intent:
    action: str
    component: str
    data: str
    mime: str
    category: str
    extras: dict[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The intent as `am` prints it, with long data shortened."""
        scheme, colon, rest = self.data.partition(":")
        data = f"{scheme}:{'//' if rest.startswith('//') else ''}..." if colon and len(rest) > 2 else self.data
        package, slash, activity = self.component.partition("/")
        parts = {
            **{"act": self.action, "cat": f"[{self.category}]" if self.category else "", "dat": data},
            **{"typ": self.mime, "cmp": f"{package}/{packages.short_name(package, activity)}" if slash else ""},
        }
        shown = " ".join(f"{key}={value}" for key, value in parts.items() if value)
        return shown + (" (has extras)" if self.extras else "")


def parse(words: list[str]) -> Intent:
    """Parses the intent from the arguments of `am`."""
    extras = {words[i + 1]: words[i + 2] for i, w in enumerate(words[:-2]) if w in _TEXT}
    component = option(words, "-n") or _bare_component(words)
    if component and "/" not in component:
        raise Failure(f"java.lang.IllegalArgumentException: Bad component name: {component}", 255)
    data = option(words, "-d") or next((w for w in words[-1:] if "://" in w and "-d" not in words), "")
    return Intent(option(words, "-a"), component, data, option(words, "-t"), option(words, "-c"), extras)


def _bare_component(words: list[str]) -> str:
    """A component given without -n, as in `am start com.android.settings/.Settings`."""
    last, before = words[-1] if words else "", words[-2:-1] + words[-3:-2]
    is_value = set(before[:1]) & _WITH_VALUE or set(before[1:]) & _TEXT
    return last if "/" in last and ":" not in last and not is_value else ""


def target(phone: Phone, intent: Intent) -> str | None:
    """Package of the app that handles an intent without a component, or None."""
    if intent.action == MAIN and intent.category == HOME:
        return phone.launcher.package
    if intent.action.removeprefix("android.settings.") in SETTINGS_ACTIONS:
        return Settings.package
    if intent.action in (CALL, DIAL):
        return "com.android.dialer" if intent.data.startswith("tel:") else None
    label = ""
    if intent.action == INSERT and "contact" in intent.mime:
        label = Contacts.label
    if intent.action in (VIEW, SENDTO):
        label = next(
            (a for start, a in SCHEMES.items() if f"{intent.data}/".startswith((f"{start}:", f"{start}/"))), ""
        )
    app = phone.app(label) if label else None
    return app.package if app is not None else None


def open_in(phone: Phone, package: str, intent: Intent) -> None:
    """Starts `package` at the page that the intent requests."""
    if package == phone.launcher.package:
        phone.home()
        return
    if package == packages.CLIPPER:
        phone.show_panel(Page(panels.CLIPPER))
        return
    if package == "com.android.dialer":
        telephony.dial(phone, unquote(intent.data.removeprefix("tel:")))
        return
    phone.launch(package)
    app = phone.apps[package]
    if isinstance(app, Settings):
        if section := SETTINGS_ACTIONS.get(intent.action.removeprefix("android.settings.")):
            app.open_section(section)
    elif isinstance(app, Contacts) and intent.action == INSERT:
        app.start_new(intent.extras.get("name", ""), intent.extras.get("phone", ""), intent.extras.get("email", ""))
    elif isinstance(app, Messages) and intent.data.partition(":")[0] in ("sms", "smsto"):
        app.start_message(unquote(intent.data.partition(":")[2].lstrip("/")), intent.extras.get("sms_body", ""))
    phone.invalidate()
