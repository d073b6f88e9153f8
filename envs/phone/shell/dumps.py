"""`dumpsys`: what the system's services say, as far as tools read it."""

from __future__ import annotations

from collections.abc import Callable

from envs.phone import packages, telephony
from envs.phone.phone import Phone
from envs.phone.shell import packages as package_commands
from envs.phone.shell.activity import task_id
from envs.phone.shell.command import Failure, Handler

PID = 2000
"""The process number of the first app."""


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


def pid(phone: Phone, package: str) -> int:
    """Process number of a package, the same as long as the phone lives."""
    return PID + task_id(phone, package)


def token(name: str) -> str:
    """An object's address as dumpsys prints it: made up, but the same for the same object."""
    return f"{sum(ord(c) * 31 ** (i % 5) for i, c in enumerate(name)) % 2**28:07x}"


# --- windows and activities ----------------------------------------------------------------------------------------


def _record(phone: Phone) -> str:
    package, activity = packages.top_activity(phone)
    name = packages.short_name(package, activity)
    return f"ActivityRecord{{{token(package)} u0 {package}/{name} t{task_id(phone, package)}}}"


def _focus(phone: Phone) -> str:
    package, (top, activity) = phone.window_package, packages.top_activity(phone)
    if package == "com.android.systemui" and phone.panel is not None:
        return f"Window{{{token('shade')} u0 NotificationShade}}"
    name = f"{package}/{activity}" if package == top else f"{package}/{package}{packages.DEFAULT_ACTIVITY}"
    return f"Window{{{token(package + 'w')} u0 {name}}}"


def _window(phone: Phone, words: list[str]) -> str:
    part = words[0] if words else ""
    display = phone.display
    size = "{}x{}".format(*display.size(0))
    keyguard = f"  KeyguardServiceDelegate\n    showing=false\n    interactiveState=INTERACTIVE_STATE_{'AWAKE' if phone.awake else 'SLEEP'}\n"
    if part in ("policy", "p"):
        return (f"WINDOW MANAGER POLICY STATE (dumpsys window policy)\n    mAwake={str(phone.awake).lower()}\n"
                f"    screenState=SCREEN_STATE_{'ON' if phone.awake else 'OFF'}\n    mShowingLockscreen=false "
                f"mShowingDream=false mDreamingLockscreen=false\n{keyguard}")  # fmt: skip
    title = {"displays": "DISPLAY CONTENTS", "d": "DISPLAY CONTENTS"}.get(part, "WINDOWS")
    geometry = (f"  Display: mDisplayId=0\n    init={display.width}x{display.height} {display.physical_density}dpi "
                f"base={size} {display.density}dpi cur={phone.width}x{phone.height} app={phone.width}x{phone.height}"
                f" rng={min(phone.width, phone.height)}x{min(phone.width, phone.height)}-"
                f"{max(phone.width, phone.height)}x{max(phone.width, phone.height)}\n")  # fmt: skip
    return (f"WINDOW MANAGER {title} (dumpsys window {part or 'windows'})\n{geometry}"
            f"  mCurrentFocus={_focus(phone)}\n  mFocusedApp={_record(phone)}\n"
            f"  mCurrentRotation=ROTATION_{90 * phone.rotation}\n  mRotation={phone.rotation}\n"
            f"  mUserRotation=ROTATION_{90 * phone.rotation}\n"
            f"  mInputMethodWindow={'shown' if phone.tree().keyboard else 'null'}\n"
            f"  mAwake={str(phone.awake).lower()} mScreenOn={str(phone.awake).lower()}\n{keyguard}")  # fmt: skip


