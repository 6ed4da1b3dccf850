"""Cached candidates: keyed by all code that they depend on, and ignored on request."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lab
from lab.replay.candidates import candidates_path, rows_of
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.retrieval.candidates import Candidates
from lab.retrieval.contract import Filter, Hit, Lanes
from lab.runs.code import READERS, RECEIPT_SOURCES, code_key

Read = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def package_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the sources that receipts depend on, which the lab then takes for its own."""
    source = Path(str(lab.__file__)).parent
    for part in RECEIPT_SOURCES:
        copy = shutil.copytree if (source / part).is_dir() else shutil.copy
        copy(source / part, tmp_path / part)
    key = code_key.__wrapped__()
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "__init__.py"))
    assert code_key.__wrapped__() == key
    return tmp_path


def _edit(path: Path) -> None:
    with path.open("a") as opened:
        opened.write("\n")


@pytest.mark.parametrize(
    "edited",
    [
        "retrieval/retrievers.py",
        "systems/openclaw/recall/scoped.py",
        "retrieval/bm25.py",
        "embedding/vectors.py",
        "base/columns.py",
        "base/files.py",
        "replay/loop.py",
    ],
)
def test_code_key_any_edited_source_differs(package_copy: Path, edited: str) -> None:
    before = code_key.__wrapped__()
    _edit(package_copy / edited)
    assert code_key.__wrapped__() != before


def test_code_key_edited_reader_of_runs_is_equal(package_copy: Path) -> None:
    before = code_key.__wrapped__()
    for name in READERS:
        _edit(package_copy / name)
    assert code_key.__wrapped__() == before


def test_readers_of_runs_are_not_imported_by_a_replay() -> None:
    source = Path(str(lab.__file__)).parent
    files = [
        file
        for part in RECEIPT_SOURCES
        for file in ([source / part] if part.endswith(".py") else (source / part).rglob("*.py"))
    ]
    modules = [name.removesuffix(".py").replace("/", ".") for name in READERS]
    importing = re.compile(
        "|".join(
            rf"lab\.{re.escape(module)}\b|from lab\.{module.split('.')[0]} import .*\b{module.split('.')[1]}\b"
            for module in modules
        )
    )
    found = {
        file.relative_to(source).as_posix()
        for file in files
        if any(importing.search(line) and "import" in line for line in file.read_text("utf-8").splitlines())
    }
    assert found - set(READERS) == set()
    assert found


@pytest.mark.process
def test_code_key_covers_every_module_that_a_replay_loads() -> None:
    command = "import sys, lab.replay.executors; print(*(one for one in sys.modules if one.startswith('lab.')))"
    loaded = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.split()
    parts = {name.split(".")[1] for name in loaded}
    assert parts - set(RECEIPT_SOURCES) == set()


def test_run_replay_without_cache_ignores_cached_candidates(desk: Any, files_of: Read) -> None:
    desk.say("a", ("s", [("user", "a red lamp for the shop", "the red lamp", "the green door"), ("user", "the lamp")]))
    request, kept = desk.request("hybrid"), desk.home / "cache" / "candidates"
    fresh = run_replay(request, desk.home / "fresh", use_cache=False).run
    assert not kept.exists()
    run_replay(request, desk.home / "usual")
    plan = make_plan(request)
    (recording,) = plan.recordings
    rows, happening = rows_of(plan, recording), plan.recall_points_of(recording)
    # A valid file with a wrong answer, as outdated code would have written it.
    stale = Candidates()
    stale.keep(len(happening) - 1, Filter(None, None), 500, Lanes([Hit(1, 9.0)], []))
    stale.save(candidates_path(plan, recording, rows, happening, plan.retrievals()[0]))
    before = files_of(kept)
    again = run_replay(request, desk.home / "again", use_cache=False).run
    assert files_of(kept) == before
    assert again.receipts("a").read_bytes() == fresh.receipts("a").read_bytes()
    # Control: a replay with the cache does return the outdated answer.
    assert run_replay(request, desk.home / "stale").run.receipts("a").read_bytes() != fresh.receipts("a").read_bytes()
