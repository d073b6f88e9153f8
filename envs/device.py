"""The adb commands that an agent needs, over any `Transport`. The embedded phone and real ones take the same."""

from __future__ import annotations

import base64
import io
import re
import struct
import zlib
from collections.abc import Mapping
from typing import cast

from PIL import Image

from mobilerl.envs.base import COORD_MAX, Action, InfraError, ShellResult, Transport
from mobilerl.envs.retry import Lasting, retry

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_END = b"IEND\xaeB`\x82"
LONG_PRESS_MS = 1000
SWIPE_MS = 400
MAX_WAIT_S = 10.0
DUMP_S = 15.0
"""Maximum duration of `uiautomator dump`, which itself waits 10 s for a screen to stand still."""
MAX_TYPED = 10_000
"""Maximum bytes of text in one command. Quoting may make them five times as many; `adb` sends at most 60,000."""
TOO_LONG = f"the text is too long for a phone: at most {MAX_TYPED} bytes can be typed at once"

_SIZE = re.compile(r"^(Physical|Override) size: (\d{1,9})x(\d{1,9})", re.MULTILINE)
_ROTATION = re.compile(r'<hierarchy rotation="([0-3])"')
_APP = re.compile(r"mFocusedApp=ActivityRecord\{\S+ u\d+ ([\w.]+)/")
_WINDOW = re.compile(r"mCurrentFocus=Window\{\S+ u\d+ ([\w.]+)/")
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BLACK = 8
"""Largest channel value in an image that counts as black."""
LONGEST_SIDE = 16_384
"""Longest accepted side of a screen in pixels."""
MOST_PIXELS = 32_000_000
"""Maximum pixels of a screenshot: a few kB of PNG can claim any number, which would be allocated here."""
IMAGE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""Exceptions that Pillow raises on damaged images."""
_PACKAGE = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")
FROM_ICON = ("-a", "android.intent.action.MAIN", "-c", "android.intent.category.LAUNCHER")
"""The intent of a tap on an app's icon."""
AS_NEW_TASK = "0x10200000"
"""FLAG_ACTIVITY_NEW_TASK and FLAG_ACTIVITY_RESET_TASK_IF_NEEDED, with which home screens start apps."""
ROTATION = ("accelerometer_rotation", "user_rotation")
"""System settings that `monkey` changes."""


class NoTree(Lasting):
    """`uiautomator` waited in vain for a screen that never stands still."""


