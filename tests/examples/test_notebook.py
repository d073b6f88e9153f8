"""examples/notebook.ipynb runs from its first to its last cell in a Jupyter kernel, and shows what its stored outputs
show: images, and a success rate that rises."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import pytest

nbformat = pytest.importorskip("nbformat")
FILE = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
IMAGES = [False, True, True, False, True]
"""Whether each code cell shows one."""


def shown(notebook) -> tuple[list[bool], list[int]]:
    """Whether each code cell has an image, and the success rates of the iterations in percent."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    images = [any("image/png" in output.get("data", {}) for output in cell.outputs) for cell in cells]
    said = "".join(output.get("text", "") for output in cells[-1].outputs)
    rates = re.search(r"training episodes: (.*)", said)
    assert rates, said
    return images, [int(rate) for rate in re.findall(r"(\d+)%", rates[1])]


def test_the_stored_outputs_are_of_these_cells_and_their_curve_rises():
    notebook = nbformat.read(FILE, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4, 5], "run from the first to the last cell, once"
    images, rates = shown(notebook)
    assert images == IMAGES and fmean(rates[-3:]) > rates[0] + 15
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert not re.search(r"/(home|root|tmp|work)/", FILE.read_text()), "a path of the machine that it ran on"


@pytest.mark.slow
def test_the_notebook_runs_and_its_curve_rises(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FILE, as_version=4)
    nbclient.NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": tmp_path}}).execute()
    images, rates = shown(notebook)
    assert images == IMAGES and fmean(rates[-3:]) > rates[0]
    assert not list(tmp_path.iterdir())
