"""Identifies the page a screen belongs to by its controls, ignoring its contents.

A screen is reduced to a `Shape`: its package, its title, and the set of its controls. A control is a class, its
supported actions, its resource id and its label. Anything that changes without leaving the page is ignored: clocks and
other plain text, the contents of fields, the states of switches, the number and text of list rows, toasts.

Some of the remaining labels and titles are contents ("Remove Kettle", the name of a contact). `learn` finds them by
comparing phones with different contents.
"""

from __future__ import annotations

import hashlib
import io
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageChops, ImageStat

from mobilerl.envs.base import COORD_MAX
from mobilerl.policy.screen import Box

ANY = "*"
"""Placeholder of a label or title that is contents."""
NUMBER = "#"
"""Placeholder of a text with a digit in it: times, dates, amounts, keys of a keypad."""
MAX_NAMES = 8
"""Maximum number of titles over the same controls, or of labels on one kind of control in a list; more than that are
contents (products, people) rather than names of pages."""
IN_LIST = " listed"
TIE_SIZE = (45, 90)
"""Size at which screenshots are compared."""

Control = tuple[str, str]
"""Use (class, id, actions) and label of a control."""
Texts = tuple[str, ...]

_LISTS = ("ScrollView", "ListView", "RecyclerView", "GridView", "ViewPager")
_EDIT = ("EditText", "AutoCompleteTextView")
_TOASTS = ("snackbar_text", "snackbar_action", "toast")


@dataclass(frozen=True, slots=True)
class Shape:
    """The stable features of a single screen."""

    package: str
    title: str
    controls: frozenset[Control]


def shape_of(xml: str) -> Shape:
    """Reads a uiautomator dump. Raises ValueError for an unreadable one."""
    if "<!DOCTYPE" in xml:
        raise ValueError("unreadable UI dump: it declares a document type")
    try:
        root = ET.fromstring(xml)
    except (ET.ParseError, ValueError) as fault:  # ValueError: lone surrogates
        raise ValueError(f"unreadable UI dump: {fault}") from None
    reader = _Reader()
    try:
        for node in root:
            reader.read(node, in_list=False, in_control=False)
    except RecursionError:
        raise ValueError("unreadable UI dump: it is nested too deeply") from None
    package = next((name for n in root.iter() if (name := n.get("package"))), "")  # Appium names tags after classes
    return Shape(package, reader.title, frozenset(reader.controls))


def field_hints(xml: str, width: int, height: int) -> dict[Box, str]:
    """Hints of the text fields in a dump that `shape_of` can read, by box (0-999)."""
    hints = {}
    for node in ET.fromstring(xml).iter():
        if (hint := " ".join(node.get("hint", "").split())) and (box := node_box(node, width, height)):
            hints[box] = hint
    return hints


def node_box(node: ET.Element, width: int, height: int) -> Box | None:
    """Bounds of a node in 0-999, clipped to the screen like those of elements; None if it has none."""
    corners = [int(v) for v in re.findall(r"-?\d+", node.get("bounds", ""))]
    if len(corners) != 4:
        return None
    sizes = (width, height, width, height)
    x1, y1, x2, y2 = (round(min(max(v, 0), n) * COORD_MAX / n) for v, n in zip(corners, sizes, strict=True))
    return x1, y1, x2, y2


class _Reader:
    def __init__(self) -> None:
        self.title = ""
        self.controls: set[Control] = set()

    def read(self, node: ET.Element, in_list: bool, in_control: bool) -> None:
        get = node.attrib.get
        cls, rid = get("class", "").rpartition(".")[2], get("resource-id", "").rpartition("/")[2]
        if rid in _TOASTS:
            return
        edit = cls.endswith(_EDIT)
        uses = "".join(u[0] for u in ("clickable", "long-clickable", "checkable") if get(u) == "true") + "e" * edit
        label = " ".join((get("hint", "") if edit else get("text") or get("content-desc") or "").split())
        if uses:
            state = " off" if get("enabled") == "false" else ""
            state += IN_LIST if in_list else " selected" if get("selected") == "true" else ""
            self.controls.add((f"{cls} {rid} {uses}{state}", label))
        elif label and not self.title and not in_list and not in_control:
            self.title = label
        within = in_list or cls.endswith(_LISTS) or get("scrollable") == "true"
        for child in node:
            self.read(child, within, in_control or bool(uses))


