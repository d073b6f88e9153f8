"""The documentation builds as a site, without a warning, and the reference has what the docstrings say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python")
ROOT = Path(__file__).resolve().parents[2]


def missing() -> list[str]:
    found = {name: importlib.util.find_spec(name.partition(".")[0]) for name in NEEDED}
    return [name for name, spec in found.items() if spec is None]


pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no {', '.join(missing())}: pip install 'mobilerl[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "WARNING" not in done.stderr
    return out


def test_every_page_is_there(site: Path) -> None:
    pages = {p.relative_to(ROOT / "docs").with_suffix(".html") for p in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (site / page).exists()} == set()
    assert "MobileRL" in (site / "index.html").read_text() and (site / "images" / "viewer-step.png").exists()


def test_the_reference_has_signatures_equations_and_anchors(site: Path) -> None:
    page = (site / "api" / "algorithms.html").read_text()
    assert 'id="mobilerl.algorithms.rewards.shortest_path_adjustment"' in page
    assert "T_min = min {T_j" in page
    mechanism = (site / "mechanisms" / "shortest-path.html").read_text()
    assert "../api/algorithms.html#mobilerl.algorithms.rewards.shortest_path_adjustment" in mechanism


def test_links_that_leave_the_docs_become_names_of_files(site: Path) -> None:
    guide = (site / "guides" / "avd-fleet.html").read_text()
    assert "<code>docker/README.md</code>" in guide and 'href="../../docker' not in guide


def test_nothing_is_fetched_from_other_hosts(site: Path) -> None:
    page = (site / "index.html").read_text()
    for loaded in ('<script src="http', 'rel="stylesheet" href="http', "fonts.googleapis"):
        assert loaded not in page
