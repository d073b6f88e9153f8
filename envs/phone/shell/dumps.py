"""`dumpsys`: what the system's services say, as far as tools read it."""

from __future__ import annotations

from collections.abc import Callable

from envs.phone import packages, panels, telephony
from envs.phone.phone import Phone
from envs.phone.shell import dump_screen, dump_windows
from envs.phone.shell import packages as package_commands
from envs.phone.shell.command import Failure, Handler
from envs.phone.shell.dump_windows import pid, token


def dumpsys(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["-l"]:
        return "Currently running services:\n" + "".join(f"  {name}\n" for name in sorted(SERVICES))
    while words and words[0] in ("-t", "-T", "--priority"):
        words = words[2:]
    if words[:1] == ["--skip"]:
        words = []
    if not words:
        return "".join(f"DUMP OF SERVICE {n}:\n{dump(phone, [])}" for n, dump in sorted(SERVICES.items()))
    if words[0] not in SERVICES:
        raise Failure(f"Can't find service: {words[0]}", 20)
    return SERVICES[words[0]](phone, words[1:])


# --- the rest ------------------------------------------------------------------------------------------------------


def _battery(phone: Phone, words: list[str]) -> str:
    return (
        "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  Wireless powered: false\n"
        "  Dock powered: false\n  Max charging current: 500000\n  Max charging voltage: 5000000\n"
        "  Charge counter: 2550000\n  status: 2\n  health: 2\n  present: true\n  level: 85\n  scale: 100\n"
        "  voltage: 4200\n  temperature: 250\n  technology: Li-ion\n"
    )


def _location(phone: Phone, words: list[str]) -> str:
    longitude, latitude = phone.location
    return f"Location Manager State:\n  last location=Location[gps {latitude:.6f},{longitude:.6f} hAcc=5.0]\n"


def _wifi(phone: Phone, words: list[str]) -> str:
    on = phone.settings["global"].get("wifi_on") == "1"
    app = phone.app("com.android.settings")
    rows = [r["name"] for r in app.db["networks"] if r["connected"]] if app is not None and on else []
    info = f'SSID: "{rows[0]}", Supplicant state: COMPLETED, RSSI: -50' if rows else "SSID: <unknown ssid>"
    return f"Wi-Fi is {'enabled' if on else 'disabled'}\nmWifiInfo {info}\n"


def _package(phone: Phone, words: list[str]) -> str:
    known = packages.all_packages(phone)
    if words:
        return package_commands.pm(phone, ["dump", words[0]])
    return "".join(package_commands.dump_of(phone, p) for p in known.values())


def _input_method(phone: Phone, words: list[str]) -> str:
    shown = str(phone.tree().keyboard).lower()
    current = phone.settings["secure"].get("default_input_method", "")
    return (
        f"Current Input Method Manager state:\n  mCurMethodId={current}\n  mCurId={current}\n"
        f"  mInputShown={shown}\n  mShowRequested={shown} mShowExplicitlyRequested={shown}\n"
    )


def _telephony(phone: Phone, words: list[str]) -> str:
    number = phone.call.number if phone.call is not None and not phone.call.outgoing else ""
    return (
        f"last known state:\n  Phone Id=0\n    mCallState={telephony.state(phone)}\n"
        f"    mCallIncomingNumber={number}\n    mServiceState={{mVoiceRegState=0(IN_SERVICE)}}\n"
    )


def _meminfo(phone: Phone, words: list[str]) -> str:
    named = [w for w in words if not w.startswith("-")]
    if named and named[0] not in {a.package for a in (*phone.running(), phone.launcher)}:
        return f"No process found for: {named[0]}\n"
    if named:
        return (
            f"Applications Memory Usage (in Kilobytes):\nUptime: 100000 Realtime: 100000\n\n** MEMINFO in pid "
            f"{pid(phone, named[0])} [{named[0]}] **\n           TOTAL PSS:    65536            TOTAL RSS:   131072"
            f"      TOTAL SWAP PSS:        0\n"
        )
    rows = "".join(
        f"     65,536K: {a.package} (pid {pid(phone, a.package)})\n" for a in (*phone.running(), phone.launcher)
    )
    return (
        f"Applications Memory Usage (in Kilobytes):\nUptime: 100000 Realtime: 100000\n\nTotal PSS by process:\n{rows}"
        f"\nTotal RAM: 4,025,268K (status normal)\n Free RAM: 2,048,000K\n"
    )


def _notification(phone: Phone, words: list[str]) -> str:
    rows = "".join(
        f"    NotificationRecord({token(title)}: pkg=com.android.messaging user=UserHandle{{0}} id={i})\n"
        f"      android.title=String ({title})\n      android.text=String ({text})\n"
        for i, (title, text) in enumerate(panels.unread(phone).items())
    )
    return f"Current Notification Manager state:\n  Notification List:\n{rows}"


def _statusbar(phone: Phone, words: list[str]) -> str:
    shown = str(phone.panel is not None and phone.window_package == "com.android.systemui").lower()
    return f"  mExpandedVisible={shown}\n"


def _audio(phone: Phone, words: list[str]) -> str:
    level = phone.settings["system"].get("volume_music", "0")
    muted = str(level == "0").lower()
    return f"Stream volumes (device: index)\n- STREAM_MUSIC:\n   Muted: {muted}\n   streamVolume:{level}\n"


def _user(phone: Phone, words: list[str]) -> str:
    return "Users:\n  UserInfo{0:Owner:4c13} serialNo=0 isPrimary=true\n    State: RUNNING_UNLOCKED\n"


def _cpuinfo(phone: Phone, words: list[str]) -> str:
    return "Load: 0.0 / 0.0 / 0.0\n0% TOTAL: 0% user + 0% kernel\n"


SERVICES: dict[str, Callable[[Phone, list[str]], str]] = {
    "SurfaceFlinger": dump_screen.surface_flinger,
    "activity": dump_windows.activity,
    "alarm": lambda p, w: "Current Alarm Manager state:\n",
    "audio": _audio,
    "battery": _battery,
    "cpuinfo": _cpuinfo,
    "display": dump_screen.display,
    "input": dump_screen.input,
    "input_method": _input_method,
    "location": _location,
    "meminfo": _meminfo,
    "notification": _notification,
    "package": _package,
    "power": dump_screen.power,
    "statusbar": _statusbar,
    "telephony.registry": _telephony,
    "user": _user,
    "wifi": _wifi,
    "window": dump_windows.window,
}

COMMANDS: dict[str, Handler] = {"dumpsys": dumpsys}
