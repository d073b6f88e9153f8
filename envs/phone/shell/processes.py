"""`ps`, `pidof`, `logcat`, `reboot`, `ifconfig`, `ip`, `ping`: processes and the network, as far as tools ask."""

from __future__ import annotations

from envs.phone import packages
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler
from envs.phone.shell.dump_windows import pid

ADDRESS = "10.0.2.16"
"""Address of the emulator's Wi-Fi."""
_DAEMONS = ((1, "root", "init"), (300, "root", "zygote64"), (320, "root", "adbd"), (500, "system", "system_server"))


def _processes(phone: Phone) -> list[tuple[int, str, str]]:
    """Number, user and name of every process: daemons, the system's own, and the apps that run."""
    always = ["com.android.systemui", phone.launcher.package, "com.android.inputmethod.latin", packages.ADB_KEYBOARD]
    names = [*always, *sorted(a.package for a in phone.running())]
    known = packages.all_packages(phone)
    apps = [(pid(phone, n), f"u0_a{known[n].uid - packages.FIRST_UID + 100}", n) for n in names]
    return sorted([*_DAEMONS, *apps])


def ps(phone: Phone, words: list[str]) -> str:
    head = f"{'USER':12} {'PID':>6} {'PPID':>6} {'VSZ':>8} {'RSS':>7} {'WCHAN':16} {'ADDR':>8} S NAME\n"
    rows = [
        f"{user:12} {n:6} {1 if n < 500 else 300:6} {12000000:8} {131072:7} {'0':16} {'0':>8} S {name}\n"
        for n, user, name in _processes(phone)
    ]
    return head + "".join(rows)


def pidof(phone: Phone, words: list[str]) -> str:
    found = [str(n) for n, _, name in _processes(phone) if name in words]
    if not found:
        raise Failure("", 1)
    return " ".join(found) + "\n"


def logcat(phone: Phone, words: list[str]) -> str:
    """What was logged so far; the log is not followed, so the command ends as with -d."""
    if {"-c", "--clear"} & set(words):
        return ""
    said = f"I/ActivityManager(  500): Displayed {'/'.join(packages.top_activity(phone))}"
    return f"--------- beginning of main\n{phone.now:%m-%d %H:%M:%S}.000 {said}\n"


def reboot(phone: Phone, words: list[str]) -> str:
    phone.boot()
    return ""


# --- network -------------------------------------------------------------------------------------------------------


def _online(phone: Phone) -> bool:
    return phone.settings["global"].get("wifi_on") == "1"


def ifconfig(phone: Phone, words: list[str]) -> str:
    wlan = (
        "wlan0     Link encap:Ethernet  HWaddr 02:15:b2:00:00:00\n"
        + (f"          inet addr:{ADDRESS}  Bcast:10.0.2.255  Mask:255.255.255.0\n" if _online(phone) else "")
        + "          UP BROADCAST RUNNING MULTICAST  MTU:1500  Metric:1\n\n"
    )
    lo = (
        "lo        Link encap:Local Loopback\n          inet addr:127.0.0.1  Mask:255.0.0.0\n"
        "          UP LOOPBACK RUNNING\n\n"
    )
    parts = {"wlan0": wlan, "lo": lo}
    names = [w for w in words if not w.startswith("-")]
    if names and names[0] not in parts:
        raise Failure(f"ifconfig: {names[0]}: No such device", 1)
    return parts[names[0]] if names else wlan + lo


def ip(phone: Phone, words: list[str]) -> str:
    named = "wlan0" in words or not any(w in words for w in ("lo", "dev"))
    if not {"addr", "address", "a", "route"} & set(words) or not named:
        raise Failure(f"ip: {' '.join(words)}: not implemented", 1)
    if not _online(phone):
        return "" if "route" in words else "2: wlan0: <BROADCAST,MULTICAST> mtu 1500 qdisc noop state DOWN\n"
    if "route" in words:
        return f"10.0.2.0/24 dev wlan0 proto kernel scope link src {ADDRESS}\n"
    return (
        f"2: wlan0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc pfifo_fast state UP group default qlen 1000\n"
        f"    link/ether 02:15:b2:00:00:00 brd ff:ff:ff:ff:ff:ff\n    inet {ADDRESS}/24 brd 10.0.2.255 scope global "
        f"wlan0\n       valid_lft forever preferred_lft forever\n"
    )


def ping(phone: Phone, words: list[str]) -> str:
    """There is no network behind the phone."""
    host = words[-1] if words else ""
    raise Failure("connect: Network is unreachable" if host[:1].isdecimal() else f"ping: unknown host {host}", 2)


def nothing(phone: Phone, words: list[str]) -> str:
    """`restorecon`: files have no security context."""
    return ""


COMMANDS: dict[str, Handler] = {
    "ps": ps,
    "pidof": pidof,
    "logcat": logcat,
    "reboot": reboot,
    "ifconfig": ifconfig,
    "ip": ip,
    "ping": ping,
    "restorecon": nothing,
}