def _activity(phone: Phone, words: list[str]) -> str:
    part = words[0] if words else "activities"
    package, activity = packages.top_activity(phone)
    if part == "top":
        name = f"{package}/{packages.short_name(package, activity)}"
        return (f"TASK {package} id={task_id(phone, package)} userId=0\n"
                f"  ACTIVITY {name} {token(package)} pid={pid(phone, package)}\n    Local Activity {token(activity)} "
                f"State:\n      mResumed=true mStopped=false mFinished=false\n")  # fmt: skip
    if part in ("services", "s"):
        return "ACTIVITY MANAGER SERVICES (dumpsys activity services)\n  (nothing)\n"
    if part in ("recents", "r"):
        lines = [f"  * Recent #{i}: Task{{{token(a.package)} #{task_id(phone, a.package)} type=standard "
                 f"A={packages.all_packages(phone)[a.package].uid}:{a.package} U=0 visible={str(i == 0).lower()} "
                 f"mode=fullscreen}}\n    userId=0 id={task_id(phone, a.package)}\n"
                 for i, a in enumerate(phone.running())]  # fmt: skip
        return "ACTIVITY MANAGER RECENT TASKS (dumpsys activity recents)\n" + "".join(lines)
    if part in ("processes", "p"):
        lines = [f"  *APP* UID {packages.all_packages(phone)[a.package].uid} ProcessRecord{{{token(a.package)} "
                 f"{pid(phone, a.package)}:{a.package}/u0}}\n" for a in phone.running()]  # fmt: skip
        return "ACTIVITY MANAGER RUNNING PROCESSES (dumpsys activity processes)\n" + "".join(lines)
    record = _record(phone)
    return (f"ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\nDisplay #0 (activities from top to bottom):\n"
            f"  topResumedActivity={record}\n  mResumedActivity: {record}\n  ResumedActivity: {record}\n"
            f"  mFocusedApp={record}\n")  # fmt: skip


# --- screen --------------------------------------------------------------------------------------------------------


def _input(phone: Phone, words: list[str]) -> str:
    width, height = phone.display.size(0)
    frame = f"logicalFrame=[0, 0, {phone.width}, {phone.height}], physicalFrame=[0, 0, {phone.width}, {phone.height}]"
    return (f"INPUT MANAGER (dumpsys input)\nInput Reader State:\n  Device 1: virtio_input_multi_touch_1\n"
            f"    Touch Input Mapper (mode - DIRECT):\n      Parameters:\n        OrientationAware: true\n"
            f"      Viewport INTERNAL: displayId=0, uniqueId=local:4619827259835644672, port=0, "
            f"orientation={phone.rotation}, {frame}, deviceSize=[{width}, {height}], isActive=[1]\n"
            f"      PhysicalWidth: {width}px\n      PhysicalHeight: {height}px\n"
            f"      InputDeviceOrientation: {phone.rotation}\n      SurfaceOrientation: {phone.rotation}\n")  # fmt: skip


def _display(phone: Phone, words: list[str]) -> str:
    frame = f"Rect(0, 0 - {phone.width}, {phone.height})"
    width, height = phone.display.size(0)
    state = "ON" if phone.awake else "OFF"
    return (f"DISPLAY MANAGER (dumpsys display)\n  mViewports=[DisplayViewport{{type=INTERNAL, valid=true, "
            f"isActive=true, displayId=0, uniqueId='local:4619827259835644672', physicalPort=0, "
            f"orientation={phone.rotation}, logicalFrame={frame}, physicalFrame={frame}, deviceWidth={width}, "
            f"deviceHeight={height}}}]\n  mScreenState={state}\n  Display State={state}\n")  # fmt: skip


def _surface_flinger(phone: Phone, words: list[str]) -> str:
    if words != ["--display-id"]:
        return "SurfaceFlinger: nothing to show\n"
    return 'Display 4619827259835644672 (HWC display 0): port=0 pnpId=GGL displayName="EMU_display_0"\n'


def _power(phone: Phone, words: list[str]) -> str:
    awake = str(phone.awake).lower()
    return (f"POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
            f"  mWakefulness={'Awake' if phone.awake else 'Asleep'}\n  mIsPowered=true\n  mPlugType=2\n"
            f"  mBatteryLevel=85\n  mHoldingWakeLockSuspendBlocker={awake}\n  mHoldingDisplaySuspendBlocker={awake}\n\n"
            f"Display Power: state={'ON' if phone.awake else 'OFF'}\n")  # fmt: skip


