"""`pm`: lists the installed packages and clears an app's data. Nothing can be installed, as the phone runs no APKs."""

from __future__ import annotations

from mobilerl.envs.phone import packages
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell.command import Failure, Handler, dispatch, option

FEATURES = (
    "audio.output bluetooth faketouch location microphone nfc screen.landscape screen.portrait telephony touchscreen "
    "touchscreen.multitouch wifi"
).split()
"""Names that follow `android.hardware.`."""
NO_APKS = "INSTALL_FAILED_NO_MATCHING_ABIS: an embedded phone runs no APKs"


def _find_named(phone: Phone, words: list[str]) -> packages.Package | None:
    """The package named by one of the arguments, or None."""
    known = packages.all_packages(phone)
    return next((known[w] for w in words if w in known), None)


def _path(phone: Phone, words: list[str]) -> str:
    found = _find_named(phone, words)
    if found is None:
        raise Failure("", 1)
    return f"package:{found.path}\n"


def _list_packages(phone: Phone, words: list[str]) -> str:
    """`-3` lists packages installed by the user, `-s` all others, and `-f` adds their files."""
    wanted = next((w for w in words if not w.startswith("-")), "")
    lines = []
    for package in packages.all_packages(phone).values():
        hidden = "-d" in words or "-3" in words and package.system or "-s" in words and not package.system
        if not hidden and wanted in package.name:
            lines.append(f"package:{f'{package.path}=' if '-f' in words else ''}{package.name}\n")
    return "".join(lines)


def dump(phone: Phone, words: list[str]) -> str:
    """`dumpsys package NAME`, as far as tools read it."""
    package = _find_named(phone, words)
    if package is None:
        return f"Unable to find package: {' '.join(words)}\n"
    name, uid, folder = package.name, f"{package.uid:x}", package.path.rpartition("/")[0]
    flags = f"{'SYSTEM ' if package.system else ''}HAS_CODE ALLOW_CLEAR_USER_DATA ALLOW_BACKUP"
    return (
        f"Packages:\n  Package [{name}] ({uid}):\n    userId={package.uid}\n    pkg=Package{{{uid} {name}}}\n"
        f"    codePath={folder}\n    primaryCpuAbi=x86_64\n"
        f"    versionCode=33 minSdk=33 targetSdk=33\n    versionName=13\n"
        f"    signatures=PackageSignatures{{{uid} version:3, signatures:[{package.uid:08x}], past signatures:[]}}\n"
        f"    pkgFlags=[ {flags} ]\n    dataDir=/data/user/0/{name}\n"
        f"    firstInstallTime=2023-10-15 15:34:00\n    lastUpdateTime=2023-10-15 15:34:00\n"
    )


def _clear(phone: Phone, words: list[str]) -> str:
    package = _find_named(phone, words)
    if package is None:
        raise Failure("", 1, "Failed\n")
    app = phone.apps.get(packages.PROVIDED.get(package.name, package.name))
    if app is not None:
        phone.force_stop(app.package)
        app.clear()
        if app is phone.launcher:
            app.start()
    if package.name == "com.android.providers.contacts":
        phone.calls.clear()
    phone.invalidate()
    return "Success\n"


def has_icon(phone: Phone, package: str) -> bool:
    """Whether the app can be opened from the home screen."""
    return package == packages.CLIPPER or package in phone.apps and package != phone.launcher.package


def _resolve_activity(phone: Phone, words: list[str]) -> str:
    """`resolve-activity [--brief] [-a ACTION] [-c CATEGORY] PACKAGE`: the activity of the app's icon, or of the home
    screen for the category HOME."""
    package = _find_named(phone, words)
    at_home = option(words, "-c").endswith(".HOME")
    if at_home and package is None:
        package = packages.all_packages(phone)[phone.launcher.package]
    if package is None or not (at_home or has_icon(phone, package.name)):
        return "No activity found\n"
    activity, found = packages.main_activity(package.name), "priority=0 preferredOrder=0 match=0x108000"
    if "--brief" in words:
        return f"{found} specificIndex=-1 isDefault=true\n{package.name}/{activity}\n"
    name = packages.full_name(package.name, activity)
    return f"{found} specificIndex=-1 isDefault=true\nActivityInfo:\n  name={name}\n  packageName={package.name}\n"


def _install(phone: Phone, words: list[str]) -> str:
    raise Failure(f"Failure [{NO_APKS}]", 1)


def _uninstall(phone: Phone, words: list[str]) -> str:
    reason = "DELETE_FAILED_DEVICE_POLICY_MANAGER" if _find_named(phone, words) else "DELETE_FAILED_INTERNAL_ERROR"
    raise Failure(f"Failure [{reason}]", 1)


def _grant(phone: Phone, words: list[str]) -> str:
    """The phone's apps already have all permissions."""
    if _find_named(phone, words) is None:
        raise Failure(f"java.lang.IllegalArgumentException: Unknown package: {' '.join(words[:1])}", 255)
    return ""


_list = dispatch(
    packages=_list_packages,
    features=lambda phone, words: "".join(f"feature:android.hardware.{f}\n" for f in FEATURES),
    libraries=lambda phone, words: "",
)
pm = dispatch(
    **{"list": _list, "path": _path, "clear": _clear, "install": _install, "uninstall": _uninstall, "grant": _grant},
    **{"resolve-activity": _resolve_activity},
)
COMMANDS: dict[str, Handler] = {"pm": pm}
