"""``lab replay`` with an external arm: survived faults, arms that cannot run, and a killed run that is finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.commands import Done, run_here
from tests.systems.external.hosting import FAULTY

pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
HERE = "night-bakery"
CHOSEN = ("--conversation", HERE, "--conversation", "card-studio", "--haystack", "0", "--embedder", "hashing")
# A host that kills the lab, once, in the middle of the conversation.
KILLER = """
import os, pathlib, signal, time
from words import Words

class Killer(Words):
    def __init__(self, hello):
        super().__init__(hello)
        self.deadly, self.recalls = hello["conversation"] == "night-bakery", 0

    def recall(self, request):
        self.recalls += 1
        if self.deadly and self.recalls == 5 and not os.path.exists("struck"):
            pathlib.Path("struck").touch()
            while not os.path.exists("process"):
                time.sleep(0.01)
            os.kill(int(pathlib.Path("process").read_text()), signal.SIGKILL)
        return super().recall(request)
"""
WORDS = """
class Words:
    about = {"name": "words", "version": "1", "probes": "same"}

    def __init__(self, hello):
        self.kept = {}

    def remember(self, memories):
        self.kept.update((memory["key"], memory["text"]) for memory in memories)

    def recall(self, request):
        prompt = set(request["text"].split())
        best = sorted(self.kept, key=lambda key: -len(prompt & set(self.kept[key].split())))[:6]
        return [{"id": key, "text": self.kept[key]} for key in best]
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every test a cache of its own, and its commands this code."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("FAULTY_IN", raising=False)


def replay(folder: Path, arm: str, out: str, *words: str, **environment: str) -> Done:
    command = ("replay", "shipped:operators", *CHOSEN, "--arm", arm, "--out", out, *words)
    return run_here(*command, cwd=folder, **environment)


def faulty(folder: Path, fault: str, *env: str) -> str:
    config: dict[str, Any] = {"lab": {"arm": "external"}, "exec": [sys.executable, str(FAULTY), fault]}
    config |= {"timeouts": {"recall": 1, "close": 1}, "env": env}
    (folder / "live.json").write_text(json.dumps(config), "utf-8")
    return "live=live.json"


def rows(run: Path) -> list[dict[str, Any]]:
    tables = [parquet.read_table(path) for path in sorted((run / "receipts").glob("*.parquet"))]
    return [row for table in tables for row in table.to_pylist()]


def test_survived_fault_is_degraded_and_counts(tmp_path: Path) -> None:
    done = replay(tmp_path, faulty(tmp_path, "degraded", "FAULTY_IN"), "run", FAULTY_IN=HERE)
    assert done.returncode == 0, done.stderr
    assert Counter(row["status"] for row in rows(tmp_path / "run"))["degraded"] == 1
    assert run_here("score", "run", cwd=tmp_path).returncode == 0


def test_host_that_fails_in_admission_is_refused_with_the_reason(tmp_path: Path) -> None:
    done = replay(tmp_path, faulty(tmp_path, "half"), "run")
    assert (done.returncode, done.stderr.count("error: ")) == (4, 1)
    assert "arm 'live' is refused (answers: the recall at turn 2 failed: not_json in recall" in done.stderr
    assert not (tmp_path / "run" / "receipts").exists()


@pytest.mark.parametrize(
    ("arm", "code", "message"),
    [
        ("live=exec:no-such-host", 2, "command 'no-such-host' not found"),
        ("live=exec:false", 4, "the host does not answer hello: died in hello at exit 1"),
        ("live=exec:echo hello", 4, "not_json in hello; only answers may be on stdout"),
        ("live=http://127.0.0.1:1/", 4, "no_answer in hello at cannot be reached"),
        ("live=http://192.0.2.1/", 2, "allow it with --allow-remote"),
        ("live=http://me:open-sesame@127.0.0.1/", 2, "holds a password or a key"),
        ("live=exec:python host.py --token=open-sesame", 2, "looks like a password or a key"),
    ],
)
def test_arm_that_cannot_run_is_one_line(arm: str, code: int, message: str, tmp_path: Path) -> None:
    done = replay(tmp_path, arm, "run")
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    assert message in done.stderr
    assert "sesame" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_killed_replay_equals_an_unbroken_one_and_is_repeated_offline(tmp_path: Path) -> None:
    for name, source in {"words.py": WORDS, "killer.py": KILLER}.items():
        (tmp_path / name).write_text(source, "utf-8")
    arm = f"live=exec:{sys.executable} -m lab.systems.external.host killer:Killer"
    command = [sys.executable, "-m", "lab", "replay", "shipped:operators", *CHOSEN, "--arm", arm, "--out", "killed"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        (tmp_path / "part").write_text(str(process.pid), "utf-8")
        (tmp_path / "part").rename(tmp_path / "process")
        assert process.wait(120) == -signal.SIGKILL, (tmp_path / "log").read_text("utf-8")
    first = [path.name for path in (tmp_path / "killed" / "receipts").glob("*.parquet")]
    assert len(first) == 1
    # The same host, which does not kill twice.
    assert replay(tmp_path, arm, "killed").returncode == 0
    assert replay(tmp_path, arm, "unbroken").returncode == 0
    (tmp_path / "killer.py").unlink()
    repeated = replay(tmp_path, arm, "repeated", "--answers", "recorded")
    assert repeated.returncode == 0, repeated.stderr
    receipts = sorted((tmp_path / "unbroken" / "receipts").glob("*.parquet"))
    assert len(receipts) == 2
    for path in receipts:
        for run in ("killed", "repeated"):
            assert (tmp_path / run / "receipts" / path.name).read_bytes() == path.read_bytes(), (run, path.name)
    scores = [run_here("score", run, "--json", cwd=tmp_path) for run in ("unbroken", "repeated")]
    assert json.loads(scores[0].stdout)["arms"] == json.loads(scores[1].stdout)["arms"]
