"""Windows that the system draws over the apps: the notification shade, the recent apps, a call, and Clipper's page.

A panel is one `Page` of the phone and takes all touches while it is up. It is left with Back or Home.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mobilerl.envs.phone import telephony
from mobilerl.envs.phone.app import Host, Page
from mobilerl.envs.phone.apps.messages import RECEIVED, Messages
from mobilerl.envs.phone.ui import Node, Screen
from mobilerl.envs.phone.widgets import icon_button, item, label, section, switch_item, wide_button

SHADE, QUICK_SETTINGS, RECENTS, CLIPPER = "shade", "quick_settings", "recents", "clipper"
TILES = (
    ("Internet", "wifi", "global", "wifi_on", "0", "1"),
    ("Bluetooth", "bluetooth", "global", "bluetooth_on", "0", "1"),
    ("Do Not Disturb", "do_not_disturb", "global", "zen_mode", "0", "1"),
    ("Airplane mode", "airplane", "global", "airplane_mode_on", "0", "1"),
    ("Auto-rotate", "rotate", "system", "accelerometer_rotation", "0", "1"),
    ("Battery Saver", "battery", "global", "low_power", "0", "1"),
    ("Dark theme", "contrast", "secure", "ui_night_mode", "1", "2"),
    ("Night Light", "moon", "secure", "night_display_activated", "0", "1"),
)
"""Title, icon, settings namespace and key, and the values for off and on. The shade shows the first `FIRST_TILES`."""
FIRST_TILES = 4


def screen(phone: Host, page: Page) -> Screen:
    """The panel's content."""
    makers: dict[str, Callable[[Host], Screen]] = {
        SHADE: _shade,
        QUICK_SETTINGS: _quick_settings,
        RECENTS: _recents,
        telephony.CALL: _call,
        CLIPPER: _clipper,
    }
    return makers[page.name](phone)


def component(phone: Host, page: Page) -> tuple[str, str]:
    """Package and full activity name of the panel; the shade is a window without an activity."""
    launcher = phone.launcher.package
    return {
        SHADE: ("com.android.systemui", ""),
        QUICK_SETTINGS: ("com.android.systemui", ""),
        RECENTS: (launcher, f"{launcher}.RecentsActivity"),
        telephony.CALL: ("com.android.dialer", "com.android.incallui.InCallActivity"),
        CLIPPER: ("ca.zgrs.clipper", "ca.zgrs.clipper.Main"),
    }[page.name]


def _tile(phone: Host, tile: tuple[str, ...]) -> Node:
    title, icon, space, key, off, on = tile
    table, is_on = phone.settings[space], phone.is_on(space, key, off)
    row = switch_item(phone.t(title), is_on, lambda: table.update({key: off if is_on else on}), icon=icon)
    row.look = "quick_tile"
    return row


def _shade(phone: Host) -> Screen:
    t, now = phone.t, phone.now
    tiles = [_tile(phone, tile) for tile in TILES[:FIRST_TILES]]
    rows = _notifications(phone) or [label(t("No notifications"))]
    day = t("{weekday}, {month} {day}", weekday=t(f"{now:%a}"), month=t(f"{now:%b}"), day=now.day)
    return Screen(f"{phone.clock}  {day}", [*tiles, section(t("Notifications")), *rows])


def _quick_settings(phone: Host) -> Screen:
    return Screen(phone.t("Quick settings"), [_tile(phone, t) for t in TILES])


def unread(phone: Host) -> dict[str, str]:
    """The newest unread message of each conversation, newest conversation first."""
    messages = phone.apps.get(Messages.package)
    rows = messages.db["messages"] if messages is not None else []
    newest = {r["address"]: r["body"] for r in rows if r["type"] == RECEIVED and not r["read"]}
    return dict(reversed(newest.items()))


def _notifications(phone: Host) -> list[Node]:
    def open_thread(address: str) -> None:
        phone.open(Messages.package)
        messages = phone.apps[Messages.package]
        assert isinstance(messages, Messages)
        messages.open_thread(address)

    posted = phone.notifications
    rows = [item(*posted[tag], on_tap=partial(posted.pop, tag), icon="bell") for tag in reversed(posted)]
    rows += [item(name, body, on_tap=partial(open_thread, name), avatar=name) for name, body in unread(phone).items()]
    for row in rows:
        row.look = "card"
    return rows


def _recents(phone: Host) -> Screen:
    rows = []
    for app in phone.running():
        name = app.t(app.label)
        close = icon_button("close", phone.t("Close {app}", app=name), partial(phone.force_stop, app.package))
        rows.append(item(name, on_tap=partial(phone.open, app.package), icon=app.icon, trailing=[close]))
    if rows:
        rows.append(wide_button(phone.t("Clear all"), partial(_clear_all, phone)))
    return Screen(phone.t("Recent apps"), rows or [label(phone.t("No recent items"))])


def _clear_all(phone: Host) -> None:
    for app in phone.running():
        phone.force_stop(app.package)
    phone.close_panel(RECENTS)


def _call(phone: Host) -> Screen:
    t, call = phone.t, phone.call
    if call is None:
        return Screen(t("Phone"), [label(t("Call ended"))])
    if call.state == telephony.RINGING:
        said, buttons = "Incoming call", {"Answer": telephony.answer, "Decline": telephony.hang_up}
    else:
        said, buttons = "Ongoing call", {"End call": telephony.hang_up}
    rows = [wide_button(t(name), partial(act, phone)) for name, act in buttons.items()]
    return Screen(t("Phone"), [label(call.number, size=24, bold=True), label(t(said)), *rows])


def _clipper(phone: Host) -> Screen:
    return Screen("Clipper", [label(phone.t("Clipper service is running"))])
