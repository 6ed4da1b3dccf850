"""Tests of the benchmark ratios, on the fastest ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RATIOS = Path(__file__).with_name("ratios")


def bench(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    known = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, RATIOS, *words], cwd=cwd, env=known, capture_output=True, text=True, check=False
    )


def measured(*words: str | Path, out: Path) -> tuple[dict[str, Any], str]:
    done = bench(*words, "--out", out, "--data", out.parent / "nothing", cwd=out.parent)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    return json.loads(out.read_text("utf-8")), done.stdout


def test_ratios_are_measured_written_and_printed(tmp_path: Path) -> None:
    found, said = measured("--only", "help", "--only", "realmem", "--repeats", "2", out=tmp_path / "one.json")
    assert (found["kind"], found["schema_version"], found["repeats"]) == ("lab.ratios", 1, 2)
    ratio, skipped = sorted(found["ratios"], key=lambda one: one["name"])
    assert ratio["name"] == "help"
    pairs = zip(ratio["over"]["samples"], ratio["under"]["samples"], strict=True)
    assert ratio["ratios"] == [over / under for over, under in pairs]
    assert ratio["lowest"] == min(ratio["ratios"]) <= ratio["median"] <= ratio["highest"] == max(ratio["ratios"])
    assert (ratio["n"], ratio["target"], ratio["met"]) == (2, {"at_most": 10}, ratio["median"] <= 10)
    assert "realmem is not at hand" in skipped["skipped"]
    assert "Skipped: public data realmem" in " ".join(said.split())

    after, said = measured(*("--only", "help", "--repeats", "1", "--compare", "one.json"), out=tmp_path / "two.json")
    (row,) = after["compared"]["ratios"]
    assert row["then"]["median"] == ratio["median"]
    assert row["change"] == after["ratios"][0]["median"] / ratio["median"]
    assert "times of two sessions cannot be compared" in " ".join(said.split())


def test_ratios_alternate_between_two_checkouts(tmp_path: Path) -> None:
    # A lab that notes each of its runs.
    other, runs = tmp_path / "other", tmp_path / "runs"
    other.mkdir()
    (other / "lab").symlink_to(ROOT / "lab")
    note = f"import sys\nif '--help' in sys.argv: open({str(runs)!r}, 'a').write('x')\n"
    (other / "sitecustomize.py").write_text(note, "utf-8")
    found, said = measured("--only", "help", "--repeats", "2", "--compare", "other", out=tmp_path / "out.json")
    (row,) = found["compared"]["ratios"]
    assert row["skipped"] is None, row
    assert len(row["changes"]) == 2
    assert len(runs.read_text("ascii")) >= 2
    assert row["change"] == sum(row["changes"]) / 2
    assert row["apart"] == (min(row["changes"]) > 1 or max(row["changes"]) < 1)
    assert "measured by turns" in said


def test_a_checkout_whose_ratio_of_the_name_is_another_is_left_out(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "tests" / "benchmarks").mkdir(parents=True)
    (other / "lab").symlink_to(ROOT / "lab")
    own = other / "tests" / "benchmarks" / "ratios"
    shutil.copytree(RATIOS, own, ignore=shutil.ignore_patterns("__pycache__"))
    commands = own / "commands.py"
    commands.write_text(commands.read_text("utf-8").replace("over a Python that does nothing", "a hundredth"), "utf-8")
    found, said = measured("--only", "help", "--repeats", "1", "--compare", "other", out=tmp_path / "out.json")
    (row,) = found["compared"]["ratios"]
    assert row["skipped"] == "there it is another ratio: Processor time of lab --help, a hundredth."
    assert "nothing could be compared" in said


def test_ratios_reject_invalid_input_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}", "utf-8")
    (tmp_path / "empty").mkdir()
    for words, message in (
        (("--only", "speed"), "no ratio 'speed'; known: turn-1k"),
        (("--only", "help", "--compare", "other.json"), "other.json: is no result of these benchmarks"),
        (("--only", "help", "--compare", "absent.json"), "absent.json: no such file"),
        (("--only", "help", "--compare", "empty"), "empty: is no checkout of the project"),
    ):
        done = bench(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
