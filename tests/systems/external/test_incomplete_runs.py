"""A run whose host dies in a conversation: incomplete, refused by what reads it, and without texts in its messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from lab.systems.external import host

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
MODULE = """
import os
import sys


class Fragile:
    about = {"cutoff": 3, "probes": "same"}

    def __init__(self, hello):
        self.notes, self.recalls = [], 0

    def remember(self, memories):
        self.notes += memories

    def recall(self, request):
        self.recalls += 1
        if self.recalls == 30:
            print(request["text"], file=sys.stderr)
            os._exit(3)
        return [{"id": memory["key"], "text": memory["text"]} for memory in self.notes]
"""


def test_run_of_a_host_that_dies_is_incomplete_and_refused(tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(MODULE, "utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "LAB_CACHE_DIR": str(tmp_path / "cache")}

    def lab(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lab", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    arm = f"fragile=exec:{sys.executable} {host.__file__} fragile:Fragile"
    words = ("replay", "shipped:operators", "--limit", "1", "--embedder", "hashing", "--haystack", "0", "--arm", arm)
    done = lab(*words, "--out", "run")
    assert done.returncode == 4
    assert "Failed recalls do not count as misses" in " ".join(done.stderr.split())
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["status"] == "incomplete"
    failures = [json.loads(line) for line in (tmp_path / "run" / "failures.jsonl").read_text("utf-8").splitlines()]
    assert manifest["failed"] == {"fragile": len(failures)}
    assert {(failure["phase"], failure["arm"]) for failure in failures} == {("recall", "fragile")}
    assert all("died in recall at exit 3" in failure.values() for failure in failures)
    scored = lab("score", "run")
    assert scored.returncode == 4
    # The same run without the host is incomplete for the same reason.
    (tmp_path / "fragile.py").unlink()
    again = lab(*words, "--answers", "recorded", "--out", "again")
    assert again.returncode == 4
    names = [path.name for path in (tmp_path / "run" / "receipts").iterdir()]
    for name in names:
        assert (tmp_path / "again" / "receipts" / name).read_bytes() == (
            tmp_path / "run" / "receipts" / name
        ).read_bytes()
    # What the host wrote to stderr quotes a turn: it is with the answers, and nowhere else.
    (quoted,) = {
        stderr.strip().splitlines()[-1]
        for path in (tmp_path / "cache" / "answers").rglob("*.jsonl")
        if (stderr := json.loads(path.read_text("utf-8").splitlines()[0])["stderr"]).strip()
    }
    assert len(quoted) > 10
    assert quoted not in done.stdout + done.stderr + scored.stderr
    shown = lab("cache", "answers", "--stderr", "fragile")
    assert (shown.returncode, shown.stdout.strip().splitlines()[-1]) == (0, quoted)
    texts = {quoted, *recorded_texts()}
    assert len(texts) > 1000
    for path in (file for file in (tmp_path / "run").rglob("*") if file.is_file()):
        held = readable(path)
        assert [text for text in texts if text in held] == [], path.name


def recorded_texts() -> set[str]:
    """The longer texts of the shipped set."""
    lines = [path.read_text("utf-8") for path in (ROOT / "datasets" / "operators").rglob("*.jsonl")]
    return {text for line in lines for text in re.findall(r'"text": ?"([^"\\]{40,})"', line)}


def readable(path: Path) -> str:
    """What a file of a run holds, as text."""
    if path.suffix != ".parquet":
        return path.read_text("utf-8")
    return json.dumps(parquet.read_table(path).to_pylist(), default=str, ensure_ascii=False)
