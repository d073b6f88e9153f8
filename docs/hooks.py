"""Hooks for mkdocs: the README becomes the first page, and links to files outside docs/ become plain file names.

Such links work in the repository, but have no target on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds index.md, the README with links relative to docs/."""
    from mkdocs.structure.files import File

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=within_docs(text)))
    return files


def within_docs(text: str) -> str:
    """Makes the README's links relative to docs/; links to anything else in the repository become plain names."""
    inside = re.sub(r"(?<!!)\[([^\]\n]+)\]\((?!https?:|#|docs/)([^)\s]+)\)", r"`\2`", text)
    return re.sub(r"\]\(docs/", "](", inside)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return LINK.sub(lambda link: _named(link, posixpath.dirname(page.file.src_uri)), markdown)


def _named(link: re.Match[str], folder: str) -> str:
    target = posixpath.normpath(posixpath.join(folder, link[2]))
    return f"`{posixpath.normpath(posixpath.join('docs', target))}`" if target.startswith("..") else link[0]
