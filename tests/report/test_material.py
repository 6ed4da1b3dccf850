"""The data of a report, and its tables."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lab.compare.paired import compare_arms
from lab.measures.latency import stages
from lab.measures.score import score_run, summarise
from lab.recordings.model import TIER_OF
from lab.report import sections
from lab.report.material import PARTS, busiest, tier_shares, timeline
from lab.runs.directory import RunDirectory, open_run
from lab.runs.scores import read_gold
from lab.runs.tables import read_table, write_table

ARMS = ("tier_first_v1", "tier_quota_v1", "none")


@pytest.fixture(scope="module")
def run(make_run: Callable[..., RunDirectory]) -> RunDirectory:
    """Two conversations, one of which is longer."""
    return make_run("den", "attic", arms=ARMS)


def test_places_count_labels_of_injected_memories(run: RunDirectory) -> None:
    found = tier_shares(run)
    counts: dict[str, Counter[str]] = {arm: Counter() for arm in ARMS}
    for name in run.conversations:
        for row in read_table(run.receipts(name)).to_pylist():
            if row["is_recall_turn"]:
                counts[row["arm"]].update(TIER_OF[one] for one in row["item_label"][: row["injected"]])
    for arm, own in counts.items():
        total = own.total() or 1
        assert found.overall[arm] == pytest.approx({tier: own[tier] / total for tier in found.overall[arm]})
        assert len(found.by_part[arm]) == PARTS
        assert {round(sum(part.values()), 9) for part in found.by_part[arm]} <= {0.0, 1.0}
    assert sum(found.overall["none"].values()) == 0
    assert busiest(found.turns, 1) == ["attic"]


def test_timeline_holds_every_recall_turn(run: RunDirectory) -> None:
    found = timeline(run, "attic", ARMS[:2])
    assert {arm: len(turns) for arm, turns in found.turns.items()} == dict.fromkeys(
        ARMS[:2], tier_shares(run).turns["attic"]
    )
    for arm, turns in found.turns.items():
        assert {key for chosen in turns for key in chosen} <= set(found.tiers[arm])


def test_stages_of_warm_turns_add_up(run: RunDirectory) -> None:
    found = {(one.arm, one.stage): one.spent for one in stages(run)}
    warm = sum(
        not row["cold"]
        for name in run.conversations
        for row in read_table(run.latency(name)).to_pylist()
        if (row["arm"], row["stage"]) == (ARMS[1], "select")
    )
    assert found[ARMS[1], "select"].n == warm
    parts = [one.mean or 0.0 for (arm, stage), one in found.items() if arm == ARMS[1] and stage != "total"]
    assert found[ARMS[1], "total"].mean == pytest.approx(sum(parts))
    # Too few turns for a high quantile.
    assert found[ARMS[1], "total"].p99 is None


def test_warm_times_do_not_depend_on_the_order_of_arms(
    run: RunDirectory, tmp_path: Path, resealed: Callable[[Path], RunDirectory]
) -> None:
    """Arms that share a search all include its time (tests/replay/test_shared_timings.py), in any order of the file."""
    shutil.copytree(run.path, tmp_path / "turned")
    turned = open_run(tmp_path / "turned")
    for name in turned.conversations:
        rows = read_table(turned.latency(name)).to_pylist()
        retrieved: dict[str, list[int]] = {}
        for row in rows:
            if row["stage"] == "retrieve":
                retrieved.setdefault(row["arm"], []).append(row["ns"])
        assert retrieved[ARMS[0]] == retrieved[ARMS[1]]
        write_table(pa.Table.from_pylist(sorted(rows, key=lambda row: row["arm"], reverse=True)), turned.latency(name))
    turned = resealed(tmp_path / "turned")
    assert {(one.arm, one.stage): one.spent.mean for one in stages(turned)} == {
        (one.arm, one.stage): one.spent.mean for one in stages(run)
    }


def test_tables_are_cut_with_a_command_for_the_rest(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = score_run(run)
    found = compare_arms(run, *ARMS[:2], slices=True, tested_slices=False, scores=scores)
    assert found.slices
    assert all(math.isnan(one.difference.p) for one in found.slices)
    tested = compare_arms(run, *ARMS[:2], slices=True)
    assert [one.difference.estimate for one in tested.slices] == [one.difference.estimate for one in found.slices]
    monkeypatch.setattr(sections, "MOST_SLICES", 1)
    slices = summarise(scores, read_gold(run), run.arms)["slices"]
    (table, *_) = sections.slice_tables(slices, run.arms, run.cutoff, found)
    assert (len(table.rows), table.more) == (1, 1)
    assert table.command == "lab compare DIR --baseline tier_first_v1 --candidate tier_quota_v1 --json"


def test_contract_table_bounds_harms_never_seen(run: RunDirectory) -> None:
    arms = summarise(score_run(run), read_gold(run), run.arms)["arms"]
    table = sections.contract_table(arms, run.cutoff)
    by_arm = {row[0]: dict(zip(table.headers[1:], row[1:], strict=True)) for row in table.rows}
    bound = arms["none"]["unseen"]["AnyWrongScope"]["at_most"]
    assert by_arm["none"]["AnyWrongScope"] == f"0 (≤\u00a0{100 * bound:.2f}\u00a0%)"
    assert by_arm["none"]["Future"] == "–"
    assert by_arm["tier_first_v1"]["Future"] == "0.0\u00a0%"
    assert set(sections.meanings(table.headers)) == set(table.headers[1:])
