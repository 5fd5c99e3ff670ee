"""The notebooks of the documentation run from top to bottom in a kernel of their own, and show what they are to show."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "docs" / "notebooks").glob("*.ipynb"))

# What a kernel says of itself when it starts, and what jupyter says of its paths, is not ours to mend.
pytestmark = pytest.mark.filterwarnings("default")


def kinds_of(cell):
    """Return the kinds of what a cell has put out; "stream" for what it has printed."""
    return [set(output.get("data", {output.output_type: ""})) for output in cell.outputs]


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def cells(request):
    """Run a notebook, and return its code cells with what they have put out."""
    notebook = nbformat.read(request.param, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(request.param.parent))
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["first_steps"]


def test_every_cell_shows_something(cells):
    assert all(cell.outputs for cell in cells)


def test_nothing_is_said_about_warnings(cells):
    said = [output.text for cell in cells for output in cell.outputs if output.get("name") == "stderr"]

    assert said == []


def test_plots_are_shown_as_pictures(cells):
    plots = [cell for cell in cells if cell.source.splitlines()[-1].partition("(")[0].endswith(("plot", "curve"))]

    assert len(plots) >= 6
    assert all({"image/png", "text/plain"} in kinds_of(cell) for cell in plots)


def test_episodes_and_pipelines_are_shown_as_tables_and_boxes(cells):
    shown = [cell for cell in cells if cell.source.splitlines()[-1] in ("episode", "episodes", "game", "pipeline")]

    assert len(shown) >= 5
    assert all({"text/html", "text/plain"} in kinds_of(cell) for cell in shown)
