"""For mkdocs: the first page is the README, and links that leave docs/ become names of files.

The pages are read in the repository as well, where such links work. A site has nothing to point them to.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds index.md: the README, as it would read one folder further down."""
    from mkdocs.structure.files import File

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=within_docs(text)))
    return files


def within_docs(text: str) -> str:
    """The README's links seen from docs/."""
    inside = re.sub(r"\]\(docs/", "](", text)
    # Folders, and the files that stand beside the README.
    return re.sub(r"(?<!!)\[([^\]\n]+)\]\((?!https?:|#)([^)\s]*/|[A-Z]+\.md)\)", r"`\2`", inside)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return LINK.sub(lambda link: _named(link, posixpath.dirname(page.file.src_uri)), markdown)


def _named(link: re.Match[str], folder: str) -> str:
    target = posixpath.normpath(posixpath.join(folder, link[2]))
    return f"`{posixpath.normpath(posixpath.join('docs', target))}`" if target.startswith("..") else link[0]
