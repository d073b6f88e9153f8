"""`dumpsys window` and `dumpsys activity`."""

from __future__ import annotations

from functools import lru_cache

from envs.phone import packages
from envs.phone.phone import Phone
from envs.phone.shell.activity import task_id

PID = 2000
"""The process number of the first app."""


def pid(phone: Phone, package: str) -> int:
    """Process number of a package, the same as long as the phone lives."""
    return PID + task_id(phone, package)


@lru_cache(maxsize=256)
def token(name: str) -> str:
    """An object's address as dumpsys prints it: made up, but the same for the same object."""
    return f"{sum(ord(c) * 31 ** (i % 5) for i, c in enumerate(name)) % 2**28:07x}"


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


def window(phone: Phone, words: list[str]) -> str:
    part = words[0] if words else ""
    display = phone.display
    size = "{}x{}".format(*display.size(0))
    lit = "AWAKE" if phone.awake else "SLEEP"
    keyguard = f"  KeyguardServiceDelegate\n    showing=false\n    interactiveState=INTERACTIVE_STATE_{lit}\n"
    if part in ("policy", "p"):
        return (
            f"WINDOW MANAGER POLICY STATE (dumpsys window policy)\n    mAwake={str(phone.awake).lower()}\n"
            f"    screenState=SCREEN_STATE_{'ON' if phone.awake else 'OFF'}\n    mShowingLockscreen=false "
            f"mShowingDream=false mDreamingLockscreen=false\n{keyguard}"
        )
    title = {"displays": "DISPLAY CONTENTS", "d": "DISPLAY CONTENTS"}.get(part, "WINDOWS")
    geometry = (
        f"  Display: mDisplayId=0\n    init={display.width}x{display.height} {display.physical_density}dpi "
        f"base={size} {display.density}dpi cur={phone.width}x{phone.height} app={phone.width}x{phone.height}"
        f" rng={min(phone.width, phone.height)}x{min(phone.width, phone.height)}-"
        f"{max(phone.width, phone.height)}x{max(phone.width, phone.height)}\n"
    )
    return (
        f"WINDOW MANAGER {title} (dumpsys window {part or 'windows'})\n{geometry}"
        f"  mCurrentFocus={_focus(phone)}\n  mFocusedApp={_record(phone)}\n"
        f"  mCurrentRotation=ROTATION_{90 * phone.rotation}\n  mRotation={phone.rotation}\n"
        f"  mUserRotation=ROTATION_{90 * phone.rotation}\n"
        f"  mInputMethodWindow={'shown' if phone.tree().keyboard else 'null'}\n"
        f"  mAwake={str(phone.awake).lower()} mScreenOn={str(phone.awake).lower()}\n{keyguard}"
    )


def activity(phone: Phone, words: list[str]) -> str:
    part = words[0] if words else "activities"
    package, name = packages.top_activity(phone)
    if part == "top":
        short = f"{package}/{packages.short_name(package, name)}"
        return (
            f"TASK {package} id={task_id(phone, package)} userId=0\n"
            f"  ACTIVITY {short} {token(package)} pid={pid(phone, package)}\n    Local Activity {token(name)} "
            f"State:\n      mResumed=true mStopped=false mFinished=false\n"
        )
    if part in ("services", "s"):
        return "ACTIVITY MANAGER SERVICES (dumpsys activity services)\n  (nothing)\n"
    if part in ("recents", "r"):
        lines = [
            f"  * Recent #{i}: Task{{{token(a.package)} #{task_id(phone, a.package)} type=standard "
            f"A={packages.all_packages(phone)[a.package].uid}:{a.package} U=0 visible={str(i == 0).lower()} "
            f"mode=fullscreen}}\n    userId=0 id={task_id(phone, a.package)}\n"
            for i, a in enumerate(phone.running())
        ]
        return "ACTIVITY MANAGER RECENT TASKS (dumpsys activity recents)\n" + "".join(lines)
    if part in ("processes", "p"):
        lines = [
            f"  *APP* UID {packages.all_packages(phone)[a.package].uid} ProcessRecord{{{token(a.package)} "
            f"{pid(phone, a.package)}:{a.package}/u0}}\n"
            for a in phone.running()
        ]
        return "ACTIVITY MANAGER RUNNING PROCESSES (dumpsys activity processes)\n" + "".join(lines)
    record = _record(phone)
    return (
        f"ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)\nDisplay #0 (activities from top to bottom):\n"
        f"  topResumedActivity={record}\n  mResumedActivity: {record}\n  ResumedActivity: {record}\n"
        f"  mFocusedApp={record}\n"
    )