# --- the rest ------------------------------------------------------------------------------------------------------


def _battery(phone: Phone, words: list[str]) -> str:
    return ("Current Battery Service state:\n  AC powered: false\n  USB powered: true\n  Wireless powered: false\n"
            "  Dock powered: false\n  Max charging current: 500000\n  Max charging voltage: 5000000\n"
            "  Charge counter: 2550000\n  status: 2\n  health: 2\n  present: true\n  level: 85\n  scale: 100\n"
            "  voltage: 4200\n  temperature: 250\n  technology: Li-ion\n")  # fmt: skip


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
    return (f"Current Input Method Manager state:\n  mCurMethodId={current}\n  mCurId={current}\n"
            f"  mInputShown={shown}\n  mShowRequested={shown} mShowExplicitlyRequested={shown}\n")  # fmt: skip


def _telephony(phone: Phone, words: list[str]) -> str:
    number = phone.call.number if phone.call is not None and not phone.call.outgoing else ""
    return (f"last known state:\n  Phone Id=0\n    mCallState={telephony.state(phone)}\n    mRingingCallState="
            f"{telephony.state(phone)}\n    mCallIncomingNumber={number}\n    mServiceState={{mVoiceRegState=0(IN_SERVICE)}}\n")  # fmt: skip


def _meminfo(phone: Phone, words: list[str]) -> str:
    named = [w for w in words if not w.startswith("-")]
    if named and named[0] not in {a.package for a in (*phone.running(), phone.launcher)}:
        return f"No process found for: {named[0]}\n"
    if named:
        return (f"Applications Memory Usage (in Kilobytes):\nUptime: 100000 Realtime: 100000\n\n** MEMINFO in pid "
                f"{pid(phone, named[0])} [{named[0]}] **\n           TOTAL PSS:    65536            TOTAL RSS:   131072"
                f"      TOTAL SWAP PSS:        0\n")  # fmt: skip
    rows = "".join(f"     65,536K: {a.package} (pid {pid(phone, a.package)})\n" for a in (*phone.running(), phone.launcher))
    return (f"Applications Memory Usage (in Kilobytes):\nUptime: 100000 Realtime: 100000\n\nTotal PSS by process:\n{rows}"
            f"\nTotal RAM: 4,025,268K (status normal)\n Free RAM: 2,048,000K\n")  # fmt: skip


def _notification(phone: Phone, words: list[str]) -> str:
    return "Current Notification Manager state:\n  Notification List:\n"


def _statusbar(phone: Phone, words: list[str]) -> str:
    shown = str(phone.panel is not None and phone.window_package == "com.android.systemui").lower()
    return f"  mExpandedVisible={shown}\n"


def _audio(phone: Phone, words: list[str]) -> str:
    level = phone.settings["system"].get("volume_music", "0")
    return f"Stream volumes (device: index)\n- STREAM_MUSIC:\n   Muted: {str(level == '0').lower()}\n   streamVolume:{level}\n"


def _user(phone: Phone, words: list[str]) -> str:
    return "Users:\n  UserInfo{0:Owner:4c13} serialNo=0 isPrimary=true\n    State: RUNNING_UNLOCKED\n"


def _cpuinfo(phone: Phone, words: list[str]) -> str:
    return "Load: 0.0 / 0.0 / 0.0\n0% TOTAL: 0% user + 0% kernel\n"


SERVICES: dict[str, Callable[[Phone, list[str]], str]] = {
    "SurfaceFlinger": _surface_flinger, "activity": _activity, "alarm": lambda p, w: "Current Alarm Manager state:\n",
    "audio": _audio, "battery": _battery, "cpuinfo": _cpuinfo, "display": _display, "input": _input,
    "input_method": _input_method, "location": _location, "meminfo": _meminfo, "notification": _notification,
    "package": _package, "power": _power, "statusbar": _statusbar, "telephony.registry": _telephony, "user": _user,
    "wifi": _wifi, "window": _window,
}  # fmt: skip

COMMANDS: dict[str, Handler] = {"dumpsys": dumpsys}
