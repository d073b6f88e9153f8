"""`pm`: the installed packages, and clearing an app's data. The phone runs no APKs, so nothing can be installed."""

from __future__ import annotations

from envs.phone import packages
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler, dispatch

FEATURES = (
    "audio.output bluetooth faketouch location microphone nfc screen.landscape screen.portrait telephony touchscreen "
    "touchscreen.multitouch wifi"
).split()
"""Names behind `android.hardware.`."""
NO_APKS = "INSTALL_FAILED_NO_MATCHING_ABIS: an embedded phone runs no APKs"
_WITH_VALUE = {"--user", "--uid", "--install-location", "-i", "-S", "-f", "--abi"}


def _operand(words: list[str]) -> str:
    """The first word that is neither an option nor the value of one; "" where there is none."""
    values = {i + 1 for i, w in enumerate(words) if w in _WITH_VALUE}
    return next((w for i, w in enumerate(words) if not w.startswith("-") and i not in values), "")


def _path(phone: Phone, words: list[str]) -> str:
    found = packages.all_packages(phone).get(_operand(words))
    if found is None:
        raise Failure("", 1)
    return f"package:{found.path}\n"


def _list_packages(phone: Phone, words: list[str]) -> str:
    flags = {w for w in words if w.startswith("-")}
    flags |= {f"-{c}" for w in flags if not w.startswith("--") for c in w[1:]}
    wanted = _operand([w for w in words if w not in ("-f", "-i")])
    lines = []
    for package in packages.all_packages(phone).values():
        hidden = "-d" in flags or "-3" in flags and package.system or "-s" in flags and not package.system
        if hidden or wanted not in package.name:
            continue
        file = f"{package.path}=" if "-f" in flags else ""
        version = " versionCode:33" if "--show-versioncode" in flags else ""
        installer = "  installer=null" if "-i" in flags else ""
        uid = f" uid:{package.uid}" if "-U" in flags else ""
        lines.append(f"package:{file}{package.name}{version}{installer}{uid}\n")
    return "".join(lines)


_list = dispatch(
    **dict.fromkeys(("packages", "package"), _list_packages),
    users=lambda phone, words: "Users:\n\tUserInfo{0:Owner:4c13} running\n",
    features=lambda phone, words: "".join(f"feature:android.hardware.{f}\n" for f in FEATURES),
    **dict.fromkeys(("libraries", "instrumentation", "permissions"), lambda phone, words: ""),
)


def dump(phone: Phone, words: list[str]) -> str:
    """`dumpsys package NAME`, as far as tools read it."""
    package = packages.all_packages(phone).get(_operand(words))
    if package is None:
        return f"Unable to find package: {_operand(words)}\n"
    name, uid, folder = package.name, f"{package.uid:x}", package.path.rpartition("/")[0]
    flags = f"{'SYSTEM ' if package.system else ''}HAS_CODE ALLOW_CLEAR_USER_DATA ALLOW_BACKUP"
    resolver = ""
    if name in phone.apps:
        resolver = (
            f"Activity Resolver Table:\n  Non-Data Actions:\n      android.intent.action.MAIN:\n"
            f"        {uid} {name}/{packages.main_activity(name)} filter {uid}\n"
            f'          Action: "android.intent.action.MAIN"\n'
            f'          Category: "android.intent.category.LAUNCHER"\n\n'
        )
    return (
        f"{resolver}Packages:\n  Package [{name}] ({uid}):\n    userId={package.uid}\n    pkg=Package{{{uid} {name}}}\n"
        f"    codePath={folder}\n    resourcePath={folder}\n    primaryCpuAbi=x86_64\n"
        f"    versionCode=33 minSdk=33 targetSdk=33\n    versionName=13\n"
        f"    signatures=PackageSignatures{{{uid} version:3, signatures:[{package.uid:08x}], past signatures:[]}}\n"
        f"    pkgFlags=[ {flags} ]\n    dataDir=/data/user/0/{name}\n    timeStamp=2023-10-15 15:34:00\n"
        f"    firstInstallTime=2023-10-15 15:34:00\n    lastUpdateTime=2023-10-15 15:34:00\n"
        f"    User 0: ceDataInode=1 installed=true hidden=false suspended=false stopped=false enabled=0\n"
    )


def _resolve(phone: Phone, words: list[str]) -> str:
    name = _operand(words)
    if name not in phone.apps:
        return "No activity found\n"
    found = f"{name}/{packages.main_activity(name)}\n"
    head = "priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=false\n"
    return head + found if "--brief" in words else f"{head}ActivityInfo:\n  name={found}"


def _clear(phone: Phone, words: list[str]) -> str:
    name = _operand(words)
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


def _uninstall(phone: Phone, words: list[str]) -> str:
    known = _operand(words) in packages.all_packages(phone)
    raise Failure(f"Failure [{'DELETE_FAILED_DEVICE_POLICY_MANAGER' if known else 'DELETE_FAILED_INTERNAL_ERROR'}]", 1)


def _permission(phone: Phone, words: list[str]) -> str:
    """Apps of the phone have all permissions already."""
    if _operand(words) not in packages.all_packages(phone):
        raise Failure(f"java.lang.IllegalArgumentException: Unknown package: {_operand(words)}", 255)
    return ""


pm = dispatch(
    **{
        "list": _list,
        "dump": dump,
        "path": _path,
        "clear": _clear,
        "uninstall": _uninstall,
        "resolve-activity": _resolve,
    },
    **dict.fromkeys(("install", "install-create"), _install),
    **dict.fromkeys(("grant", "revoke"), _permission),
    **dict.fromkeys(("trim-caches", "reset-permissions"), lambda phone, words: ""),
)
COMMANDS: dict[str, Handler] = {"pm": pm}
