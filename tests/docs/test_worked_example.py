"""What the pages say of files and frames, and that the worked example works."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as parquet

import lab
from lab.golden.read import FIELDS as OF_PROBES
from lab.recordings.native import FIELDS as OF_LINES


def test_the_example_runs_in_a_copy_of_the_lab(extended: tuple[Path, str]) -> None:
    folder, printed = extended
    assert (folder / "walks" / "manifest.json").is_file()
    assert re.search(r"^best_first +0\.\d+$", printed, re.MULTILINE)
    assert re.search(r"walks/s1/t7 +walks/s1/t3#1 +best$", printed, re.MULTILINE)
    assert (folder / "nice.svg").read_text("utf-8").startswith("<?xml")
    assert (folder / "nice.png").read_bytes().startswith(b"\x89PNG")


def test_its_run_can_be_read_without_it(extended: tuple[Path, str]) -> None:
    run = lab.open_run(extended[0] / "walks")
    assert run.arms == ["best_first", "tier_quota_v1"]
    assert run.turns["turn"].nunique() == 4
    assert set(run.items.query("arm == 'best_first'")["decision"]) == {"best"}


def test_the_columns_of_receipts_are_told_and_no_others(extended: tuple[Path, str], pages: dict[str, str]) -> None:
    (receipts,) = (extended[0] / "walks" / "receipts").glob("*.parquet")
    section = pages["formats.md"].split("### Receipts")[1].split("\n## ")[0]
    told = [name for row in re.findall(r"^\| (`.+?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(parquet.read_schema(receipts).names)


def test_the_files_of_a_run_are_told(extended: tuple[Path, str], pages: dict[str, str]) -> None:
    names = {path.name for path in (extended[0] / "walks").iterdir()}
    assert names == {"manifest.json", "golden.jsonl", "receipts", "latency"}
    assert [name for name in (*names, "scores.parquet") if f"`{name}" not in pages["formats.md"]] == []


def test_the_columns_of_the_frames_are_told_in_their_order(extended: tuple[Path, str], pages: dict[str, str]) -> None:
    run = lab.open_run(extended[0] / "walks")
    for name in ("turns", "items", "scores", "latency"):
        told = re.search(rf"^\| `run\.{name}` \| [^|]+ \| `([^`]+)`", pages["notebook.md"], re.MULTILINE)
        assert told is not None
        columns = [column for column in getattr(run, name).columns if not column.startswith("slice_")]
        assert told[1].split(", ") == columns


def test_the_fields_of_the_own_form_are_told(pages: dict[str, str]) -> None:
    recordings, golden = (
        pages["formats.md"].split(f"## {name}\n")[1].split("\n## ")[0] for name in ("Recordings", "Golden set")
    )
    told = set(re.findall(r"^\| `(\w+)` \|", recordings, re.MULTILINE))
    assert told == OF_LINES["memory"] - {"kind"}
    for text, fields in ((recordings, {*OF_LINES["session"], *OF_LINES["turn"]}), (golden, OF_PROBES)):
        assert [name for name in fields if not re.search(rf"[`\"]{name}[`\"]", text)] == []
