"""The documentation builds as a site, without a warning, and the reference has what the docstrings say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers")
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, NEEDED)), reason="no mkdocs: pip install 'mobilerl[docs]'"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr
    return out


def test_pages_reference_and_links(site: Path) -> None:
    pages = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()
    reference = (site / "api.html").read_text()
    assert 'id="mobilerl.algorithms.rewards.shortest_path_adjustment"' in reference
    assert "T_min = min {T_j" in reference
    page = (site / "devices.html").read_text()  # files outside the site are named, not linked
    assert "<code>docker/README.md</code>" in page and 'href="../docker' not in page
    index = (site / "index.html").read_text()
    for loaded in ('<script src="http', 'rel="stylesheet" href="http', "fonts.googleapis"):
        assert loaded not in index
