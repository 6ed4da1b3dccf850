"""In a run that has ended, the manifest alone says what its files are: receipts, and scores made of them.

Each attack makes a bad candidate look better, and leaves every digest beside the manifest consistent. Whoever edits the
manifest as well has forged the whole run, which no digest shows (docs/gate.md).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import Altered, Incomplete, LabError
from lab.base.files import dump_json, read_json, sha256_file
from lab.compare.paired import compare_arms
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.measures.score import score_and_write, score_run
from lab.nightly.baselines import approve
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import COMPLETE, STARTED
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table, write_table

Rows = list[dict[str, Any]]
BASELINE, CANDIDATE = "tier_first_v1", "tier_quota_v1"
FACES: dict[str, Callable[[RunDirectory], object]] = {
    "score": score_and_write,
    "gate": lambda run: judge(read_policy("rollout"), run),
    "compare": lambda run: compare_arms(run, BASELINE, CANDIDATE),
    "report": build_report,
    "baseline": lambda run: approve(run.path.with_name("baselines"), run, "x", date="2026-01-01"),
}


def _as_hybrid(rows: Rows) -> Rows:
    """The candidate injects what the arm hybrid does."""
    return [
        {**other, "arm": CANDIDATE} if row["arm"] == CANDIDATE else row
        for row, other in ((row, _twin(rows, row)) for row in rows)
    ]


def _twin(rows: Rows, row: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in rows if one["arm"] == "hybrid" and one["turn"] == row["turn"])


EDITS: dict[str, Callable[[Rows], Rows]] = {
    "rows edited": _as_hybrid,
    "rows removed": lambda rows: [row for row in rows if not (row["arm"] == CANDIDATE and row["probe"])],
    "rows added": lambda rows: [*rows, *(row for row in rows if row["arm"] == CANDIDATE and row["probe"])],
}


def _rewrite(path: Path, change: Callable[[Rows], Rows]) -> None:
    table = read_table(path)
    write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path)


def _recorded(run: RunDirectory, conversation: str) -> Path:
    """Record the digests of a conversation's files as they are now, as a replay does before the run has ended."""
    files = [file for file in run.files(conversation) if file.is_file()]
    path = run.recorded(conversation)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(dump_json({run.name_of(file): sha256_file(file) for file in files}))
    return path


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("recorded", [False, True], ids=["", "with digests"])
def test_edited_receipts_are_refused_whatever_a_replay_seems_to_have_recorded(
    run: RunDirectory, edit: str, face: str, recorded: bool
) -> None:
    first = run.conversations[0]
    _rewrite(run.receipts(first), EDITS[edit])
    if recorded:
        _recorded(run, first)
    with pytest.raises(Altered) as refused:
        FACES[face](open_run(run.path))
    assert "run the same replay again" in str(refused.value)
    assert str(run.path / ("digests" if recorded else "receipts")) in str(refused.value)


@pytest.mark.parametrize("what", ["empty folder", "file", "link", "unrelated"])
def test_any_recovery_state_in_a_complete_run_is_refused_and_a_replay_removes_it(
    run: RunDirectory, replay_request: ReplayRequest, what: str
) -> None:
    place = run.path / "digests"
    if what == "file":
        place.touch()
    elif what == "link":
        place.symlink_to(run.path / "nowhere")
    else:
        place.mkdir()
    if what == "unrelated":
        (place / "x.json").write_text(json.dumps({"receipts/x.parquet": "0" * 64}))
    with pytest.raises(Altered, match="has no place in a complete run"):
        score_run(open_run(run.path))
    again = run_replay(replay_request, run.path)
    assert (again.done, place.is_symlink() or place.exists()) == ((), False)
    score_run(open_run(run.path))


