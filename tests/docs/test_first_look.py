"""The example notebook: it runs from the first cell to the last, and shows what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "examples" / "first_look.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells with code after they ran, in a folder and a kernel of their own."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (dependency group tests)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (dependency group tests)")
    import nbformat

    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder / name.lower()))
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _shown(cells: list[Any], kind: str) -> list[str]:
    return [output.data[kind] for cell in cells for output in cell.outputs if kind in output.get("data", {})]


def test_the_notebook_is_committed_without_outputs() -> None:
    import json

    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    assert len(cells) > 10
    assert [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


def test_every_cell_runs_and_shows_something(executed: list[Any]) -> None:
    assert len(executed) > 8
    silent = [
        cell.id for cell in executed if not any(output.output_type == "execute_result" for output in cell.outputs)
    ]
    assert silent == []
    assert [output for cell in executed for output in cell.outputs if output.output_type in ("error", "stream")] == []


def test_frames_comparison_figures_and_explanation_show_themselves(executed: list[Any]) -> None:
    pages = _shown(executed, "text/html")
    assert sum("dataframe" in page for page in pages) >= 5
    assert sum("tier_quota_v1 minus tier_first_v1" in page and "MDE" in page for page in pages) == 1
    assert sum("<pre" in page and "next candidates, not injected" in page for page in pages) == 2
    assert sum('src="data:image/png;base64,' in page for page in pages) == 2
    assert all('="http' not in page for page in pages)
