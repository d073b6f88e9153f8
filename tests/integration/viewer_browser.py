"""A headless Chromium driven over a pipe (the DevTools protocol), for the viewer's tests."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
KEYS = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Enter": 13, "Escape": 27}
DEADLINE_S = 180.0


class Browser:
    """One page, as a context manager. `errors` collects console errors, exceptions and refused loads.

    Every wait ends in a TimeoutError after DEADLINE_S.
    """

    def __init__(self, profile: Path, width: int = 1280, height: int = 860) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._next, self._buffer = 0, b""
        self._answers: dict[int, dict[str, Any]] = {}
        self._process, self._out, self._in = _start(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        )
        target = self._ask("Target.createTarget", {"url": "about:blank"}, session=None)["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, session=None)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception: object) -> None:
        """Closes the browser with all its processes; kills it after ten seconds."""
        os.write(self._out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        end = time.monotonic() + 10
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)
                break
            time.sleep(0.02)
        os.close(self._out)
        os.close(self._in)

    # --- actions -------------------------------------------------------------------------------------------------

    def open(self, address: str) -> None:
        """Loads the page and waits until it is complete."""
        self._ask("Page.navigate", {"url": "about:blank"})
        self.wait("location.href === 'about:blank'")
        self._ask("Page.navigate", {"url": address})
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are waited for."""
        found = self._ask("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until the expression is true and no view is being drawn."""
        settled = "document.getElementById('main')?.getAttribute('aria-busy') !== 'true'"
        # The page learns of a changed address in the next turn of its event loop.
        asked = f"new Promise((turn) => setTimeout(turn)).then(() => ({expression}) && {settled})"
        self._until(lambda: self.evaluate(asked), expression)

    def press(self, *keys: str) -> None:
        for key in keys:
            code = KEYS.get(key, ord(key[0]) if len(key) == 1 else 0)
            event = {"key": key, "windowsVirtualKeyCode": code, **({"text": key} if len(key) == 1 else {})}
            event |= {"text": "\r"} if key == "Enter" else {}
            self._ask("Input.dispatchKeyEvent", {"type": "keyDown", **event})
            self._ask("Input.dispatchKeyEvent", {"type": "keyUp", **event})

    def click(self, selector: str) -> None:
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def pointer(self, selector: str) -> None:
        """Clicks with the mouse in the middle of the element, which moves the focus there."""
        box = self.evaluate(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", {"type": kind, **at})

    def move(self, x: float, y: float) -> None:
        """Moves the mouse to a place in the window."""
        self._ask("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def text(self, selector: str = "body") -> str:
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def count(self, selector: str) -> int:
        return self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")

    def each(self, selector: str, path: str) -> list[Any]:
        """A property path of every element that matches."""
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.{path})")

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, on: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self._ask("Emulation.setEmulatedMedia", {"features": [feature]})

    # --- the protocol --------------------------------------------------------------------------------------------

    def _ask(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = "page") -> Any:
        self._next += 1
        number = self._next
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        self._until(lambda: number in self._answers, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _until(self, done: Any, what: str) -> None:
        end = time.monotonic() + DEADLINE_S
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {DEADLINE_S:g} s for {what}")
            self._read()

    def _read(self) -> None:
        ready, _, _ = select.select([self._in], [], [], 0.05)
        if not ready:
            return
        piece = os.read(self._in, 1 << 20)
        if not piece:
            raise RuntimeError("Chromium has ended")
        *messages, self._buffer = (self._buffer + piece).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._note(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, said = event["method"], event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{said['entry']['text']} {said['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])


def _start(command: list[str]) -> tuple[int, int, int]:
    """(process id, pipe to it, pipe from it). Chromium reads commands on descriptor 3 and answers on 4."""
    read, to_it = os.pipe()
    from_it, write = os.pipe()
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read, write)]  # not 3 or 4 themselves
    actions = [(os.POSIX_SPAWN_DUP2, theirs[0], 3), (os.POSIX_SPAWN_DUP2, theirs[1], 4)]
    actions += [(os.POSIX_SPAWN_OPEN, out, os.devnull, os.O_WRONLY, 0) for out in (1, 2)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    for end in (read, write, *theirs):
        os.close(end)
    return process, to_it, from_it
