"""The page on systems: its package is installed as it stands there, and runs end to end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.docs.conftest import BLOCK, ROOT

SET = ROOT / "datasets" / "operators"


@pytest.fixture(scope="module")
def installed(pages: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the page's package is installed, and in which commands are run."""
    folder = tmp_path_factory.mktemp("own")
    source = folder / "source"
    source.mkdir()
    for _, name, text in BLOCK.findall(pages["systems.md"]):
        (source / name).write_text(text, "utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder / "site"), str(source)]
    done = subprocess.run([*pip, *alone], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(ROOT)])}


def _lab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab", *words]
    return subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True, text=True)


def _replay(out: str) -> Sequence[str]:
    arms = ("--arm", "keepsake", "--arm", "hybrid", "--embedder", "hashing", "--limit", "5", "--haystack", "0")
    return ("replay", str(SET), "--format", "lab", "--source", "captured", *arms, "--out", out)


@pytest.fixture(scope="module")
def run(installed: Path) -> Path:
    done = _lab(installed, *_replay("kept"))
    assert (done.returncode, "failed" in done.stdout and "0 failed" not in done.stdout) == (0, False), done.stderr
    return installed / "kept"


def test_the_system_is_short(pages: dict[str, str]) -> None:
    (source,) = (text for _, name, text in BLOCK.findall(pages["systems.md"]) if name == "keepsake.py")
    lines = [line for line in source.splitlines() if line.strip()]
    assert len(lines) <= 75


@pytest.mark.process
def test_it_captures_and_says_what(run: Path) -> None:
    tables = [parquet.read_table(path) for path in sorted((run / "writes").glob("*.parquet"))]
    rows = [row for table in tables for row in table.to_pylist()]
    assert {row["arm"] for row in rows} == {"keepsake"}
    assert all(row["sources"] == [row["turn"]] for row in rows)
    assert len(rows) > 10
    texts = " ".join(str(row) for row in rows)
    assert "remember" not in texts


@pytest.mark.process
def test_it_recalls_what_it_captured_and_nothing_else(run: Path) -> None:
    for path in sorted((run / "receipts").glob("*.parquet")):
        for row in parquet.read_table(path).to_pylist():
            if row["arm"] == "keepsake":
                assert row["status"] in ("ok", "skipped")
                assert row["injected"] == len(row["item_id"]) <= row["visible"]


@pytest.mark.process
def test_the_run_is_scored_compared_and_explained(installed: Path, run: Path) -> None:
    scored = json.loads(_lab(installed, "score", "kept", "--json").stdout)
    assert set(scored["arms"]) == {"keepsake", "hybrid"}
    compared = _lab(installed, "compare", "kept", "--baseline", "hybrid", "--candidate", "keepsake")
    assert compared.returncode in (0, 3), compared.stderr
    assert "keepsake" in compared.stdout
    turn = parquet.read_table(next((run / "receipts").glob("*.parquet")), columns=["turn"])["turn"][0].as_py()
    explained = _lab(installed, "explain", "kept", turn, "--arm", "keepsake")
    assert explained.returncode == 0, explained.stderr
    assert "keeps what a user wants kept" in explained.stdout


@pytest.mark.process
def test_the_run_is_reported_and_seen(installed: Path, run: Path) -> None:
    reported = _lab(installed, "report", "kept", "--baseline", "hybrid", "--candidate", "keepsake")
    assert reported.returncode == 0, reported.stderr
    assert "keepsake" in (run / "report.html").read_text("utf-8")


@pytest.mark.process
def test_a_killed_replay_is_finished_by_the_same_command(installed: Path, run: Path) -> None:
    command = [sys.executable, "-m", "lab", *_replay("killed")]
    started = subprocess.Popen(
        command, cwd=installed, env=_environment(installed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    receipts = installed / "killed" / "receipts"
    ends = time.monotonic() + 60
    while not (receipts.is_dir() and any(receipts.glob("*.parquet"))) and time.monotonic() < ends:
        time.sleep(0.01)
    started.send_signal(signal.SIGKILL)
    started.wait()
    # However far it came, one conversation is taken away, as a kill a moment earlier would have left it.
    (last, *_) = sorted(receipts.glob("*.parquet"), reverse=True)
    last.unlink()
    finished = _lab(installed, *_replay("killed"))
    assert finished.returncode == 0, finished.stderr
    for path in sorted((run / "receipts").glob("*.parquet")):
        assert (installed / "killed" / "receipts" / path.name).read_bytes() == path.read_bytes()
        assert (installed / "killed" / "writes" / path.name).read_bytes() == (run / "writes" / path.name).read_bytes()


@pytest.mark.process
def test_a_name_that_is_taken_is_refused(installed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "site"
    shutil.copytree(installed / "site", copy)
    (points,) = copy.glob("*.dist-info/entry_points.txt")
    points.write_text(points.read_text("utf-8").replace("keepsake =", "hybrid ="), "utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(ROOT)])}
    command = [sys.executable, "-m", "lab", *_replay("refused")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(r"system 'hybrid' of keepsake: the lab already has a system of that name", done.stderr)
