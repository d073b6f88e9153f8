"""The trace of an episode on disk, in the format that AndroidLab's judges read.

<folder>/trace.jsonl    one line per step, written after its action
<folder>/Screen/0.png   the screen before the action of step 0
<folder>/xml/0.xml      its UI tree, if there was one
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from mobilerl.envs.androidlab.phone import Seen
from mobilerl.envs.base import (
    COORD_MAX,
    Action,
    Back,
    Enter,
    Finish,
    Home,
    Invalid,
    Launch,
    LongPress,
    Swipe,
    Tap,
    Type,
)

TRACE = "trace.jsonl"
NO_TREE = "ERROR"
"""Replaces the path of a missing tree: AndroidLab's evaluation skips such a step."""
_KEYS = (Back, Home, Enter)


class TraceWriter:
    """Writes the folder of one episode. Files of an earlier attempt are removed first."""

    def __init__(self, folder: Path, task_id: str, instruction: str) -> None:
        self.folder, self._task_id, self._instruction = folder, task_id, instruction
        self._line: dict[str, Any] = {}
        if folder.exists():
            shutil.rmtree(folder)
        for part in ("Screen", "xml"):
            (folder / part).mkdir(parents=True)

    def record_screen(self, index: int, screen: Seen, command: dict[str, str]) -> None:
        """Records a screen and the output of the task's query on it. Paths in the trace are relative to its folder."""
        (self.folder / "Screen" / f"{index}.png").write_bytes(screen.screenshot)
        if screen.xml:
            (self.folder / "xml" / f"{index}.xml").write_text(screen.xml, encoding="utf-8", errors="replace")
        self._line = {
            "trace_id": self._task_id,
            "index": index,
            "target": self._instruction,
            "image": f"Screen/{index}.png",
            "xml": f"xml/{index}.xml" if screen.xml else NO_TREE,
            "ac_xml": None,
            "current_activity": screen.package,
            "window": [screen.width, screen.height],
        }
        if command:
            self._line["command"] = command

    def record_action(self, parsed: dict[str, Any]) -> None:
        """Records the action taken on the last screen, in AndroidLab's format."""
        line = self._line | {"parsed_action": parsed}
        with open(self.folder / TRACE, "a", encoding="ascii") as f:
            f.write(json.dumps(line) + "\n")


def parsed_action(action: Action, width: int, height: int, apps: dict[str, str]) -> dict[str, Any]:
    """An action in AndroidLab's format, with points in pixels of a `width` x `height` screen. `apps` maps names to
    packages."""

    def point(x: int, y: int) -> list[int]:
        return [x * width // COORD_MAX, y * height // COORD_MAX]

    if isinstance(action, Finish):
        return {"operation": "finish", "action": "finish", "kwargs": {"message": action.message}}
    if isinstance(action, Invalid):
        return {"operation": "invalid", "action": "invalid", "kwargs": {"reason": action.reason}}
    name = action.kind.replace("_", " ").title()
    said: dict[str, Any] = {"operation": "do", "action": f"Press {name}" if isinstance(action, _KEYS) else name}
    if isinstance(action, Tap | LongPress):
        said["kwargs"] = {"element": point(action.x, action.y)}
    elif isinstance(action, Swipe):
        said["kwargs"] = {"element": point(action.x, action.y), "end": point(action.x2, action.y2)}
    elif isinstance(action, Type):
        said["kwargs"] = {"text": action.text}
    elif isinstance(action, Launch):
        said["kwargs"] = {"package": apps.get(action.app, action.app)}
    return said


def read_trace(folder: Path) -> list[dict[str, Any]]:
    """The lines of a trace, or none if there is no file. A truncated last line is left out."""
    path = folder / TRACE
    if not path.is_file():
        return []
    whole = path.read_text(encoding="ascii").split("\n")[:-1]
    return [json.loads(line) for line in whole]
