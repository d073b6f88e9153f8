"""UI dumps that are made up of the words which AndroidLab's judges look for, so that verdicts differ."""

from __future__ import annotations

import ast
import random
from pathlib import Path
from xml.sax.saxutils import quoteattr

CLASSES = ("TextView", "EditText", "Switch", "ImageView", "RecyclerView", "LinearLayout", "Button")
STATES = (
    "checkable",
    "checked",
    "clickable",
    "enabled",
    "focusable",
    "focused",
    "scrollable",
    "long-clickable",
    "password",
    "selected",
)


def words_of(folder: Path) -> list[str]:
    """Every text in the judges of one app."""
    nodes = [node for file in sorted(folder.glob("*.py")) for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    found = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(word for word in found if word.strip() and len(word) < 60)


def made_up_page(rng: random.Random, words: list[str]) -> str:
    head = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\">"
    return head + _node(rng, words, 0, 0, 2400) + "</hierarchy>"


def _node(rng: random.Random, words: list[str], depth: int, top: int, bottom: int) -> str:
    text = " ".join(rng.choices(words, k=rng.choice((1, 1, 2))))
    said = (text, "") if rng.random() < 0.7 else ("", text)
    states = " ".join(f'{name}="{rng.choice(("true", "false", "false"))}"' for name in STATES)
    count = rng.randrange(5) if depth < 3 else 0
    height = (bottom - top) // max(count, 1)
    inner = [_node(rng, words, depth + 1, top + i * height, top + (i + 1) * height) for i in range(count)]
    return (
        f'<node index="0" text={quoteattr(said[0])} content-desc={quoteattr(said[1])} resource-id="" package="p" '
        f'class="android.widget.{rng.choice(CLASSES)}" {states} bounds="[0,{top}][1080,{bottom}]">'
        + "".join(inner)
        + "</node>"
    )
