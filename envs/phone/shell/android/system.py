"""Commands about the phone: `date`, `getprop`, `logcat`, `reboot`, `uiautomator`, `screencap`, `sim` and others."""

from __future__ import annotations

import re
import struct
from datetime import datetime

from mobilerl.envs.phone import packages, render, xml_dump
from mobilerl.envs.phone.apps.catalogue import EXTRA_APPS
from mobilerl.envs.phone.languages import LANGUAGES, current
from mobilerl.envs.phone.phone import Phone
from mobilerl.envs.phone.shell import files
from mobilerl.envs.phone.shell.command import Failure, Handler, number, option
from mobilerl.envs.phone.system import UNIX_EPOCH

# --- date ----------------------------------------------------------------------------------------------------------

LAST_YEAR = 2100


def date(phone: Phone, words: list[str]) -> str:
    """`date [-u] [+FORMAT] [MMDDhhmm[[CC]YY][.SS]]`; the phone's clock is in UTC."""
    form = "%a %b %e %H:%M:%S UTC %Y"
    for word in words:
        if word.startswith("+"):
            form = word[1:]
        elif word != "-u":
            phone.set_time(_parse_time(phone, word))
    fixed = {"s": str(files.seconds(phone.now)), "z": "+0000", "Z": "UTC", "N": "0" * 9}
    try:
        return phone.now.strftime(re.sub("%([szZN])", lambda found: fixed[found[1]], form)) + "\n"
    except ValueError:
        raise Failure(f"date: bad format '{form}'", 1) from None


def _parse_time(phone: Phone, word: str) -> datetime:
    stem, _, seconds = word.partition(".")
    year = {8: str(phone.now.year), 10: f"20{stem[8:]}", 12: stem[8:]}.get(len(stem), "")
    try:
        found = datetime.strptime(year + stem[:8] + (seconds or "00"), "%Y%m%d%H%M%S")
    except ValueError:
        raise Failure(f"date: bad date '{word}'", 1) from None
    if not UNIX_EPOCH.year <= found.year <= LAST_YEAR:
        raise Failure(f"date: bad date '{word}'", 1)
    return found


def sleep(phone: Phone, words: list[str]) -> str:
    """Advances the device's clock; the host does not wait."""
    if not words or not 0 <= number(words[0], "sleep"):
        raise Failure("sleep: Needs 1 argument", 1)
    phone.wait()
    return ""


# --- properties ----------------------------------------------------------------------------------------------------

_NAME, _DEVICE, _SERIAL = "sdk_gphone64_x86_64", "emu64xa", "EMULATOR33X1X1X0"
PROPERTIES = {
    **{"dev.bootcomplete": "1", "sys.boot_completed": "1", "init.svc.bootanim": "stopped"},
    **{"persist.sys.timezone": "UTC", "gsm.sim.state": "LOADED"},
    **{"ro.debuggable": "1", "service.adb.root": "1", "ro.hardware": "ranchu", "ro.kernel.qemu": "1"},
    **{"ro.serialno": _SERIAL, "ro.boot.serialno": _SERIAL, "ro.build.characteristics": "emulator"},
    "ro.build.fingerprint": f"mobilerl/{_NAME}/{_DEVICE}:13/TE1A.220922.034/10940250:userdebug/dev-keys",
    **{"ro.build.type": "userdebug", "ro.build.version.release": "13", "ro.build.version.sdk": "33"},
    **{"ro.product.brand": "mobilerl", "ro.product.manufacturer": "mobilerl", "ro.product.locale": "en-US"},
    **{"ro.product.cpu.abi": "x86_64", "ro.product.cpu.abilist": "x86_64,arm64-v8a"},
    **{"ro.product.device": _DEVICE, "ro.product.model": _NAME, "ro.product.name": _NAME},
}
"""Properties of an emulator with API 33, but with our own brand."""


def getprop(phone: Phone, words: list[str]) -> str:
    known = {
        **PROPERTIES,
        "persist.sys.locale": current(phone.locales).locale,
        "ro.sf.lcd_density": str(phone.display.physical_density),
    }
    if not words:
        return "".join(f"[{key}]: [{value}]\n" for key, value in sorted(known.items()))
    return known.get(words[0], words[1] if len(words) > 1 else "") + "\n"