def test_resumed_complete_run_still_refuses_receipts_that_the_folder_agrees_with(
    run: RunDirectory, replay_request: ReplayRequest
) -> None:
    first = run.conversations[0]
    _rewrite(run.receipts(first), _as_hybrid)
    _recorded(run, first)
    with pytest.raises(Altered, match="damaged or altered"):
        run_replay(replay_request, run.path)


class _Killed(Exception):
    pass


# The writes of a resumed replay of one conversation, in order: a kill before each.
WRITES = ("manifest", "latency", "digests", "receipts", "the end", "removal")


@pytest.mark.parametrize("before", WRITES)
@pytest.mark.parametrize("gone", ["receipts", "latency"])
def test_complete_run_that_is_resumed_and_killed_at_any_moment_can_be_resumed(
    run: RunDirectory, replay_request: ReplayRequest, monkeypatch: pytest.MonkeyPatch, gone: str, before: str
) -> None:
    score_and_write(run)
    first = run.conversations[0]
    kept = {name: run.receipts(name).read_bytes() for name in run.conversations}
    (run.receipts if gone == "receipts" else run.latency)(first).unlink()
    _kill_before(monkeypatch, before)
    with pytest.raises(_Killed):
        run_replay(replay_request, run.path)
    monkeypatch.undo()
    left = open_run(run.path)
    if before != "manifest":
        assert left.manifest.scores is None
        assert left.manifest.status == (COMPLETE if before == "removal" else STARTED)
        with pytest.raises(LabError, match="run the same replay again"):
            score_run(left)
    run_replay(replay_request, run.path)
    ended = open_run(run.path)
    assert (ended.manifest.status, (run.path / "digests").exists()) == (COMPLETE, False)
    assert {name: ended.receipts(name).read_bytes() for name in ended.conversations} == kept
    score_run(ended)


