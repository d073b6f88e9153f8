"""`am`, `monkey` and `pm`: starting, stopping and listing apps, and the broadcasts of the keyboard."""

from __future__ import annotations

import base64
import binascii

from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, option

ACTIVITY = ".MainActivity"
DRAWER = "android.intent.category.LAUNCHER"
INTENTS = {
    "android.settings.SETTINGS": "Settings",
    "android.settings.WIFI_SETTINGS": "Settings",
    "android.intent.action.SHOW_ALARMS": "Clock",
    "android.media.action.STILL_IMAGE_CAMERA": "Camera",
}
"""Implicit intents and the app that answers them."""


def am(phone: Phone, words: list[str]) -> str:
    verbs = {"start": _start, "start-activity": _start, "force-stop": _force_stop, "broadcast": _broadcast,
             "stack": _stack, "kill-all": lambda p, w: ""}  # fmt: skip
    if not words or words[0] not in verbs:
        raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
    return verbs[words[0]](phone, words[1:])


def _start(phone: Phone, words: list[str]) -> str:
    component, action = option(words, "-n"), option(words, "-a")
    if component:
        package, _, activity = component.partition("/")
        shown = f"Starting: Intent {{ cmp={package}/{activity} }}\n"
        app = phone.apps.get(package)
        if app is None or activity not in (ACTIVITY, package + ACTIVITY):
            full = package + activity if activity.startswith(".") else activity
            raise Failure(f"Error type 3\nError: Activity class {{{package}/{full}}} does not exist.", 0, shown)
    else:
        shown = f"Starting: Intent {{ act={action} }}\n"
        home = action == "android.intent.action.MAIN" and option(words, "-c") == "android.intent.category.HOME"
        app = phone.launcher if home else phone.app(INTENTS.get(action, ""))
        if app is None:
            message = f"Error: Activity not started, unable to resolve Intent {{ act={action} flg=0x10000000 }}"
            raise Failure(message, 0, shown)
    cold = not app.stack
    if app is phone.launcher:
        phone.home()
    else:
        phone.launch(app.package)
    if "-W" not in words:
        return shown
    return (f"{shown}Status: ok\nLaunchState: {'COLD' if cold else 'WARM'}\nActivity: {app.package}/{ACTIVITY}\n"
            "TotalTime: 120\nWaitTime: 125\nComplete\n")  # fmt: skip


def _force_stop(phone: Phone, words: list[str]) -> str:
    if words and words[-1] in phone.apps:
        phone.force_stop(words[-1])
    return ""


def _broadcast(phone: Phone, words: list[str]) -> str:
    action = option(words, "-a")
    result = "result=0"
    if action == "ADB_INPUT_B64":
        phone.text(_extra(words))
    elif action == "ADB_INPUT_TEXT":
        phone.text(_message(words))
    elif action == "ADB_CLEAR_TEXT":
        phone.clear_text()
    return f"Broadcasting: Intent {{ act={action} flg=0x400000 }}\nBroadcast completed: {result}\n"


def _message(words: list[str]) -> str:
    if "--es" in words and words.index("--es") + 2 < len(words) and words[words.index("--es") + 1] == "msg":
        return words[words.index("--es") + 2]
    raise Failure("Error: the broadcast needs --es msg TEXT", 255)


def _extra(words: list[str]) -> str:
    try:
        return base64.b64decode(_message(words), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Failure("Error: msg is not base64 of UTF-8 text", 255) from None


def _stack(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["list"]:
        raise Failure("Error: unknown command 'stack'", 255)
    running = [a for a in phone.apps.values() if a.stack]
    bounds = f"[0,0][{phone.width},{phone.height}]"
    lines = []
    for app in sorted(running, key=lambda a: a is not phone.foreground):
        task = task_id(phone, app.package)
        name = f"{app.package}/{app.package}{ACTIVITY}"
        lines.append(f"RootTask id={task} bounds={bounds} displayId=0 userId=0")
        lines.append(f"  taskId={task}: {name} bounds={bounds} userId=0 visible={str(app is phone.foreground).lower()} "
                     f"topActivity=ComponentInfo{{{name}}}\n")  # fmt: skip
    return "\n".join(lines)


def task_id(phone: Phone, package: str) -> int:
    """Every app has one task; its number is its place among the apps."""
    return 1 + list(phone.apps).index(package)


def monkey(phone: Phone, words: list[str]) -> str:
    package = option(words, "-p")
    app = phone.apps.get(package)
    if app is None or app is phone.launcher or option(words, "-c", DRAWER) != DRAWER:
        raise Failure("** No activities found to run, monkey aborted.", 252)
    phone.launch(package)
    return "Events injected: 1\n## Network stats: elapsed time=12ms (0ms mobile, 0ms wifi, 12ms not connected)\n"


def pm(phone: Phone, words: list[str]) -> str:
    if words[:2] == ["list", "packages"]:
        wanted = next((w for w in words[2:] if not w.startswith("-")), "")
        return "".join(f"package:{p}\n" for p in phone.apps if wanted in p)
    if words[:1] == ["path"] and len(words) == 2:
        if words[1] not in phone.apps:
            raise Failure("", 1)
        return f"package:/data/app/~~{words[1]}==/base.apk\n"
    if words[:1] == ["clear"] and len(words) == 2:
        return _clear(phone, words[1])
    if words[:1] == ["grant"] or words[:1] == ["revoke"]:
        return ""
    raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)


def _clear(phone: Phone, package: str) -> str:
    app = phone.apps.get(package)
    if app is None:
        raise Failure("", 1, "Failed\n")
    phone.force_stop(package)
    app.clear()
    if app is phone.launcher:
        app.start()
    phone.changed()
    return "Success\n"


COMMANDS: dict[str, Handler] = {"am": am, "monkey": monkey, "pm": pm}