class Device:
    """One phone behind a transport.

    `apps` maps the names under the icons (any case) to packages, and `timeout_s` limits each command. Every method
    raises `InfraError` when the device does not answer as a working device does. Observing is retried before that;
    acting never is, because a command whose answer was lost may have been carried out. Commands are lists of words, so
    that no text of a model reaches a shell unquoted.
    """

    def __init__(self, transport: Transport, apps: Mapping[str, str] | None = None, timeout_s: float = 10.0) -> None:
        self.transport = transport
        self.timeout_s = timeout_s
        self.name_apps(apps or {})
        self._size: tuple[int, int] | None = None
        self._rotation = 0

    def name_apps(self, apps: Mapping[str, str]) -> None:
        """Sets the names under the icons, and their packages."""
        self._packages = {label.casefold(): package for label, package in apps.items()}
        self._labels = {package: label for label, package in apps.items()}

    def size(self) -> tuple[int, int]:
        """Width and height in pixels, in the orientation of the last UI tree that was read.

        The panel's size is queried only once, because a phone does not change its resolution during a run.
        """
        if self._size is None:
            said = self.look("wm", "size")
            found = {kind: (int(w), int(h)) for kind, w, h in _SIZE.findall(said)}
            size = found.get("Override") or found.get("Physical")
            if size is None or not all(0 < side <= LONGEST_SIDE for side in size):
                raise InfraError(f"{self.transport.serial}: no screen size in the answer to `wm size`: {said[:80]!r}")
            self._size = size
        return self._size[::-1] if self._rotation % 2 else self._size

    def screenshot(self) -> bytes:
        """The screen as PNG bytes. Warnings that some devices print before the image are dropped."""
        return retry(self._screenshot)

    def _screenshot(self) -> bytes:
        data = self.transport.exec_out(("screencap", "-p"), self.timeout_s)
        start = data.find(PNG_SIGNATURE)
        if start < 0:
            raise InfraError(f"{self.transport.serial}: `screencap -p` gave no PNG but {data[:80]!r}")
        if PNG_END not in data[-64:]:
            raise InfraError(f"{self.transport.serial}: `screencap -p` stopped after {len(data)} bytes of a PNG")
        try:
            black = is_black(data[start:])
        except ValueError as error:
            what = f"`screencap -p` gave a PNG that cannot be read: {error}"
            raise InfraError(f"{self.transport.serial}: {what}") from None
        if black:
            raise InfraError(f"{self.transport.serial}: the screen is black")
        return data[start:]

    def dump_xml(self) -> str:
        """The UI tree. Never an earlier dump, even though `uiautomator` may fail with exit code 0."""
        return retry(self._dump_xml)

    def _dump_xml(self) -> str:
        data = self.transport.exec_out(("uiautomator", "dump", "/dev/tty"), DUMP_S).decode(errors="replace")
        start, end = data.find("<?xml"), data.rfind("</hierarchy>")
        if start < 0 or end < start:
            kind = NoTree if "could not get idle state" in data else InfraError
            raise kind(f"{self.transport.serial}: `uiautomator dump` gave no tree but {data[:80]!r}")
        if turned := _ROTATION.search(data, start):
            self._rotation = int(turned[1])
        return data[start : end + len("</hierarchy>")]

    def foreground_package(self) -> str:
        """Package of the app in front, even while a system dialog covers it; "" if there is none."""
        said = self.look("dumpsys", "window")
        match = _APP.search(said) or _WINDOW.search(said)
        return match[1] if match else ""

    def boot_id(self) -> str:
        """An identifier that changes at every boot, to detect a reboot."""
        return self.look("cat", BOOT_ID).strip()

    def foreground_app(self) -> str:
        """Name of the app in front, or its package when the name is not known."""
        package = self.foreground_package()
        return self._labels.get(package, package)

    def look(self, *words: str) -> str:
        """Output of a read-only command, which is retried when it fails."""
        return retry(lambda: self._run(*words)).stdout

    def act(self, action: Action) -> str:
        """Carries out an action. Returns why it had no effect, or "". Raises TypeError for Finish and Invalid."""
        match action.kind:
            case "tap":
                self._input("tap", *self._pixels(action.x, action.y))
            case "long_press":
                point = self._pixels(action.x, action.y)
                self._input("swipe", *point, *point, LONG_PRESS_MS)
            case "swipe":
                self._input("swipe", *self._pixels(action.x, action.y), *self._pixels(action.x2, action.y2), SWIPE_MS)
            case "type":
                return self._type(action.text)
            case "launch":
                return self._launch(action.app)
            case "back" | "home" | "enter":
                self._input("keyevent", f"KEYCODE_{action.kind.upper()}")
            case "wait":
                seconds = min(max(action.seconds, 0.0), MAX_WAIT_S)
                self._run("sleep", f"{seconds:g}", timeout=seconds + self.timeout_s)
            case _:
                raise TypeError(f"{action.kind} is not an action of a device")
        return ""

    def home(self) -> None:
        self._input("keyevent", "KEYCODE_HOME")

    def _type(self, text: str) -> str:
        """Types through ADBKeyboard's broadcasts, because `input text` supports only ASCII."""
        if too_long(text):
            return TOO_LONG
        message = base64.b64encode(text.encode(errors="replace")).decode()
        self._run("am", "broadcast", "-a", "ADB_CLEAR_TEXT")
        self._run("am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg", message)
        return ""

    def _launch(self, app: str) -> str:
        package = self._packages.get(app.strip().casefold(), app.strip())
        if too_long(package) or not _PACKAGE.fullmatch(package):
            return no_app(app)
        for query in ("resolve-activity", "query-activities"):  # the first names Android's chooser where there are two
            said = self.transport.shell(
                ("cmd", "package", query, "--brief", *FROM_ICON, package), self.timeout_s
            ).stdout
            if "No activity found" in said:
                return no_app(app)
            if found := re.search(rf"^\s*({re.escape(package)}/[\w.$]+)\s*$", said, re.MULTILINE):
                return self._start(found[1])
        return self._launch_with_monkey(app, package)

    def _start(self, activity: str) -> str:
        result = self._run("am", "start", "-f", AS_NEW_TASK, *FROM_ICON, "-n", activity)
        said = f"{result.stdout}\n{result.stderr}"
        if re.search(r"^\s*Error", said, re.MULTILINE):  # `am` exits with 0
            raise InfraError(f"{self.transport.serial}: `am start` failed: {' '.join(said.split())[-80:]}")
        return ""

    def _launch_with_monkey(self, app: str, package: str) -> str:
        """For Android 7 and older. `monkey` turns auto-rotate on when it ends, so the settings are put back."""
        before = {name: self.look("settings", "get", "system", name).strip() for name in ROTATION}
        result = self.transport.shell(("monkey", "-p", package, *FROM_ICON[2:], "1"), self.timeout_s)
        for name, value in before.items():
            if value.isdecimal():  # not "null"
                self._run("settings", "put", "system", name, value)
        if "Events injected" in result.stdout:
            return ""
        if "No activities found" in result.stdout + result.stderr:
            return no_app(app)
        raise InfraError(f"{self.transport.serial}: `monkey` failed: {(result.stderr or result.stdout).strip()[:80]}")

    def _pixels(self, x: int, y: int) -> tuple[int, int]:
        """Converts relative coordinates (0-999) to pixels, clipped to the screen."""
        width, height = self.size()
        return min(max(x * width // COORD_MAX, 0), width - 1), min(max(y * height // COORD_MAX, 0), height - 1)

    def _input(self, *words: str | int) -> None:
        self._run("input", *(str(w) for w in words))

    def _run(self, *words: str, timeout: float = 0.0) -> ShellResult:
        result = self.transport.shell(words, timeout or self.timeout_s)
        if result.exit_code != 0:
            said = (result.stderr or result.stdout).strip()[:80]
            raise InfraError(f"{self.transport.serial}: `{words[0]}` failed with {result.exit_code}: {said}")
        return result


def too_long(text: str) -> bool:
    """Whether a command with this text, quoted or in base64, could be longer than the device's shell accepts."""
    return len(text.encode(errors="replace")) > MAX_TYPED


def no_app(name: str) -> str:
    """The message for an unknown app. The name is truncated, because the model may have written anything."""
    return f"there is no app called {name[:60]!r}"


def is_black(png: bytes) -> bool:
    """Whether a PNG is all black. Raises ValueError like `open_image`.

    Only images that compress as well as a single color are decoded.
    """
    image = open_image(png)
    if len(png) > 1000 + image.width * image.height // 200:
        return False
    bands = cast("tuple[tuple[int, int], ...]", image.convert("RGB").getextrema())
    return max(high for _, high in bands) <= BLACK


def open_image(png: bytes) -> Image.Image:
    """Opens and fully decodes an image, so that damage is found here and not later in a model's batch.

    Raises ValueError if it is not a complete PNG or has more than `MOST_PIXELS`.
    """
    try:
        image = Image.open(io.BytesIO(png), formats=("PNG",))
        if image.width * image.height <= MOST_PIXELS:
            image.load()
            return image
    except IMAGE_ERRORS as error:
        raise ValueError(" ".join(str(error).split())[:200] or type(error).__name__) from None
    raise ValueError(f"{image.width}x{image.height} pixels")
