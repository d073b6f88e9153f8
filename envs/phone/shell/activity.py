"""`am` and `monkey`: starting and stopping apps, and what is running."""

from __future__ import annotations

from envs.phone import packages, panels
from envs.phone.app import Page
from envs.phone.phone import Phone
from envs.phone.shell import broadcasts, intents
from envs.phone.shell.command import Failure, Handler, option

DRAWER = "android.intent.category.LAUNCHER"


def am(phone: Phone, words: list[str]) -> str:
    verbs = {
        "start": _start,
        "start-activity": _start,
        "force-stop": _force_stop,
        "kill": _force_stop,
        "stack": _stack,
        "broadcast": broadcasts.run,
        "task": _task,
        "get-current-user": lambda p, w: "0\n",
        "kill-all": lambda p, w: "",
        "start-service": _service,
        "startservice": _service,
        "start-foreground-service": _service,
        "stop-service": _service,
        "stopservice": _service,
        "get-config": _config,
        "instrument": _instrument,
        "wait-for-broadcast-idle": lambda p, w: "",
    }
    if not words or words[0] not in verbs:
        raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
    return verbs[words[0]](phone, words[1:])


# --- starting ------------------------------------------------------------------------------------------------------


def _start(phone: Phone, words: list[str]) -> str:
    intent = intents.parse(words)
    shown = f"Starting: Intent {{ {intent.shown} }}\n"
    if intent.component:
        package, _, activity = intent.component.partition("/")
        if not _installed(phone, package) or not packages.has_activity(package, activity):
            where = f"{package}/{packages.full_name(package, activity)}"
            raise Failure(f"Error type 3\nError: Activity class {{{where}}} does not exist.", 0, shown)
    else:
        found = intents.target(phone, intent)
        if found is None:
            what = f"{intent.shown} flg=0x10000000"
            raise Failure(f"Error: Activity not started, unable to resolve Intent {{ {what} }}", 0, shown)
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


def _installed(phone: Phone, package: str) -> bool:
    return package in phone.apps or package == packages.CLIPPER


def _service(phone: Phone, words: list[str]) -> str:
    """No app of the phone has a service."""
    intent = intents.parse(words)
    raise Failure("Error: Not found; no service started.", 255, f"Starting service: Intent {{ {intent.shown} }}\n")


def _instrument(phone: Phone, words: list[str]) -> str:
    raise Failure(f"INSTRUMENTATION_STATUS: Error=Unable to find instrumentation info for: {words[-1:]}", 255)


# --- stopping ------------------------------------------------------------------------------------------------------


def _force_stop(phone: Phone, words: list[str]) -> str:
    if words and words[-1] in phone.apps:
        phone.force_stop(words[-1])
    elif words and phone.panel is not None and words[-1] == panels.component(phone, phone.panel)[0]:
        phone.close_panel()
    return ""


# --- tasks ---------------------------------------------------------------------------------------------------------


def _stack(phone: Phone, words: list[str]) -> str:
    if words[:1] == ["list"]:
        return "\n".join(_stack_lines(phone))
    if words[:1] == ["remove"] and len(words) == 2:
        for app in phone.running():
            if words[1] == str(task_id(phone, app.package)):
                phone.force_stop(app.package)
        return ""
    raise Failure(f"Error: unknown command '{' '.join(words[:1])}'", 255)


def _stack_lines(phone: Phone) -> list[str]:
    bounds = f"[0,0][{phone.width},{phone.height}]"
    top = packages.top_activity(phone)
    tasks = [
        (a.package, packages.full_name(a.package, packages.main_activity(a.package)))
        for a in (*phone.running(), phone.launcher)
    ]
    lines = []
    for package, activity in dict.fromkeys([top, *tasks]):
        task, name = task_id(phone, package), f"{package}/{activity}"
        lines.append(f"RootTask id={task} bounds={bounds} displayId=0 userId=0")
        lines.append(
            f"  taskId={task}: {name} bounds={bounds} userId=0 visible={str((package, activity) == top).lower()} "
            f"topActivity=ComponentInfo{{{name}}}\n"
        )
    return lines


def _task(phone: Phone, words: list[str]) -> str:
    """`am task lock ID` pins an app on a real phone; here it only answers."""
    return "Activity manager is in lockTaskMode\n" if words[:1] == ["lock"] and words[1:2] != ["stop"] else ""


def _config(phone: Phone, words: list[str]) -> str:
    width, height = phone.size_dp
    turn = "land" if width > height else "port"
    size = f"sw{min(width, height)}dp-w{width}dp-h{height}dp-{turn}-{phone.display.density}dpi"
    return f"config: en-rUS-ldltr-{size}-v33\nabi: x86_64\n"


def task_id(phone: Phone, package: str) -> int:
    """Every app has one task; its number is its place among the apps."""
    return 1 + packages.names(phone).index(package)


def monkey(phone: Phone, words: list[str]) -> str:
    package = option(words, "-p")
    if package == packages.CLIPPER:
        phone.show_panel(Page(panels.CLIPPER))
    else:
        app = phone.apps.get(package)
        if app is None or app is phone.launcher or option(words, "-c", DRAWER) != DRAWER:
            raise Failure("** No activities found to run, monkey aborted.", 252)
        phone.launch(package)
    return "Events injected: 1\n## Network stats: elapsed time=12ms (0ms mobile, 0ms wifi, 12ms not connected)\n"


COMMANDS: dict[str, Handler] = {"am": am, "monkey": monkey}