@dataclass(frozen=True, slots=True)
class Abstraction:
    """Maps a shape to its page. `labels` are the (package, use, label) of pages; None for all without a digit.

    `titles` are the (package, title) of pages; None for all titles, where every page has its own content.
    """

    labels: frozenset[Texts] | None = None
    titles: frozenset[Texts] | None = frozenset()

    def identity(self, shape: Shape) -> str:
        """Hash (twelve hex digits) that is equal for screens of the same page."""
        return _digest([self.controls_key(shape), self.title(shape) if shape.title else ""])

    def title(self, shape: Shape) -> str:
        """The title if it names the page, else `ANY` or `NUMBER`."""
        if self.titles is None:
            return shape.title
        if _has_digit(shape.title):
            return NUMBER
        return shape.title if (shape.package, shape.title) in self.titles else ANY

    def label(self, package: str, use: str, label: str) -> str:
        """A control's label if it belongs to the page, else `ANY` or `NUMBER`."""
        if not label or _has_digit(label):
            return NUMBER if label else ""
        return label if self.labels is None or (package, use, label) in self.labels else ANY

    def controls_key(self, shape: Shape) -> str:
        """Hash that is equal for screens of one app with the same controls."""
        package = shape.package
        return _digest([package, *sorted({(use, self.label(package, use, text)) for use, text in shape.controls})])

    def to_json(self) -> dict[str, Any]:
        known = {"labels": self.labels, "titles": self.titles}
        return {name: None if texts is None else sorted(texts) for name, texts in known.items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Abstraction:
        known = (values["labels"], values["titles"])
        return cls(*(None if texts is None else frozenset(map(tuple, texts)) for texts in known))


def learn(phones: Sequence[Iterable[Shape]]) -> Abstraction:
    """Learns what phones with different contents have in common; each item holds the shapes seen on one phone.

    A text belongs to a page if the first phone, the one to explore, and at least half of all phones show it. Contents
    differ between phones and are excluded. Contents that all phones share (a shop's products) are recognized by their
    number (see `MAX_NAMES`), which is the only rule that applies with one phone.
    """
    seen = [set(shapes) for shapes in phones]
    labels: list[set[Texts]] = [{(s.package, use, text) for s in shapes for use, text in s.controls} for shapes in seen]
    few = _few((label[:2], label[2]) for label in set().union(*labels) if label[1].endswith(IN_LIST))
    kept = frozenset(t for t in _common(labels) if not t[1].endswith(IN_LIST) or t[:2] in few)
    key = Abstraction(kept).controls_key
    titles: list[set[Texts]] = [{(key(s), s.package, s.title) for s in shapes if s.title} for shapes in seen]
    few = _few((title[0], title[2]) for title in set().union(*titles))
    return Abstraction(kept, frozenset(t[1:] for t in _common(titles) if t[0] in few))


def _common(phones: Sequence[set[Texts]]) -> frozenset[Texts]:
    """Texts without a digit (the last item of each tuple) that the first and at least half of all phones show."""
    counts = Counter(texts for seen in phones for texts in seen)
    return frozenset(t for t in phones[0] if 2 * counts[t] >= len(phones) and t[-1] and not _has_digit(t[-1]))


def _few(texts: Iterable[tuple[Hashable, str]]) -> set[Hashable]:
    """Places (first items) with at most `MAX_NAMES` texts."""
    seen: dict[Hashable, set[str]] = defaultdict(set)
    for place, text in texts:
        seen[place].add(text)
    return {place for place, names in seen.items() if len(names) <= MAX_NAMES}


def difference(first: bytes, second: bytes) -> float:
    """Mean absolute difference of the gray values of two screenshots, from 0 (equal) to 1."""
    small = [Image.open(io.BytesIO(png)).convert("L").resize(TIE_SIZE) for png in (first, second)]
    return ImageStat.Stat(ImageChops.difference(*small)).mean[0] / 255


def _has_digit(text: str) -> bool:
    return re.search(r"\d", text) is not None


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]
