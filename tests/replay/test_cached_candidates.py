"""Cached candidates are ignored on request; tests/test_code.py holds what their key covers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.replay.candidates import Candidates, candidates_paths, read_artefact
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.retrieval.contract import Filter, Hit, Lanes

Read = Callable[[Path], dict[str, bytes]]


def test_run_replay_without_cache_ignores_cached_candidates(desk: Any, files_of: Read) -> None:
    desk.say("a", ("s", [("user", "a red lamp for the shop", "the red lamp", "the green door"), ("user", "the lamp")]))
    request, kept = desk.request("hybrid"), desk.home / "cache" / "candidates"
    fresh = run_replay(request, desk.home / "fresh", use_cache=False).run
    assert not kept.exists()
    run_replay(request, desk.home / "usual")
    plan = make_plan(request)
    (recording,) = plan.recordings
    happening = plan.recall_points_of(recording)
    # A valid file with a wrong answer, as outdated code would have written it.
    stale = Candidates()
    stale.keep(len(happening) - 1, Filter(None, None), 500, Lanes([Hit(1, 9.0)], []))
    stale.save(candidates_paths(plan, recording)[plan.retrievals()[0]])
    before = files_of(kept)
    again = run_replay(request, desk.home / "again", use_cache=False).run
    assert files_of(kept) == before
    assert again.receipts("a").read_bytes() == fresh.receipts("a").read_bytes()
    # Control: a replay with the cache does return the outdated answer.
    assert run_replay(request, desk.home / "stale").run.receipts("a").read_bytes() != fresh.receipts("a").read_bytes()


def test_candidates_without_answers_are_read_back(tmp_path: Path) -> None:
    searched = Candidates()
    searched.serve(["placebo"])
    searched.save(tmp_path / "empty.arrow")
    table = read_artefact(tmp_path / "empty.arrow")
    assert table is not None
    assert table.num_rows == 0
