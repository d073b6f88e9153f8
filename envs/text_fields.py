"""What a UI tree says about typed text: the field that has the focus, and the texts on the screen."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

_NODE = re.compile(r"<node ([^<>]*)>")
_FIELD = re.compile(r"Edit|AutoComplete")
_HIDDEN = re.compile(r"[•*●]+")


@dataclass(frozen=True, slots=True)
class Fields:
    """`focused` is the text field that has the focus, as its attributes; None if there is none."""

    focused: str | None
    text: str
    """Text of that field."""
    texts: frozenset[str]
    """All texts on the screen, simplified."""

    @classmethod
    def of(cls, tree: str) -> Fields:
        focused, text, texts = None, "", set()
        for node in _NODE.findall(tree):
            shown = _attribute(node, "text")
            texts |= {_simplify(shown), _simplify(_attribute(node, "content-desc"))}
            if 'focused="true"' in node and _FIELD.search(_attribute(node, "class")):
                focused, text = node, shown
        return cls(focused, text, frozenset(texts))

    def received(self, typed: str, before: Fields) -> bool:
        """Whether `typed` may have arrived since `before`: it is in the focused field, which may have changed its form
        or cut it, or new on the screen, or the focus has moved."""
        wanted, field = _simplify(typed), _simplify(self.text)
        if not wanted or self.focused != before.focused:
            return True
        if _HIDDEN.fullmatch(self.text):
            return True  # a password
        if any(wanted in text for text in self.texts - before.texts):
            return True
        return self.focused is not None and (wanted in field or bool(field) and field in wanted)


def _attribute(node: str, name: str) -> str:
    found = re.search(rf'(?:^| ){name}="([^"]*)"', node)
    return html.unescape(found[1]) if found else ""


def _simplify(text: str) -> str:
    """Letters and digits only, if there are any, since fields add and drop spaces, brackets and capitals."""
    text = text.casefold()
    return "".join(c for c in text if c.isalnum()) or "".join(text.split())
