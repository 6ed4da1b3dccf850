"""``lab runs rm`` removes the lab's files and keeps all others."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.cli.runs import OF_COMMANDS
from lab.replay.explain import FILE as MISSED
from lab.report.acceptance import PAGE
from lab.report.drawings import FIGURES
from lab.runs.directory import open_run, remove_run
from lab.studies.acceptance.verdict import FILES as VERDICTS
from lab.studies.points import SCALE

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
PAGES = ("missed.html", "ablate.html", "retention.html", "retention.parquet")


@pytest.fixture
def run(place: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(place / "run", tmp_path / "run"))


def test_runs_rm_keeps_and_names_foreign_files(run: Path, tmp_path: Path, lab: Lab) -> None:
    foreign = ["notes.md", "receipts/other.parquet", "figures/thesis.svg", "mine/deep/data.csv", ".git/config"]
    for name in foreign:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("years of work")
    (run / "figures/forest.svg").write_text("<svg/>")
    (run / "verdict.json").write_text("{}")
    done = lab("runs", "rm", "run", "--write", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "removed run, except 5 files that the lab did not write:"
    assert sorted(done.stdout.splitlines()[1:]) == sorted(f"run/{name}" for name in foreign)
    there = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert there == set(foreign)
    assert "is not a run directory" in lab("runs", "rm", "run", cwd=tmp_path).stderr


def test_runs_rm_follows_no_link(run: Path, tmp_path: Path) -> None:
    shutil.move(run / "latency", tmp_path / "elsewhere")
    (run / "latency").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "gold.jsonl").write_text("mine")
    (run / "golden.jsonl").unlink()
    (run / "golden.jsonl").symlink_to(tmp_path / "gold.jsonl")
    assert remove_run(open_run(run), [*(figure.name for figure in FIGURES), *OF_COMMANDS]) == [run / "latency"]
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2
    assert (tmp_path / "gold.jsonl").read_text() == "mine"


def test_runs_rm_of_a_scored_and_reported_run_leaves_nothing(run: Path, tmp_path: Path, lab: Lab) -> None:
    for words in (("score", "run"), ("report", "run"), ("gate", "run")):
        assert lab(*words, cwd=tmp_path).returncode in (0, 3)
    # Files of lab acceptance, lab missed and studies, which other runs have.
    (run / "acceptance").mkdir()
    for name in (*(f"acceptance/{name}" for name in (*VERDICTS, PAGE)), MISSED, SCALE, *PAGES):
        (run / name).write_text("of the lab")
    (run / ".scores.parquet.999999999.abc.part").write_text("killed")
    done = lab("runs", "rm", "run", "--json", "--write", cwd=tmp_path)
    assert json.loads(done.stdout)["left"] == []
    assert not run.exists()
