"""Exact comparison of two runs: every difference is reported, and the order of arms is ignored."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import CannotMeasure, Incomplete, NotComparable
from lab.compare.changes import cause, changes, moved
from lab.compare.comparable import Common
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import Git, Manifest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_table

MakeRun = Callable[..., RunDirectory]
FIRST, QUOTA = "tier_first_v1", "tier_quota_v1"


@pytest.fixture(scope="module")
def run(make_run: MakeRun) -> RunDirectory:
    """Three arms over two conversations."""
    return make_run(FIRST, QUOTA, "none", limit=2)


def _copy(run: RunDirectory, folder: Path) -> RunDirectory:
    shutil.copytree(run.path, folder)
    return open_run(folder)


@pytest.fixture
def edit(resealed: Callable[[Path], RunDirectory]) -> Callable[..., RunDirectory]:
    """Rewrite one cell of the receipts of a run, update its digests, and reopen it."""

    def edited(run: RunDirectory, *cell: Any) -> RunDirectory:
        _edit(run, *cell)
        return resealed(run.path)

    return edited


def _edit(run: RunDirectory, conversation: str, column: str, row: int, change: Callable[[Any], Any]) -> None:
    path = run.receipts(conversation)
    table = read_table(path)
    values = table[column].to_pylist()
    values[row] = change(values[row])
    place = table.schema.get_field_index(column)
    write_table(table.set_column(place, table.schema.field(place), pa.array(values, table[column].type)), path)


def _row(run: RunDirectory, arm: str) -> int:
    """Return the last row of an arm with items."""
    table = read_table(run.receipts(run.conversations[1]), ("arm", "item_key"))
    return max(row for row, one in enumerate(table.to_pylist()) if one["arm"] == arm and one["item_key"])


def test_changes_of_a_copy_are_none(run: RunDirectory, tmp_path: Path) -> None:
    found = changes(run, _copy(run, tmp_path / "copy"))
    rows = sum(read_table(run.receipts(name)).num_rows for name in run.conversations)
    assert (found.changed, found.turns, found.moved) == (0, rows, ())
    assert [(one.arm, one.turns, one.columns) for one in found.arms] == [
        (arm, rows // 3, {}) for arm in (FIRST, QUOTA, "none")
    ]


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("item_score", lambda scores: [math.nextafter(scores[0], 2.0), *scores[1:]]),
        ("item_score", lambda scores: [math.nan, *scores[1:]]),
        ("item_key", lambda keys: list(reversed(keys[:2])) + keys[2:]),
        ("item_fts_rank", lambda ranks: [None if ranks[0] is not None else 1, *ranks[1:]]),
        ("is_recall_turn", lambda value: not value),
        ("probe", lambda value: None if value else "invented"),
        ("receipt", lambda text: text.replace("{", "{ ", 1)),
        ("chars", lambda value: value + 1),
    ],
    ids=["last bit", "NaN", "order", "null", "flag", "text or null", "space in a receipt", "number"],
)
def test_changes_report_a_single_bit(
    run: RunDirectory,
    tmp_path: Path,
    edit: Callable[..., RunDirectory],
    column: str,
    change: Callable[[Any], Any],
) -> None:
    other = _copy(run, tmp_path / "copy")
    conversation, row = run.conversations[1], _row(run, QUOTA)
    turn = read_table(run.receipts(conversation), ("turn",))["turn"][row].as_py()
    other = edit(other, conversation, column, row, change)
    found = changes(run, other)
    assert found.changed == 1
    assert {one.arm: len(one.changed) for one in found.arms} == {FIRST: 0, QUOTA: 1, "none": 0}
    assert found.first() == [
        {
            "arm": QUOTA,
            "conversation": conversation,
            "turn": turn,
            "columns": [column],
            "explain": [f"lab explain {path} {turn} --arm {QUOTA}" for path in (run.path, other.path)],
        }
    ]


def test_foremost_puts_changed_recalls_first(
    run: RunDirectory, tmp_path: Path, edit: Callable[..., RunDirectory]
) -> None:
    other, conversation = _copy(run, tmp_path / "copy"), run.conversations[1]
    # The arm is later in the run, but its changed recall comes first.
    for arm, column in ((FIRST, "receipt"), (QUOTA, "block")):
        other = edit(other, conversation, column, _row(run, arm), lambda text: text + " ")
    found = changes(run, other)
    assert [one.arm for one in found.arms if one.changed] == [FIRST, QUOTA]
    assert [(one["arm"], one["columns"]) for one in found.first()] == [(QUOTA, ["block"]), (FIRST, ["receipt"])]


def test_changes_compare_floats_by_their_bits(
    run: RunDirectory, tmp_path: Path, edit: Callable[..., RunDirectory]
) -> None:
    one, other = _copy(run, tmp_path / "one"), _copy(run, tmp_path / "other")
    conversation, row = run.conversations[1], _row(run, QUOTA)
    one, other = (
        edit(copy, conversation, "item_score", row, lambda scores: [math.nan, 0.0, *scores[2:]])
        for copy in (one, other)
    )
    assert changes(one, other).changed == 0
    other = edit(other, conversation, "item_score", row, lambda scores: [math.nan, -0.0, *scores[2:]])
    assert changes(one, other).changed == 1


def test_changes_ignore_the_order_of_arms(make_run: MakeRun, run: RunDirectory) -> None:
    other = make_run("oracle", QUOTA, FIRST, limit=2)
    found = changes(run, other)
    assert (found.changed, [one.arm for one in found.arms]) == (0, [FIRST, QUOTA])
    assert (found.only_before, found.only_after) == (("none",), ("oracle",))
    assert found.moved == ("arm none: present -> absent", "arm oracle: absent -> present")


def test_changes_name_the_changed_knob(make_run: MakeRun, run: RunDirectory) -> None:
    other = make_run(FIRST, QUOTA, limit=2, max_items=5)
    found = changes(run, other)
    by_arm = {one.arm: one for one in found.arms}
    assert 0 < len(by_arm[QUOTA].changed) <= by_arm[QUOTA].turns
    assert by_arm[QUOTA].columns["injected"] > 0
    assert f"arm {QUOTA}: config.autoRecall.maxItems 6 -> 5" in found.moved
    assert found.as_json()["changed"] == found.changed
    assert len(found.as_json()["first"]) == 5


def test_cause_of_an_arm_leaves_out_what_differs_in_others() -> None:
    moved = ["numpy 1 -> 2", "arm a: cutoff 6 -> 5", "arm b: cutoff 6 -> 4", "depth 50 -> 20", "golden x -> y"]
    # What an operator set leads, also where the lab was updated as well.
    assert cause(moved, "a") == "arm a: cutoff 6 -> 5; numpy 1 -> 2; depth 50 -> 20 and 1 more difference"
    assert cause(moved[1:3], "c") == cause([]) == "no difference in the manifests"


def test_changes_of_incomparable_runs_raise(
    make_run: MakeRun, run: RunDirectory, tmp_path: Path, resealed: Callable[[Path], RunDirectory]
) -> None:
    with pytest.raises(NotComparable, match="labels"):
        changes(run, make_run(FIRST, limit=2, labels="sampled"))
    with pytest.raises(NotComparable, match="no arm in common"):
        changes(run, make_run("oracle", limit=2))
    older = _copy(run, tmp_path / "older")
    path = older.receipts(older.conversations[0])
    write_table(read_table(path).drop_columns(["log"]).replace_schema_metadata({"schema_version": "1"}), path)
    with pytest.raises(NotComparable, match="versions"):
        changes(run, resealed(older.path))


def test_changes_compare_shares_of_answers_only_where_both_runs_have_them(
    run: RunDirectory, tmp_path: Path, resealed: Callable[[Path], RunDirectory], edit: Callable[..., RunDirectory]
) -> None:
    answered = _copy(run, tmp_path / "answered")
    for conversation in answered.conversations:
        path = answered.receipts(conversation)
        table = read_table(path)
        shares = pa.array([0.5] * table.num_rows, pa.float64())
        write_table(table.append_column("answer_share", shares), path)
    answered = resealed(answered.path)
    assert [arm.changed for arm in changes(run, answered).arms] == [(), (), ()]
    other = edit(_copy(answered, tmp_path / "other"), run.conversations[0], "answer_share", 0, lambda share: share / 2)
    assert [arm.columns for arm in changes(answered, other).arms if arm.changed] == [{"answer_share": 1}]


def test_changes_of_a_damaged_run_raise(
    run: RunDirectory, tmp_path: Path, resealed: Callable[[Path], RunDirectory]
) -> None:
    other = _copy(run, tmp_path / "copy")
    path = other.receipts(other.conversations[0])
    table = read_table(path)
    write_table(table.slice(0, table.num_rows - 3), path)
    with pytest.raises(Incomplete, match="not one row for each of 3 arms"):
        changes(run, resealed(other.path))
    last = [row for row, arm in enumerate(table["arm"].to_pylist()) if arm == FIRST][-2:]
    order = pa.array([{last[0]: last[1], last[1]: last[0]}.get(row, row) for row in range(table.num_rows)])
    write_table(table.take(order), path)
    with pytest.raises(CannotMeasure, match="same turns"):
        changes(run, resealed(other.path))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CannotMeasure, match="damaged"):
        changes(run, resealed(other.path))
    path.unlink()
    with pytest.raises(Incomplete, match="missing"):
        changes(run, other)


def test_moved_is_in_a_fixed_order(run: RunDirectory) -> None:
    resolved, environment = run.manifest.resolved, run.manifest.environment
    conversation = sorted(resolved.recordings)[0]
    now = replace(
        run.manifest,
        resolved=replace(
            resolved,
            lab="9.9",
            recordings={**resolved.recordings, conversation: "0" * 64},
            scope="recorded",
            faults=("fts_error",),
        ),
        environment=replace(
            environment,
            python="3.99.0",
            packages={**environment.packages, "numpy": "9.8.7", "pandas": None},
            git=Git("f" * 40, True),
            code="d" * 64,
        ),
    )
    before = replace(run.manifest, environment=replace(environment, git=Git("e" * 40, False)))
    packages = environment.packages
    assert moved(before, now) == (
        f"lab {resolved.lab} -> 9.9",
        "git eeeeeeeeeeee -> ffffffffffff",
        "git uncommitted changes no -> yes",
        f"code {(environment.code or '')[:12]} -> dddddddddddd",
        f"numpy {packages['numpy']} -> 9.8.7",
        f"pandas {packages['pandas']} -> none",
        f"python {environment.python} -> 3.99.0",
        "faults nothing -> fts_error",
        "scope none -> recorded",
        f"recordings {conversation} {resolved.recordings[conversation][:12]} -> 000000000000",
    )


def test_moved_reports_uncommitted_changes(run: RunDirectory) -> None:
    def manifest(code: str, *, dirty: bool) -> Manifest:
        environment = replace(run.manifest.environment, code=code, git=Git("a" * 40, dirty))
        return replace(run.manifest, environment=environment)

    code = f"code {'1' * 12} -> {'2' * 12}"
    clean, edited = manifest("1" * 64, dirty=False), manifest("2" * 64, dirty=True)
    assert moved(clean, manifest("2" * 64, dirty=False)) == (code,)
    assert moved(clean, edited) == ("git uncommitted changes no -> yes", code)
    assert moved(manifest("1" * 64, dirty=True), edited) == ("git uncommitted changes in both", code)
    # Equal code explains nothing, whatever git reports.
    assert moved(manifest("2" * 64, dirty=False), edited) == ()


def test_changes_compare_the_conversations_that_both_runs_have(
    make_run: MakeRun, run: RunDirectory, tmp_path: Path, resealed: Callable[..., RunDirectory]
) -> None:
    first, second = run.conversations
    alone = make_run(FIRST, QUOTA, limit=1)
    found = changes(run, alone)
    assert (found.common, found.changed) == (Common((first,), (), (second,)), 0)
    assert changes(alone, run).common == Common((first,), (second,))
    assert found.turns < changes(run, run).turns
    # A run as if it had one conversation has its figures alone.
    part = run.of([second])
    assert (part.conversations, part.assigned, part.of([second]) is part) == ([second], [second], True)
    assert {gold.conversation for gold in read_gold(part).values()} == {second}
    assert part.content != run.content
    with pytest.raises(NotComparable, match=r"no conversation in common; 1 conversation added: .*; 1 conversation rem"):
        changes(alone, part)


def test_changes_name_conversations_that_are_not_the_same(
    run: RunDirectory, tmp_path: Path, resealed: Callable[..., RunDirectory]
) -> None:
    first, second = run.conversations
    other = _copy(run, tmp_path / "other").path

    def edit(manifest: dict[str, Any]) -> None:
        manifest["comparable_key"] = "other"
        manifest["contents"][second]["turns"] = "0" * 64

    found = changes(run, resealed(other, edit))
    assert found.common == Common((first,), changed={second: "turns"})
    assert str(found.common) == f"1 conversation changed: {second} (turns)"

    def forget(manifest: dict[str, Any]) -> None:
        del manifest["contents"]

    # A run of an earlier version lists no contents: with equal recordings it can still be compared.
    earlier = resealed(other, forget)
    with pytest.raises(NotComparable, match="a setting not listed here"):
        changes(run, earlier)
