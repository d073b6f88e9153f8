"""examples/notebook.ipynb runs from its first to its last cell in a Jupyter kernel, and has no outputs in git."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
FILE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


@pytest.mark.slow
def test_the_notebook_runs_and_shows_what_it_says(tmp_path):
    notebook = nbformat.read(FILE, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells)
    nbclient.NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [[output.get("data", {}) for output in cell.outputs] for cell in cells]
    pictures = [any("image/png" in data for data in outputs) for outputs in shown]
    assert pictures == [False, True, True, False, True]
    assert not list(tmp_path.iterdir())
