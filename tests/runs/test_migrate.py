"""Runs, baselines, plans and policies of version 0.1 are migrated, or refused with the reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import Incomplete, UnusableInput
from lab.base.files import digest, sha256_file
from lab.gate.policy import SHIPPED as POLICIES
from lab.gate.policy import read_policy
from lab.measures.score import score_run
from lab.nightly.baselines import approve, get, open_baseline
from lab.nightly.migrate import migrate
from lab.nightly.plan import SHIPPED as PLANS
from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory, open_run
from lab.runs.receipts import READINGS
from lab.runs.scores import Score
from lab.runs.tables import read_table, write_table
from lab.runs.trial import trial

NEW = ("recall_points", "files", "sha256")
ADDED = [*READINGS, "item_exempt"]
# Measures of columns that version 0.1 did not store.
NOT_MIGRATED = {
    *("MustRepeat", "MustStreak", "PrefixStable", "PrefixTokens", "PrefixShare"),
    *("ReceiptBytes", "ReceiptLines", "Explained"),
}
OLD_COLUMNS = {"is_recall_turn": "recalls", "duplicate_items": "twins", "unescaped": "raw"}


def _aged(run: RunDirectory, change: Callable[[dict[str, Any]], object] = lambda _: None) -> Path:
    """Rewrite a run as version 0.1 wrote it: manifest and receipts of schema 3."""
    path = run.path / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name in NEW:
        del manifest[name]
    del manifest["resolved"]["source"]
    for arm in manifest["resolved"]["arms"]:
        del arm["cutoff"], arm["writes"]
    manifest["schema_version"] = 3
    manifest["run_key"] = digest(manifest["resolved"])
    manifest["environment"]["git"] = None
    change(manifest)
    path.write_text(json.dumps(manifest, indent=2), "utf-8")
    for receipts in (run.path / "receipts").glob("*.parquet"):
        table = read_table(receipts)
        table = table.drop_columns(ADDED)
        table = table.rename_columns([OLD_COLUMNS.get(name, name) for name in table.column_names])
        write_table(table.replace_schema_metadata({"kind": "lab.receipts", "schema_version": "3"}), receipts)
    return run.path


def _migratable(run: RunDirectory) -> list[Score]:
    return [score for score in score_run(run) if score.measure not in NOT_MIGRATED]


def test_migrate_run_of_version_0_1_scores_are_equal(run: RunDirectory, sound: RunDirectory, tmp_path: Path) -> None:
    source = _aged(run)
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    with pytest.raises(UnusableInput, match=r"schema_version 3, this version reads 4; migrate it with `lab mi.* OUT`"):
        open_run(source)
    done = migrate(source, tmp_path / "new")
    brought = open_run(tmp_path / "new")
    assert _migratable(brought) == _migratable(sound)
    assert {score.value for score in score_run(brought) if score.measure in NOT_MIGRATED} == {None}
    assert {score.measure for score in score_run(sound) if score.value is not None} >= NOT_MIGRATED
    for name in sound.conversations:
        receipts, expected = (read_table(which.receipts(name)) for which in (brought, sound))
        assert receipts.column_names == expected.column_names
        assert receipts.drop_columns(ADDED).equals(expected.drop_columns(ADDED))
        assert receipts.schema.metadata == expected.schema.metadata
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before
    assert (done.kind, brought.manifest.recall_points) == ("run", sound.manifest.recall_points)
    assert brought.manifest.resolved == sound.manifest.resolved
    assert brought.manifest.comparable_key == sound.manifest.comparable_key
    assert "migrated from schema 3, digests taken then" in trial(brought.manifest)
    assert done.notes[0].startswith("digests were taken when it was migrated")
    assert migrate(source, tmp_path / "new") == done


def test_migrate_run_can_be_resumed_by_the_same_code(
    run: RunDirectory, replay_request: ReplayRequest, tmp_path: Path
) -> None:
    brought = migrate(_aged(run), tmp_path / "new")
    assert run_replay(replay_request, tmp_path / "new").skipped == tuple(run.conversations)
    assert brought.refused == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda one: one.update(schema_version=2),
            "schema_version 2; receipts before schema 3 lack",
        ),
        (lambda one: one.update(schema_version=9), "schema_version 9; this version migrates schema 3"),
        (lambda one: one.update(schema_version=None), "schema_version None"),
        (lambda one: one.update(kind="lab.other"), "is not the manifest of a run"),
        (lambda one: one.update(status="started"), "is not finished; finish it with the version that started it"),
        (lambda one: one["resolved"]["arms"][0].pop("config"), r"arms\[0\]: has no field 'config'"),
        (lambda one: one["resolved"].pop("labels"), "resolved: has no field 'labels'"),
    ],
)
def test_migrate_unusable_run_gives_the_reason(
    run: RunDirectory, tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(UnusableInput, match=message):
        migrate(_aged(run, change), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_migrate_run_of_this_version_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="is a run of this version already"):
        migrate(run.path, tmp_path / "new")


@pytest.mark.parametrize("keep", [lambda row: row["arm"] != "random" or row["seq"] > 9, lambda row: not row["probe"]])
def test_migrate_run_with_missing_rows_is_refused(
    run: RunDirectory, tmp_path: Path, keep: Callable[[dict[str, Any]], bool]
) -> None:
    source, path = _aged(run), run.receipts(run.conversations[0])
    table = read_table(path)
    write_table(table.take([place for place, row in enumerate(table.to_pylist()) if keep(row)]), path)
    with pytest.raises(Incomplete, match=f"{path.name}: has "):
        migrate(source, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_migrate_baselines_name_by_name(run: RunDirectory, sound: RunDirectory, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    approve(folder, run, "good", date="2026-01-01", note="why")
    approve(folder, run, "bad", date="2026-01-02")
    # Version 0.1 named an object by the digests of its files.
    aged = _aged(RunDirectory(get(folder, "good").path, run.manifest))
    files = {name: sha256_file(aged / name) for name in json.loads((aged / "object.json").read_bytes())}
    (aged / "object.json").write_text(json.dumps(files), "utf-8")
    key = digest(files)
    aged.rename(aged.with_name(key))
    for name, meant in (("good", key), ("bad", "0" * 64)):
        path = folder / "names" / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_bytes()) | {"object": meant}), "utf-8")
    done = migrate(folder, tmp_path / "new")
    assert (done.names, [name for name, _ in done.refused]) == (("good",), ["bad"])
    assert "is missing" in done.refused[0][1]
    result = get(tmp_path / "new", "good")
    assert (result.now.date, result.now.note) == ("2026-01-01", "why")
    assert _migratable(open_baseline(result)) == _migratable(sound)


@pytest.mark.parametrize("source", [POLICIES / "rollout.toml", PLANS / "operators.toml"])
def test_migrate_valid_plan_or_policy_is_copied(tmp_path: Path, source: Path) -> None:
    done = migrate(source, tmp_path / "new.toml")
    assert (tmp_path / "new.toml").read_bytes() == source.read_bytes()
    assert done.notes[0].startswith("the format has not changed")
    with pytest.raises(UnusableInput, match="exists; name a new file"):
        migrate(source, tmp_path / "new.toml")


def test_migrate_policy_spells_missing_data_anew(tmp_path: Path) -> None:
    old = 'name = "x"\nabout = "y"\n[[guard]]\nmeasure = "RepeatRate"\nmargin = 0.1\nmust_have_data = false\n'
    old += '[[limit]]\nmeasure = "Future"\nat_most = 0\n  must_have_data = true # always\n'
    (tmp_path / "old.toml").write_text(old)
    done = migrate(tmp_path / "old.toml", tmp_path / "new.toml")
    text = (tmp_path / "new.toml").read_text()
    assert text == old.replace("must_have_data = false", 'without_data = "skip"').replace(
        "must_have_data = true", 'without_data = "error"'
    )
    assert done.notes == ("must_have_data became without_data in 2 rules; it means the same",)
    assert read_policy(str(tmp_path / "new.toml")).rules == read_policy(str(tmp_path / "old.toml")).rules


@pytest.mark.parametrize(
    ("text", "message"), [('name = "x"\n', "needs about"), ("name = \n", "not TOML"), ("[[set]]\n", "set")]
)
def test_migrate_bad_plan_or_policy_gives_the_reason(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "old.toml").write_text(text, "utf-8")
    with pytest.raises(UnusableInput, match=message):
        migrate(tmp_path / "old.toml", tmp_path / "new.toml")
    assert not (tmp_path / "new.toml").exists()


def test_migrate_policy_with_a_wrong_direction_is_refused(tmp_path: Path, lab: Callable[..., Any]) -> None:
    rule = '[[guard]]\nmeasure = "Success@6"\nmargin = 0\ndirection = "lower"\n'
    (tmp_path / "old.toml").write_text(f'name = "x"\nabout = "y"\n{rule}', "utf-8")
    ended = lab("migrate", tmp_path / "old.toml", tmp_path / "new.toml")
    assert (ended.code, ended.out, (tmp_path / "new.toml").exists()) == (2, "", False)
    assert "old.toml:6: guard 1: direction 'lower': Success@6 is better when higher; remove the direction" in ended.err


def test_migrate_unknown_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="not a run, a folder of baselines, a plan or a policy"):
        migrate(tmp_path, tmp_path / "new")


def test_migrate_command_with_refused_baselines_exits_with_4(
    run: RunDirectory, tmp_path: Path, lab: Callable[..., Any]
) -> None:
    approve(tmp_path / "old", run, "bad", date="2026-01-02")
    ended = lab("migrate", _aged(run), tmp_path / "new", "--json")
    assert (ended.code, json.loads(ended.out)["kind"]) == (0, "run")
    shutil.rmtree(tmp_path / "old" / "objects")
    ended = lab("migrate", tmp_path / "old", tmp_path / "none")
    assert (ended.code, "not migrated: bad:" in ended.out) == (4, True)