def _kill_before(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    import lab.runs.resume as resume

    manifests = 0

    def fatal(path: Path) -> None:
        nonlocal manifests
        place = path.parent.name if path.parent.name in WRITES else path.stem
        manifests += place == "manifest"
        if place == before or (before == "the end" and manifests == 2):
            raise _Killed

    write, seal = resume.write_atomically, resume.write_manifest

    def written(path: Path, data: bytes, **options: Any) -> None:
        fatal(path)
        write(path, data, **options)

    def sealed(path: Path, manifest: Any) -> None:
        fatal(path)
        seal(path, manifest)

    def removed(folder: Path) -> None:
        raise _Killed

    monkeypatch.setattr(resume, "write_atomically", written)
    monkeypatch.setattr(resume, "write_manifest", sealed)
    if before == "removal":
        monkeypatch.setattr(resume.shutil, "rmtree", removed)


def test_replay_that_has_not_ended_is_not_judged_though_all_receipts_are_there(
    run: RunDirectory, resealed: Callable[..., RunDirectory]
) -> None:
    def begun(manifest: dict[str, Any]) -> None:
        manifest.update(status=STARTED, files={"golden.jsonl": manifest["files"]["golden.jsonl"]})

    for conversation in run.conversations:
        _recorded(run, conversation)
    started = resealed(run.path, begun)
    assert started.done() == run.conversations
    with pytest.raises(Incomplete, match="its replay has not ended"):
        judge(read_policy("rollout"), started)


def test_recorded_digests_replace_none_of_an_incomplete_run(
    run: RunDirectory, resealed: Callable[..., RunDirectory]
) -> None:
    """A run with failed recalls is incomplete, and is compared with --allow-failed."""
    incomplete = resealed(run.path, lambda manifest: manifest.update(status="incomplete", failed={"random": 1}))
    first = run.conversations[0]
    _rewrite(run.receipts(first), _as_hybrid)
    _recorded(run, first)
    with pytest.raises(Altered, match="damaged or altered"):
        compare_arms(open_run(incomplete.path, allow_failed=True), BASELINE, CANDIDATE)


# Stored scores.


def _better(run: RunDirectory) -> None:
    """Every value of the candidate is 1, and the file is as the lab would write it."""
    path = run.path / "scores.parquet"
    table = read_table(path)
    values = [
        1.0 if arm == CANDIDATE else value
        for arm, value in zip(table["arm"].to_pylist(), table["value"].to_pylist(), strict=True)
    ]
    place = table.schema.get_field_index("value")
    write_table(table.set_column(place, "value", pa.array(values, pa.float64())), path)


def _swapped_arms(run: RunDirectory) -> None:
    path = run.path / "scores.parquet"
    names = {BASELINE: CANDIDATE, CANDIDATE: BASELINE}
    table = read_table(path)
    arms = [names.get(arm, arm) for arm in table["arm"].to_pylist()]
    write_table(table.set_column(0, "arm", pa.array(arms, table["arm"].type)), path)


def _of_another_run(run: RunDirectory) -> None:
    """The scores of a run of fewer conversations: they are sound, and of something else."""
    other = run.path.with_name("other")
    shutil.copytree(run.path, other)
    path = other / "scores.parquet"
    table = read_table(path)
    write_table(table.slice(0, table.num_rows // 2), path)
    shutil.copyfile(path, run.path / "scores.parquet")


def _truncated(run: RunDirectory) -> None:
    path = run.path / "scores.parquet"
    path.write_bytes(path.read_bytes()[:-20])


FORGERIES = {
    "better values": _better,
    "arms swapped": _swapped_arms,
    "of another run": _of_another_run,
    "truncated": _truncated,
}


@pytest.mark.parametrize("face", [face for face in FACES if face != "baseline"])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_stored_scores_that_the_manifest_does_not_seal_decide_nothing(
    run: RunDirectory, forgery: str, face: str
) -> None:
    score_and_write(run)
    FORGERIES[forgery](run)
    with pytest.raises(Altered, match=r"scores\.parquet: damaged or altered .*; delete it: the scores are computed"):
        FACES[face](open_run(run.path))
    (run.path / "scores.parquet").unlink()
    FACES[face](open_run(run.path))


def test_scores_without_a_seal_or_of_another_state_are_computed_again(
    run: RunDirectory, sound: RunDirectory, resealed: Callable[..., RunDirectory]
) -> None:
    expected = list(score_run(sound))
    score_and_write(run)
    _better(run)
    unsealed = resealed(run.path, lambda manifest: manifest.pop("scores"))
    assert list(score_run(unsealed)) == expected
    of_other_code = resealed(
        run.path,
        lambda manifest: manifest.update(
            scores={"sha256": sha256_file(run.path / "scores.parquet"), "made_from": "0" * 64}
        ),
    )
    assert list(score_run(of_other_code)) == expected
    assert list(score_and_write(of_other_code)) == expected
    assert list(score_run(open_run(run.path))) == expected


def test_seal_is_written_once_and_a_baseline_is_the_same_object_scored_or_not(run: RunDirectory) -> None:
    folder = run.path.with_name("baselines")
    key = approve(folder, run, "x", date="2026-01-01").baseline.now.object
    score_and_write(run)
    seal = read_json(run.path / "manifest.json")["scores"]
    assert seal["sha256"] == sha256_file(run.path / "scores.parquet")
    stamp = (run.path / "manifest.json").stat().st_mtime_ns
    score_and_write(open_run(run.path))
    assert (run.path / "manifest.json").stat().st_mtime_ns == stamp
    again = approve(folder, open_run(run.path), "x", date="2026-01-01")
    assert (again.baseline.now.object, again.changed) == (key, False)


def test_scoring_an_approved_run_leaves_it_as_it_is(run: RunDirectory) -> None:
    baseline = approve(run.path.with_name("baselines"), run, "x", date="2026-01-01").baseline
    before = (baseline.path / "manifest.json").read_bytes()
    score_and_write(open_run(baseline.path))
    assert (baseline.path / "manifest.json").read_bytes() == before
