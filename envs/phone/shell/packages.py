"""`pm`: what is installed, and clearing an app's data. The phone runs no APKs, so nothing can be installed."""

from __future__ import annotations

from envs.phone import packages
from envs.phone.packages import Package
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler

FEATURES = (
    "android.hardware.audio.output",
    "android.hardware.bluetooth",
    "android.hardware.faketouch",
    "android.hardware.location",
    "android.hardware.microphone",
    "android.hardware.nfc",
    "android.hardware.screen.landscape",
    "android.hardware.screen.portrait",
    "android.hardware.telephony",
    "android.hardware.touchscreen",
    "android.hardware.touchscreen.multitouch",
    "android.hardware.wifi",
)
NO_APKS = "INSTALL_FAILED_NO_MATCHING_ABIS: an embedded phone runs no APKs"
_WITH_VALUE = {"--user", "--uid", "--install-location", "-i", "-S", "-f", "--abi"}


def pm(phone: Phone, words: list[str]) -> str:
    verbs = {
        "list": _list,
        "path": _path,
        "dump": _dump,
        "clear": _clear,
        "install": _install,
        "uninstall": _uninstall,
        "install-create": _install,
        "install-existing": _existing,
        "resolve-activity": _resolve,
        "grant": _permission,
        "revoke": _permission,
        "enable": _enable,
        "disable-user": _no_disabling,
        "disable": _no_disabling,
        "hide": _no_disabling,
        "get-install-location": lambda p, w: "0[auto]\n",
        "trim-caches": lambda p, w: "",
        "reset-permissions": lambda p, w: "",
        "compile": lambda p, w: "Success\n",
        "get-max-users": lambda p, w: "Maximum supported users: 1\n",
    }
    if not words or words[0] not in verbs:
        raise Failure(f"Unknown command: {' '.join(words[:1])}", 255)
    return verbs[words[0]](phone, words[1:])


def operands(words: list[str]) -> list[str]:
    """The words that are neither options nor the values of options."""
    values = {i + 1 for i, w in enumerate(words) if w in _WITH_VALUE}
    return [w for i, w in enumerate(words) if not w.startswith("-") and i not in values]


def _named(phone: Phone, words: list[str]) -> Package:
    """The package that is the last operand; a bare failure with exit code 1 where there is none, as of `pm path`."""
    found = packages.all_packages(phone).get(next(iter(operands(words)), ""))
    if found is None:
        raise Failure("", 1)
    return found


# --- what there is -------------------------------------------------------------------------------------------------


def _list(phone: Phone, words: list[str]) -> str:
    if words[:1] in (["packages"], ["package"]):
        return _list_packages(phone, words[1:])
    lists = {
        "users": ["Users:", "\tUserInfo{0:Owner:4c13} running"],
        "features": [f"feature:{f}" for f in FEATURES],
        "libraries": ["library:android.test.base", "library:android.test.runner"],
        "instrumentation": [],
        "permissions": [],
        "permission-groups": [],
    }
    if not words or words[0] not in lists:
        raise Failure(f"Error: unknown list type '{' '.join(words[:1])}'", 255)
    return "".join(f"{line}\n" for line in lists[words[0]])


def _list_packages(phone: Phone, words: list[str]) -> str:
    flags = {w for w in words if w.startswith("-")}
    flags |= {f"-{c}" for w in flags if not w.startswith("--") for c in w[1:]}
    filters = [
        w for i, w in enumerate(words) if not w.startswith("-") and words[i - 1 : i] not in (["--user"], ["--uid"])
    ]
    wanted = filters[0] if filters else ""
    lines = []
    for package in packages.all_packages(phone).values():
        if (
            wanted not in package.name
            or "-d" in flags
            or "-3" in flags
            and package.system
            or ("-s" in flags and not package.system)
        ):
            continue
        file = f"{package.path}=" if "-f" in flags else ""
        version = " versionCode:33" if "--show-versioncode" in flags else ""
        uid = f" uid:{package.uid}" if "-U" in flags else ""
        installer = "  installer=null" if "-i" in flags else ""
        lines.append(f"package:{file}{package.name}{version}{installer}{uid}\n")
    return "".join(lines)


def _path(phone: Phone, words: list[str]) -> str:
    return f"package:{_named(phone, words).path}\n"


