"""`dumpsys`: the state of the system services, as far as tools read it."""

from __future__ import annotations

from mobilerl.envs.phone import packages, telephony
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android import packages as package_commands
from mobilerl.envs.phone.shell.android.activity import task_id
from mobilerl.envs.phone.shell.command import Failure, Handler

FIRST_PID = 2000
DISPLAY_ID = "4619827259835644672"


def pid(phone: Phone, package: str) -> int:
    """Process id of a package; it never changes."""
    return FIRST_PID + task_id(phone, package)


def _token(name: str) -> str:
    """A made-up object address that depends only on the name."""
    return f"{sum(ord(c) * 31 ** (i % 5) for i, c in enumerate(name)) % 2**28:07x}"


def _record(phone: Phone) -> str:
    package, activity = packages.top_activity(phone)
    name = packages.short_name(package, activity)
    return f"ActivityRecord{{{_token(package)} u0 {package}/{name} t{task_id(phone, package)}}}"


def _focus(phone: Phone) -> str:
    package, (top, activity) = phone.window_package, packages.top_activity(phone)
    if package == "com.android.systemui" and phone.panel is not None:
        return f"Window{{{_token('shade')} u0 NotificationShade}}"
    name = f"{package}/{activity}" if package == top else f"{package}/{package}{packages.DEFAULT_ACTIVITY}"
    return f"Window{{{_token(package + 'w')} u0 {name}}}"


def _window(phone: Phone, words: list[str]) -> str:
    display, awake = phone.display, str(phone.awake).lower()
    current = f"{phone.width}x{phone.height}"
    return (
        f"WINDOW MANAGER WINDOWS (dumpsys window {words[0] if words else 'windows'})\n  Display: mDisplayId=0\n"
        f"    init={display.width}x{display.height} {display.physical_density}dpi "
        f"base={'{}x{}'.format(*display.size(0))} {display.density}dpi cur={current} app={current}\n"
        f"  mCurrentFocus={_focus(phone)}\n  mFocusedApp={_record(phone)}\n"
        f"  mCurrentRotation=ROTATION_{90 * phone.rotation}\n  mRotation={phone.rotation}\n"
        f"  mInputMethodWindow={'shown' if phone.tree().keyboard else 'null'}\n  mAwake={awake} mScreenOn={awake}\n"
        f"  screenState=SCREEN_STATE_{'ON' if phone.awake else 'OFF'}\n  mShowingLockscreen=false\n"
    )


def _activity(phone: Phone, words: list[str]) -> str:
    package, name = packages.top_activity(phone)
    if words[:1] == ["top"]:
        return (
            f"TASK {package} id={task_id(phone, package)} userId=0\n"
            f"  ACTIVITY {package}/{packages.short_name(package, name)} {_token(package)} pid={pid(phone, package)}\n"
        )
    if words[:1] == ["recents"]:
        tasks = [(a.package, task_id(phone, a.package)) for a in phone.running()]
        lines = [f"  * Recent #{i}: Task #{n} A={name} U=0\n    userId=0 id={n}\n" for i, (name, n) in enumerate(tasks)]
        return "ACTIVITY MANAGER RECENT TASKS (dumpsys activity recents)\n" + "".join(lines)
    record = _record(phone)
    return (
        f"ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\nDisplay #0 (activities from top to bottom):\n"
        f"  topResumedActivity={record}\n  mResumedActivity: {record}\n  mFocusedApp={record}\n"
    )


def _input(phone: Phone, words: list[str]) -> str:
    frame = f"[0, 0, {phone.width}, {phone.height}]"
    return (
        f"INPUT MANAGER (dumpsys input)\nInput Reader State:\n  Device 1: virtio_input_multi_touch_1\n"
        f"      Viewport INTERNAL: displayId=0, uniqueId=local:{DISPLAY_ID}, port=0, orientation={phone.rotation}, "
        f"logicalFrame={frame}, physicalFrame={frame}, deviceSize={list(phone.display.size(0))}, isActive=[1]\n"
        f"      SurfaceOrientation: {phone.rotation}\n"
    )


def _input_method(phone: Phone, words: list[str]) -> str:
    selected, shown = phone.settings["secure"].get("default_input_method"), str(bool(phone.tree().keyboard)).lower()
    return f"Current Input Method Manager state:\n  mCurMethodId={selected}\n  mInputShown={shown}\n"


def _display(phone: Phone, words: list[str]) -> str:
    frame = f"Rect(0, 0 - {phone.width}, {phone.height})"
    return (
        f"DISPLAY MANAGER (dumpsys display)\n  mViewports=[DisplayViewport{{type=INTERNAL, valid=true, "
        f"isActive=true, displayId=0, uniqueId='local:{DISPLAY_ID}', physicalPort=0, "
        f"orientation={phone.rotation}, logicalFrame={frame}, physicalFrame={frame}}}]\n"
        f"  mScreenState={'ON' if phone.awake else 'OFF'}\n"
    )


def _power(phone: Phone, words: list[str]) -> str:
    awake = str(phone.awake).lower()
    return (
        f"POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
        f"  mWakefulness={'Awake' if phone.awake else 'Asleep'}\n  mIsPowered=true\n"
        f"  mHoldingWakeLockSuspendBlocker={awake}\n  mHoldingDisplaySuspendBlocker={awake}\n\n"
        f"Display Power: state={'ON' if phone.awake else 'OFF'}\n"
    )


_BATTERY = (
    "Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  Wireless powered: false\n"
    "  Max charging current: 500000\n  Max charging voltage: 5000000\n  Charge counter: 2550000\n  status: 2\n"
    "  health: 2\n  present: true\n  level: 85\n  scale: 100\n  voltage: 4200\n  temperature: 250\n"
    "  technology: Li-ion\n"
)


def _location(phone: Phone, words: list[str]) -> str:
    longitude, latitude = phone.location
    return f"Location Manager State:\n  last location=Location[gps {latitude:.6f},{longitude:.6f} hAcc=5.0]\n"


def _telephony(phone: Phone, words: list[str]) -> str:
    number = phone.call.number if phone.call is not None and not phone.call.outgoing else ""
    return (
        f"last known state:\n  Phone Id=0\n    mCallState={telephony.state(phone)}\n    mCallIncomingNumber={number}\n"
    )


def _surface_flinger(phone: Phone, words: list[str]) -> str:
    return f'Display {DISPLAY_ID} (HWC display 0): port=0 pnpId=GGL displayName="EMU_display_0"\n'


SERVICES: dict[str, Handler] = {
    **{"activity": _activity, "battery": lambda phone, words: _BATTERY, "display": _display, "input": _input},
    **{"input_method": _input_method, "location": _location, "package": package_commands.dump, "power": _power},
    **{"SurfaceFlinger": _surface_flinger, "telephony.registry": _telephony, "window": _window},
}


def dumpsys(phone: Phone, words: list[str]) -> str | bytes:
    if words[:1] == ["-l"]:
        return "Currently running services:\n" + "".join(f"  {name}\n" for name in sorted(SERVICES))
    if words[:1] in (["-t"], ["-T"]):  # a timeout
        words = words[2:]
    name = words[0] if words else ""
    if name not in SERVICES:
        raise Failure(f"Can't find service: {name}", 20)
    return SERVICES[name](phone, words[1:])


COMMANDS: dict[str, Handler] = {"dumpsys": dumpsys}
