"""`getprop` and `setprop`: those of an emulator with API 33, under a name of our own."""

from __future__ import annotations

from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, Handler

_BUILD = "TE1A.220922.034"
_NUMBER = "10940250"
_NAME = "sdk_gphone64_x86_64"
_DEVICE = "emu64xa"
_FINGERPRINT = f"mobilerl/{_NAME}/{_DEVICE}:13/{_BUILD}/{_NUMBER}:userdebug/dev-keys"
SERIAL = "EMULATOR33X1X1X0"
PROPERTIES = {
    "bootreason": "reboot",
    "dalvik.vm.heapsize": "512m",
    "debug.force_rtl": "0",
    "dev.bootcomplete": "1",
    "gsm.operator.alpha": "T-Mobile",
    "gsm.sim.state": "LOADED",
    "init.svc.adbd": "running",
    "init.svc.bootanim": "stopped",
    "init.svc.zygote": "running",
    "net.bt.name": "Android",
    "persist.sys.locale": "en-US",
    "persist.sys.timezone": "UTC",
    "ro.adb.secure": "0",
    "ro.board.platform": "",
    "ro.boot.hardware": "ranchu",
    "ro.boot.qemu": "1",
    "ro.boot.serialno": SERIAL,
    "ro.bootimage.build.fingerprint": _FINGERPRINT,
    "ro.build.characteristics": "emulator",
    "ro.build.date.utc": "1697384040",
    "ro.build.description": f"{_NAME}-userdebug 13 {_BUILD} {_NUMBER} dev-keys",
    "ro.build.display.id": f"{_NAME}-userdebug 13 {_BUILD} {_NUMBER} dev-keys",
    "ro.build.fingerprint": _FINGERPRINT,
    "ro.build.id": _BUILD,
    "ro.build.product": _DEVICE,
    "ro.build.tags": "dev-keys",
    "ro.build.type": "userdebug",
    "ro.build.version.codename": "REL",
    "ro.build.version.incremental": _NUMBER,
    "ro.build.version.release": "13",
    "ro.build.version.release_or_codename": "13",
    "ro.build.version.sdk": "33",
    "ro.build.version.security_patch": "2022-09-05",
    "ro.crypto.state": "encrypted",
    "ro.debuggable": "1",
    "ro.hardware": "ranchu",
    "ro.kernel.qemu": "1",
    "ro.opengles.version": "196609",
    "ro.product.board": "goldfish_x86_64",
    "ro.product.brand": "mobilerl",
    "ro.product.cpu.abi": "x86_64",
    "ro.product.cpu.abilist": "x86_64,arm64-v8a",
    "ro.product.cpu.abilist32": "",
    "ro.product.cpu.abilist64": "x86_64,arm64-v8a",
    "ro.product.device": _DEVICE,
    "ro.product.first_api_level": "33",
    "ro.product.locale": "en-US",
    "ro.product.manufacturer": "mobilerl",
    "ro.product.model": _NAME,
    "ro.product.name": _NAME,
    "ro.secure": "1",
    "ro.serialno": SERIAL,
    "ro.sf.lcd_density": "480",
    "service.adb.root": "1",
    "sys.boot_completed": "1",
    "sys.usb.config": "adb",
}


def table(phone: Phone) -> dict[str, str]:
    """All properties of the phone as they are now."""
    of_screen = {"ro.sf.lcd_density": str(phone.display.physical_density)}
    return {**PROPERTIES, **of_screen, **phone.properties}


def getprop(phone: Phone, words: list[str]) -> str:
    if not words:
        return "".join(f"[{key}]: [{value}]\n" for key, value in sorted(table(phone).items()))
    return table(phone).get(words[0], words[1] if len(words) > 1 else "") + "\n"


def setprop(phone: Phone, words: list[str]) -> str:
    if len(words) != 2:
        raise Failure("usage: setprop NAME VALUE", 1)
    name, value = words
    if name.startswith("ro.") and name in table(phone):
        raise Failure(f"Failed to set property '{name}' to '{value}'.\nSee dmesg for error reason.", 1)
    phone.properties[name] = value
    return ""


COMMANDS: dict[str, Handler] = {"getprop": getprop, "setprop": setprop}
