"""`am` and `monkey`: starting and stopping apps, the running tasks, and broadcasts to helpers of test tools."""

from __future__ import annotations

import base64

from mobilerl.envs.phone import packages, panels
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.android import intents
from mobilerl.envs.phone.shell.android.packages import has_icon
from mobilerl.envs.phone.shell.command import Failure, Handler, dispatch, option

ADB_IME = "com.android.adbkeyboard/.AdbIME"


def _start(phone: Phone, words: list[str]) -> str:
    intent = intents.parse(words)
    shown = f"Starting: Intent {{ {intent.shown} }}\n"
    if intent.component:
        package, _, activity = intent.component.partition("/")
        installed = package in phone.apps or package == packages.CLIPPER
        if not installed or not packages.has_activity(package, activity):
            where = f"{package}/{packages.full_name(package, activity)}"
            raise Failure(f"Error type 3\nError: Activity class {{{where}}} does not exist.", 0, shown)
    else:
        found = intents.target(phone, intent)
        if found is None:
            unresolved = f"unable to resolve Intent {{ {intent.shown} flg=0x10000000 }}"
            raise Failure(f"Error: Activity not started, {unresolved}", 0, shown)
        package = found
    if "-S" in words and package in phone.apps:
        phone.force_stop(package)
    cold = package not in phone.apps or not phone.apps[package].stack
    intents.open_in(phone, package, intent)
    if "-W" not in words:
        return shown
    top = packages.top_activity(phone)
    return (
        f"{shown}Status: ok\nLaunchState: {'COLD' if cold else 'WARM'}\n"
        f"Activity: {top[0]}/{packages.short_name(*top)}\nTotalTime: 120\nWaitTime: 125\nComplete\n"
    )


def _force_stop(phone: Phone, words: list[str]) -> str:
    if words and words[-1] in phone.apps:
        phone.force_stop(words[-1])
    elif words and phone.panel is not None and words[-1] == panels.component(phone, phone.panel)[0]:
        phone.close_panel()
    return ""


def task_id(phone: Phone, package: str) -> int:
    """Number of an app's only task, by its position among the apps."""
    return 1 + packages.names(phone).index(package)


def _stack_list(phone: Phone, words: list[str]) -> str:
    bounds = f"[0,0][{phone.width},{phone.height}]"
    top = packages.top_activity(phone)
    running = [a.package for a in (*phone.running(), phone.launcher)]
    tasks = [(p, packages.full_name(p, packages.main_activity(p))) for p in running]
    lines = []
    for package, activity in dict.fromkeys([top, *tasks]):
        task, name = task_id(phone, package), f"{package}/{activity}"
        lines.append(f"RootTask id={task} bounds={bounds} displayId=0 userId=0")
        lines.append(
            f"  taskId={task}: {name} bounds={bounds} userId=0 visible={str((package, activity) == top).lower()} "
            f"topActivity=ComponentInfo{{{name}}}\n"
        )
    return "\n".join(lines)


def _stack_remove(phone: Phone, words: list[str]) -> str:
    for app in phone.running():
        if words[:1] == [str(task_id(phone, app.package))]:
            phone.force_stop(app.package)
    return ""


def _task(phone: Phone, words: list[str]) -> str:
    """On a real phone `am task lock ID` pins an app; here it only prints the answer."""
    return "Activity manager is in lockTaskMode\n" if words[:1] == ["lock"] and words[1:2] != ["stop"] else ""


# --- broadcasts ----------------------------------------------------------------------------------------------------


def _broadcast(phone: Phone, words: list[str]) -> str:
    action = option(words, "-a")
    result = "result=0"
    if action.startswith("ADB_"):
        _type(phone, action, words)
    elif action.startswith("clipper.") and phone.panel is not None and phone.panel.name == panels.CLIPPER:
        # Clipper may use the clipboard only while its page is in front, as on Android 10 and later.
        if action == "clipper.set":
            phone.clipboard = _extra(words, "text")
        result = f'result=-1, data="{phone.clipboard if action == "clipper.get" else "Text is copied into clipboard."}"'
    extras = " (has extras)" if any(w.startswith("--e") or w == "-e" for w in words) and action[:4] != "ADB_" else ""
    return f"Broadcasting: Intent {{ act={action} flg=0x400000{extras} }}\nBroadcast completed: {result}\n"


def _type(phone: Phone, action: str, words: list[str]) -> None:
    """ADBKeyboard receives broadcasts only while it is the default keyboard."""
    if phone.settings["secure"].get("default_input_method") != ADB_IME:
        return
    if action == "ADB_INPUT_B64":
        try:
            phone.text(base64.b64decode(_extra(words, "msg"), validate=True).decode())
        except ValueError:
            raise Failure("Error: msg is not base64 of UTF-8 text", 255) from None
    elif action == "ADB_INPUT_TEXT":
        phone.text(_extra(words, "msg"))
    elif action == "ADB_CLEAR_TEXT":
        phone.clear_text()


def _extra(words: list[str], name: str) -> str:
    for i, word in enumerate(words[:-2]):
        if word in ("-e", "--es") and words[i + 1] == name:
            return words[i + 2]
    raise Failure(f"Error: the broadcast needs --es {name} TEXT", 255)


def monkey(phone: Phone, words: list[str]) -> str:
    """Opens an app. At its end it releases the rotation, which turns auto-rotate on, as on Android."""
    package = option(words, "-p")
    if not has_icon(phone, package):
        raise Failure("** No activities found to run, monkey aborted.", 252)
    intents.open_in(phone, package, intents.parse([]))
    phone.settings["system"] |= {"accelerometer_rotation": "1", "user_rotation": "0"}
    phone.invalidate()
    return "Events injected: 1\n## Network stats: elapsed time=12ms (0ms mobile, 0ms wifi, 12ms not connected)\n"


am = dispatch(
    **{"start": _start, "force-stop": _force_stop, "broadcast": _broadcast, "task": _task},
    stack=dispatch(list=_stack_list, remove=_stack_remove),
)
COMMANDS: dict[str, Handler] = {"am": am, "monkey": monkey}