# --- the log, a reboot and the network -----------------------------------------------------------------------------


def logcat(phone: Phone, words: list[str]) -> str:
    """Prints the log so far and exits, as with -d."""
    if {"-c", "--clear"} & set(words):
        return ""
    shown = "/".join(packages.top_activity(phone))
    start = f"{phone.now:%m-%d %H:%M:%S}.000 I/ActivityManager(  500)"
    return f"--------- beginning of main\n{start}: Displayed {shown}\n"


def reboot(phone: Phone, words: list[str]) -> str:
    phone.boot()
    return ""


def ifconfig(phone: Phone, words: list[str]) -> str:
    if words and words[0] != "wlan0":
        raise Failure(f"ifconfig: {words[0]}: No such device", 1)
    online = phone.settings["global"].get("wifi_on") == "1"
    address = "          inet addr:10.0.2.16  Bcast:10.0.2.255  Mask:255.255.255.0\n" if online else ""
    return f"wlan0     Link encap:Ethernet  HWaddr 02:15:b2:00:00:00\n{address}          UP BROADCAST RUNNING\n\n"


# --- the screen ----------------------------------------------------------------------------------------------------


def uiautomator(phone: Phone, words: list[str]) -> str:
    if words[:1] != ["dump"]:
        raise Failure("Usage: uiautomator <subcommand> [options]", 1)
    target = next((w for w in words[1:] if not w.startswith("--")), "/sdcard/window_dump.xml")
    xml = xml_dump.dump(phone.tree(), phone.window_package, phone.scale, phone.width, phone.height, phone.rotation)
    said = f"UI hierchary dumped to: {target}\n"  # sic: the real tool's spelling
    if target == "/dev/tty":
        return xml + said
    files.write(phone, target, xml.encode())
    return said


def screencap(phone: Phone, words: list[str]) -> bytes:
    """`screencap [-p] [-d DISPLAY] [FILE]`; there is only one display.

    Without `-p`, writes width, height, pixel format (1: RGBA), color space (1: sRGB), and the pixels.
    """
    at = words.index("-d") if "-d" in words else len(words)
    target = next((w for w in words[:at] + words[at + 2 :] if not w.startswith("-")), "")
    if "-p" in words or target.endswith(".png"):
        data = render.png(phone)
    else:
        pixels = render.draw_screen(phone).convert("RGBA").tobytes()
        data = struct.pack("<IIII", phone.width, phone.height, 1, 1) + pixels
    if not target:
        return data
    files.write(phone, target, data)
    return b""


def sim(phone: Phone, words: list[str]) -> str:
    """`sim reset --seed N --popups RATE` instantly resets an embedded phone; with `--apps`, to one with the generated
    apps of these numbers or those of EXTRA_APPS; with `--languages`, to one in one of these languages."""
    if words[:1] != ["reset"]:
        raise Failure("usage: sim reset [--seed N] [--popups RATE] [--apps NUMBER|NAME,...] [--languages CODE,...]", 2)
    rate = number(option(words, "--popups", "0"), "sim reset")
    if not 0 <= rate <= 1:
        raise Failure(f"sim reset: --popups is {rate}; give a chance between 0 and 1", 2)
    apps = [
        word if word in EXTRA_APPS else int(number(word, "sim reset"))
        for word in option(words, "--apps", "").split(",")
        if word
    ]
    languages = option(words, "--languages", "en").split(",")
    if unknown := [code for code in languages if code not in LANGUAGES]:
        raise Failure(f"sim reset: --languages has {unknown[0]!r}; choose from {', '.join(LANGUAGES)}", 2)
    phone.reset(int(number(option(words, "--seed", "0"), "sim reset")), rate, apps, languages)
    return ""


COMMANDS: dict[str, Handler] = {
    f.__name__: f for f in (date, sleep, getprop, logcat, reboot, ifconfig, uiautomator, screencap, sim)
} | {"restorecon": lambda phone, words: ""}
