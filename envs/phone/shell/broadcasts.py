"""`am broadcast`: the helpers of test tools that are part of the phone, ADBKeyboard and Clipper."""

from __future__ import annotations

import base64
import binascii

from envs.phone import panels
from envs.phone.phone import Phone
from envs.phone.shell.command import Failure, option

ADB_IME = "com.android.adbkeyboard/.AdbIME"
_TEXT_EXTRAS = ("-e", "--es")


def run(phone: Phone, words: list[str]) -> str:
    action = option(words, "-a")
    result = "result=0"
    if action.startswith("ADB_"):
        _type(phone, action, words)
    elif action.startswith("clipper.") and phone.panel is not None and phone.panel.name == panels.CLIPPER:
        result = f'result=-1, data="{_clipper(phone, action, words)}"'
    extras = " (has extras)" if any(w.startswith("--e") or w == "-e" for w in words) and action[:4] != "ADB_" else ""
    return f"Broadcasting: Intent {{ act={action} flg=0x400000{extras} }}\nBroadcast completed: {result}\n"


def _type(phone: Phone, action: str, words: list[str]) -> None:
    """ADBKeyboard hears its broadcasts only while it is the keyboard."""
    if phone.settings["secure"].get("default_input_method") != ADB_IME:
        return
    if action == "ADB_INPUT_B64":
        phone.text(_decoded(_extra(words, "msg")))
    elif action == "ADB_INPUT_TEXT":
        phone.text(_extra(words, "msg"))
    elif action == "ADB_CLEAR_TEXT":
        phone.clear_text()


def _clipper(phone: Phone, action: str, words: list[str]) -> str:
    """Clipper may read the clipboard only while its page is in front, as on Android 10 and later."""
    if action == "clipper.set":
        phone.clipboard = _extra(words, "text")
        return "Text is copied into clipboard."
    return phone.clipboard


def _extra(words: list[str], name: str) -> str:
    for flag in _TEXT_EXTRAS:
        if flag in words and words[words.index(flag) + 1 : words.index(flag) + 2] == [name]:
            at = words.index(flag) + 2
            if at < len(words):
                return words[at]
    raise Failure(f"Error: the broadcast needs --es {name} TEXT", 255)


def _decoded(message: str) -> str:
    try:
        return base64.b64decode(message, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Failure("Error: msg is not base64 of UTF-8 text", 255) from None
