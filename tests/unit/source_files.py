"""Writes small data sets in their published formats, with nothing of the code that reads them."""

from __future__ import annotations

import gzip
import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google_crc32c import value as crc32c
from PIL import Image

WIDTH, HEIGHT = 108, 240


def png(shade: int = 0, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (shade, 90, 200)).save(buffer, "PNG")
    return buffer.getvalue()


# --- TFRecord ----------------------------------------------------------------------------------------------------


def framed(records: Iterable[bytes], crc: Any = crc32c) -> bytes:
    def check(data: bytes) -> bytes:
        value = crc(data)
        rotated = (value >> 15 | value << 17) & 0xFFFFFFFF
        return struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)

    parts = []
    for record in records:
        length = struct.pack("<Q", len(record))
        parts += [length, check(length), record, check(record)]
    return b"".join(parts)


def write_tfrecord(path: Path, records: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(framed(records), mtime=0))
    return path


# --- protocol buffers --------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def example(features: Mapping[str, Sequence[Any]]) -> bytes:
    """A serialized tf.train.Example, with packed numbers as TensorFlow writes them."""
    entries = []
    for name, values in features.items():
        if values and isinstance(values[0], bytes):
            feature = block(1, b"".join(block(1, v) for v in values))
        elif values and isinstance(values[0], float):
            feature = block(2, block(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = block(3, block(1, b"".join(map(varint, values))))
        entries.append(block(1, block(1, name.encode()) + block(2, feature)))
    return block(1, b"".join(entries))


# --- AndroidControl ----------------------------------------------------------------------------------------------

NODE_TEXTS = {"cls": 3, "hint": 5, "package": 6, "text": 7}
NODE_FLAGS = {"clickable": 14, "editable": 15, "enabled": 16, "visible": 23}


def node(number: int, box: tuple[int, int, int, int], children: Sequence[int] = (), **fields: Any) -> bytes:
    """An AndroidAccessibilityNodeInfo; visible and enabled unless told otherwise."""
    rect = b"".join(whole(i, v) for i, v in enumerate(box, start=1) if v)
    out = (whole(1, number) if number else b"") + block(2, rect)
    for name, value in ({"visible": True, "enabled": True} | fields).items():
        if name in NODE_TEXTS:
            out += block(NODE_TEXTS[name], value.encode())
        elif value:
            out += whole(NODE_FLAGS[name], 1)
    return out + (block(25, b"".join(map(varint, children))) if children else b"")


def window(nodes: Sequence[bytes], active: bool = True, kind: int = 1, layer: int = 0) -> bytes:
    out = (whole(4, layer) if layer else b"") + whole(6, kind) + (whole(8, 1) if active else b"")
    return out + block(11, b"".join(block(1, n) for n in nodes))


def forest(*windows: bytes) -> bytes:
    return b"".join(block(1, w) for w in windows)


def save_forest() -> bytes:
    """A screen with a title, a field and the button Save at (54, 200) px, under a status bar."""
    nodes = [
        node(0, (0, 0, 108, 240), [1, 2, 3, 4], cls="android.widget.FrameLayout", package="com.example.notes"),
        node(1, (0, 0, 108, 40), cls="android.widget.TextView", text="My notes"),
        node(2, (10, 100, 98, 140), cls="android.widget.EditText", hint="Title", clickable=True, editable=True),
        node(3, (14, 180, 94, 220), cls="android.widget.Button", text="Save", clickable=True),
        node(4, (14, 50, 94, 90), cls="android.widget.Button", text="Behind", clickable=True, visible=False),
    ]
    bar = [node(0, (0, 0, 108, 10), cls="android.widget.FrameLayout", text="12:00", package="com.android.systemui")]
    return forest(window(bar, active=False, kind=3, layer=9), window(nodes, layer=1))


CLICK_SAVE = {"action_type": "click", "x": 54, "y": 200}


def control_episode(
    episode: int = 1,
    instruction: str = "Save the note",
    actions: Sequence[Any] = ({"action_type": "open_app", "app_name": "Notes"}, CLICK_SAVE),
    **changes: Sequence[Any] | None,
) -> dict[str, Sequence[Any]]:
    """The features of an episode; `changes` replace some of them, and None leaves one out."""
    count = len(actions) + 1
    features = {
        "episode_id": [episode],
        "goal": [instruction.encode()],
        "screenshots": [png(10 * i) for i in range(count)],
        "accessibility_trees": [save_forest()] * count,
        "screenshot_widths": [WIDTH] * count,
        "screenshot_heights": [HEIGHT] * count,
        "actions": [a if isinstance(a, bytes) else json.dumps(a).encode() for a in actions],
        "step_instructions": [f"Do step {i} of {episode}".encode() for i in range(len(actions))],
    }
    return {name: values for name, values in (features | changes).items() if values is not None}


def write_control(folder: Path, *episodes: Mapping[str, Sequence[Any]], shard: int = 0) -> Path:
    name = f"android_control-{shard:05d}-of-00020"
    return write_tfrecord(folder / name, [example(e) for e in episodes])


# --- Android in the Wild -----------------------------------------------------------------------------------------


def pixels(shade: int = 0, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    return bytes([shade, 90, 200]) * (width * height)


def wild_step(
    step: int = 0,
    length: int = 1,
    episode: str = "1001",
    goal: str = "Open the wifi settings",
    **changes: Sequence[Any],
) -> dict[str, Sequence[Any]]:
    """The features of one step, by default STATUS_TASK_COMPLETE."""
    features = {
        "episode_id": [episode.encode()],
        "episode_length": [length],
        "goal_info": [goal.encode()],
        "image/channels": [3],
        "image/encoded": [pixels(step)],
        "image/height": [HEIGHT],
        "image/width": [WIDTH],
        "image/ui_annotations_positions": [0.25, 0.1, 0.1, 0.8, 0.5, 0.1, 0.05, 0.1],
        "image/ui_annotations_text": [b"Network & internet", b""],
        "image/ui_annotations_ui_types": [b"TEXT", b"ICON_SEARCH"],
        "results/action_type": [10],
        "results/type_action": [b""],
        "results/yx_lift": [-1.0, -1.0],
        "results/yx_touch": [-1.0, -1.0],
        "step_id": [step],
    }
    return {**features, **{name.replace("__", "/"): values for name, values in changes.items()}}


def gesture(touch: tuple[float, float], lift: tuple[float, float]) -> dict[str, Sequence[Any]]:
    """A dual-point action; both points are (y, x)."""
    return {"results__action_type": [4], "results__yx_touch": list(touch), "results__yx_lift": list(lift)}


def write_wild(path: Path, *steps: Mapping[str, Sequence[Any]]) -> Path:
    return write_tfrecord(path, [example(s) for s in steps])


# --- Mobile3M ----------------------------------------------------------------------------------------------------


def appium_page(*buttons: tuple[str, str, tuple[int, int, int, int]]) -> str:
    """Appium's page source of a 720x1280 screen with buttons (text, id, box)."""
    nodes = "".join(
        f'<android.widget.TextView index="{i}" class="android.widget.TextView" text="{text}" '
        f'resource-id="{name}" clickable="true" enabled="true" bounds="[{x1},{y1}][{x2},{y2}]" displayed="true" />'
        for i, (text, name, (x1, y1, x2, y2)) in enumerate(buttons)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes" ?><hierarchy rotation="0">'
        f'<android.widget.FrameLayout class="android.widget.FrameLayout" bounds="[0,0][720,1280]">{nodes}'
        "</android.widget.FrameLayout></hierarchy>"
    )


def html_button(text: str, name: str) -> str:
    return f'<p id="{name}" package="com.example.music" class="android.widget.TextView" clickable="true"> {text} </p>'


def write_graph(
    folder: Path,
    pages: Mapping[str, str],
    actions: Mapping[str, int],
    triples: Sequence[Sequence[Any]],
    size: tuple[int, int] = (720, 1280),
) -> Path:
    """An app's folder: `pages` are names and XML."""
    for shade, (name, xml) in enumerate(pages.items()):
        page = folder / name
        page.mkdir(parents=True)
        (page / f"{name}-screen.png").write_bytes(png(shade, *size))
        (page / f"{name}-xml.txt").write_text(xml + "\n", encoding="utf-8")
    (folder / "all_triple.json").write_text(json.dumps({"num": len(triples), "data": triples}), encoding="utf-8")
    (folder / "all_action_id.json").write_text(json.dumps(json.dumps(dict(actions))), encoding="utf-8")
    return folder
