"""The worked example runs, and the pages list the files, columns and fields that exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet

import lab
from lab.golden.files import FIELDS as OF_PROBES
from lab.recordings.native import FIELDS as OF_LINES


def test_example_runs_in_a_copy_of_the_lab(extended: tuple[Path, str]) -> None:
    folder, printed = extended
    assert (folder / "walks" / "manifest.json").is_file()
    assert re.search(r"^best_first +0\.\d+$", printed, re.MULTILINE)
    assert re.search(r"walks/s1/t7 +walks/s1/t3#1 +best$", printed, re.MULTILINE)


def test_report_of_the_example_has_its_figure(extended: tuple[Path, str], tmp_path: Path) -> None:
    run = Path(shutil.copytree(extended[0] / "walks", tmp_path / "walks"))
    done = subprocess.run(
        [sys.executable, "-m", "lab", "report", str(run), "--slides"],
        cwd=extended[0],
        env={**os.environ, "PYTHONPATH": str(extended[0])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (run / "figures" / "nice-share.svg").read_text("utf-8").startswith("<?xml")
    assert (run / "figures" / "nice-share.png").read_bytes().startswith(b"\x89PNG")
    html, markdown = ((run / name).read_text("utf-8") for name in ("report.html", "report.md"))
    assert "<h3>Memories labelled nice</h3>" in html
    assert "An arm that injects nothing has no bar." in html
    assert "(figures/nice-share.svg)" in markdown


def test_run_of_the_example_is_readable_without_its_code(extended: tuple[Path, str]) -> None:
    run = lab.open_run(extended[0] / "walks")
    assert run.arms == ["best_first", "tier_quota_v1"]
    assert run.turns["turn"].nunique() == 4
    assert set(run.items.query("arm == 'best_first'")["decision"]) == {"best"}


def test_formats_page_lists_exactly_the_columns_of_receipts(extended: tuple[Path, str], pages: dict[str, str]) -> None:
    (receipts,) = (extended[0] / "walks" / "receipts").glob("*.parquet")
    section = pages["formats.md"].split("### Receipts")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(parquet.read_schema(receipts).names)


def test_formats_page_lists_the_files_of_a_run(extended: tuple[Path, str], pages: dict[str, str]) -> None:
    names = {path.name for path in (extended[0] / "walks").iterdir()}
    assert names == {"manifest.json", "golden.jsonl", "receipts", "latency"}
    assert [name for name in (*names, "scores.parquet") if f"`{name}" not in pages["formats.md"]] == []


def test_notebook_page_lists_the_columns_of_frames_in_order(extended: tuple[Path, str], pages: dict[str, str]) -> None:
    run = lab.open_run(extended[0] / "walks")
    for name in ("turns", "items", "scores", "latency"):
        listed = re.search(rf"^\| `run\.{name}` \| [^|]+ \| `([^`]+)`", pages["notebook.md"], re.MULTILINE)
        assert listed is not None
        columns = [column for column in getattr(run, name).columns if not column.startswith("slice_")]
        assert listed[1].split(", ") == columns


def test_formats_page_lists_the_fields_of_recordings_and_probes(pages: dict[str, str]) -> None:
    recordings, golden = (
        pages["formats.md"].split(f"## {name}\n")[1].split("\n## ")[0] for name in ("Recordings", "Golden set")
    )
    listed = set(re.findall(r"^\| `(\w+)` \|", recordings, re.MULTILINE))
    assert listed == OF_LINES["memory"] - {"kind"}
    for text, fields in ((recordings, {*OF_LINES["session"], *OF_LINES["turn"]}), (golden, OF_PROBES)):
        assert [name for name in fields if not re.search(rf"[`\"]{name}[`\"]", text)] == []