def _dump(phone: Phone, words: list[str]) -> str:
    name = next(iter(operands(words)), "")
    found = packages.all_packages(phone).get(name)
    return dump_of(phone, found) if found is not None else f"Unable to find package: {name}\n"


def dump_of(phone: Phone, package: Package) -> str:
    """`dumpsys package NAME`, as far as tools read it."""
    name = package.name
    flags = (
        "SYSTEM HAS_CODE ALLOW_CLEAR_USER_DATA ALLOW_BACKUP"
        if package.system
        else ("HAS_CODE ALLOW_CLEAR_USER_DATA ALLOW_BACKUP")
    )
    resolver = ""
    if name in phone.apps:
        activity = packages.main_activity(name)
        resolver = (
            f"Activity Resolver Table:\n  Non-Data Actions:\n      android.intent.action.MAIN:\n"
            f"        {package.uid:x} {name}/{activity} filter {package.uid:x}\n"
            f'          Action: "android.intent.action.MAIN"\n'
            f'          Category: "android.intent.category.LAUNCHER"\n\n'
        )
    return (
        f"{resolver}Packages:\n  Package [{name}] ({package.uid:x}):\n    userId={package.uid}\n"
        f"    pkg=Package{{{package.uid:x} {name}}}\n    codePath={package.path.rpartition('/')[0]}\n"
        f"    resourcePath={package.path.rpartition('/')[0]}\n    primaryCpuAbi=x86_64\n"
        f"    versionCode=33 minSdk=33 targetSdk=33\n    versionName=13\n"
        f"    signatures=PackageSignatures{{{package.uid:x} version:3, signatures:[{package.uid:08x}], past "
        f"signatures:[]}}\n    pkgFlags=[ {flags} ]\n    dataDir=/data/user/0/{name}\n"
        f"    timeStamp=2023-10-15 15:34:00\n    firstInstallTime=2023-10-15 15:34:00\n"
        f"    lastUpdateTime=2023-10-15 15:34:00\n"
        f"    User 0: ceDataInode=1 installed=true hidden=false suspended=false stopped=false enabled=0\n"
    )


def _resolve(phone: Phone, words: list[str]) -> str:
    name = next(iter(operands([w for w in words if w != "--brief"])), "")
    if name not in phone.apps:
        return "No activity found\n"
    found = f"{name}/{packages.main_activity(name)}\n"
    head = "priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=false\n"
    return head + found if "--brief" in words else f"{head}ActivityInfo:\n  name={found}"


# --- changing it ---------------------------------------------------------------------------------------------------


def _clear(phone: Phone, words: list[str]) -> str:
    name = next(iter(operands(words)), "")
    if name not in packages.all_packages(phone):
        raise Failure("", 1, "Failed\n")
    app = phone.apps.get(packages.PROVIDED.get(name, name))
    if app is not None:
        phone.force_stop(app.package)
        app.clear()
        if app is phone.launcher:
            app.start()
    if name == "com.android.providers.contacts":
        phone.calls.clear()
    phone.changed()
    return "Success\n"


def _install(phone: Phone, words: list[str]) -> str:
    raise Failure(f"Failure [{NO_APKS}]", 1)


def _existing(phone: Phone, words: list[str]) -> str:
    return f"Package {_named(phone, words).name} installed for user: 0\n"


def _uninstall(phone: Phone, words: list[str]) -> str:
    name = next(iter(operands(words)), "")
    known = name in packages.all_packages(phone)
    raise Failure(f"Failure [{'DELETE_FAILED_DEVICE_POLICY_MANAGER' if known else 'DELETE_FAILED_INTERNAL_ERROR'}]", 1)


def _permission(phone: Phone, words: list[str]) -> str:
    """Apps of the phone may do everything already."""
    name = next(iter(operands(words)), "")
    if name not in packages.all_packages(phone):
        raise Failure(
            f"Exception occurred while executing 'grant':\njava.lang.IllegalArgumentException: Unknown package: {name}",
            255,
        )
    return ""


def _enable(phone: Phone, words: list[str]) -> str:
    return f"Package {_named(phone, words).name} new state: enabled\n"


def _no_disabling(phone: Phone, words: list[str]) -> str:
    raise Failure("Error: java.lang.SecurityException: the packages of an embedded phone cannot be disabled", 255)


COMMANDS: dict[str, Handler] = {"pm": pm}
