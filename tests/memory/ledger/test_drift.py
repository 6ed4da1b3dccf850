"""Label drift of a ledger, a store and a run (RT-10)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import CheckFailed, UnusableInput
from lab.cli.main import app
from lab.golden.model import is_added
from lab.memory.ledger.drift import MARK, THRESHOLDS, Drift, Labelled, Source, drift, read, write_page
from lab.memory.table.lance_table import LanceTable
from lab.recordings.model import LABELS
from lab.replay.plan import plan_of
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.systems.sidecar import grade_observation
from tests.memory.ledger.ledgers import filled
from tests.memory.tools.lance_tables import DIMENSION, entry

DAY = 24 * 3600 * 1000
START = 1_767_571_200_000  # 5 January 2026, a Monday
MUST, NICE, IGNORE, UNKNOWN = LABELS


def source(*days: dict[str, int], scope: str = "global") -> Source:
    """Return memories with so many of each label a day."""
    rows = [
        Labelled(START + n * DAY, scope, label)
        for n, day in enumerate(days)
        for label, c in day.items()
        for _ in range(c)
    ]
    return Source("ledger", rows)


def test_periods_are_days_or_iso_weeks_in_utc() -> None:
    rows = [Labelled(START - 1, "a", MUST), Labelled(START, "a", UNKNOWN), Labelled(START + 7 * DAY - 1, "b", UNKNOWN)]
    rows += [Labelled(None, "b", NICE), Labelled(1e300, "b", NICE)]
    found = drift(Source("store", rows), "week")
    assert [(part.name, part.total, part.share(UNKNOWN)) for part in found.periods] == [
        ("2026-W01", 1, 0.0),
        ("2026-W02", 2, 1.0),
    ]
    assert found.undated == 2
    assert [(part.name, part.total) for part in found.scopes] == [("b", 3), ("a", 2)]
    assert [(period, part.name, part.total) for period, part in found.parts] == [
        ("2026-W01", "a", 1),
        ("2026-W02", "a", 1),
        ("2026-W02", "b", 1),
    ]
    assert [part.name for part in drift(Source("store", rows)).periods] == ["2026-01-04", "2026-01-05", "2026-01-11"]


def test_change_is_the_share_that_would_need_another_label() -> None:
    found = drift(source({MUST: 50, NICE: 50}, {MUST: 50, NICE: 50}, {MUST: 25, NICE: 50, UNKNOWN: 25}))
    assert found.change is not None
    assert found.change.distance == pytest.approx(0.25)
    assert found.change.p < 0.01
    same = drift(source({MUST: 50, NICE: 50}, {MUST: 5, NICE: 5}))
    assert same.change is not None
    assert same.change == (0.0, 1.0)
    assert drift(source({MUST: 3})).change is None


def test_small_difference_of_few_memories_is_no_evidence() -> None:
    found = drift(source({MUST: 5, NICE: 5}, {MUST: 3, NICE: 1}))
    assert found.change is not None
    assert found.change.distance == pytest.approx(0.25)
    assert found.change.p > 0.3


def test_ledger_counts_observations_by_scope_and_tool(tmp_path: Path) -> None:
    path = filled(
        tmp_path / "l.sqlite",
        [
            {"ts": "2026-01-05T01:00:00Z", "tool_name": "memory_store", "summary": "a", "detail": {"importance": 0.9}},
            {"ts": "2026-01-05T01:00:00+02:00", "tool_name": "chat", "summary": "b", "detail": {"scope": "home"}},
            {"ts": "no time", "tool_name": "chat", "summary": "c"},
        ],
    )
    found = drift(read(path))
    assert [(part.name, dict(part.labels)) for part in found.periods] == [
        ("2026-01-04", {UNKNOWN: 1}),
        ("2026-01-05", {MUST: 1}),
    ]
    assert [(part.name, part.total) for part in found.scopes] == [("global", 2), ("home", 1)]
    assert found.undated == 1
    assert len(read(path, tool="memory_store").rows) == 1
    with pytest.raises(UnusableInput, match="--arm is for a run"):
        read(path, arm="x")


def test_store_counts_stored_labels(tmp_path: Path) -> None:
    blank = entry(2)
    blank = replace(blank, row=replace(blank.row, importance_label="", importance=None, scope="home"))
    with LanceTable(tmp_path, create=DIMENSION) as table:
        table.add([entry(1), blank])
    found = drift(read(tmp_path))
    assert (found.kind, [(part.name, part.total) for part in found.scopes]) == ("store", [("global", 1), ("home", 1)])
    assert found.periods[0].labels == {NICE: 1, UNKNOWN: 1}


def test_run_counts_memories_and_what_an_arm_injected(operators: Path, tmp_path: Path) -> None:
    request = ReplayRequest(
        str(operators), "lab", ("tier_quota_v1",), embedder="hashing", conversation=("harbor-release",), haystack=60
    )
    run = run_replay(request, tmp_path / "run").run
    found = drift(read(run.path, graded=True), "week")
    (recording,) = plan_of(run).recordings
    # The haystack repeats memories of other conversations.
    texts = [memory.text for memory in recording.memories if not is_added(memory.key)]
    assert len(texts) == len(recording.memories) - 60
    assert sum(part.total for part in found.periods) == len(texts)
    assert _must(found) == _shares(texts)
    injected = drift(read(run.path, arm="tier_quota_v1"), "week")
    assert sum(part.total for part in injected.periods) > len(recording.turns)
    assert all(part.labels[IGNORE] == 0 for part in injected.periods)
    with pytest.raises(UnusableInput, match="leave --arm out"):
        read(run.path, arm="tier_quota_v1", graded=True)
    with pytest.raises(UnusableInput, match="has no arm 'x'; its arms are tier_quota_v1"):
        read(run.path, arm="x")


def _must(found: Drift) -> list[float]:
    return [part.share(MUST) for part in found.thresholds]


def _shares(texts: list[str]) -> list[float]:
    """Return the share of texts that heuristic-v1 grades with each threshold or more."""
    scores = [grade_observation({"summary": text}).score for text in texts]
    return [sum(score >= threshold for score in scores) / len(scores) for threshold in THRESHOLDS]


def test_thresholds_count_what_each_would_make_must_remember(tmp_path: Path) -> None:
    texts = ["We decided to always use https://example.org", "never call before noon", "thanks", "a kettle"]
    path = filled(tmp_path / "l.sqlite", [{"ts": "2026-01-05T01:00:00Z", "summary": text} for text in texts])
    found = drift(read(path, graded=True))
    assert [part.name for part in found.thresholds][::9] == ["0.50", "0.95"]
    assert _must(found) == _shares(texts)
    assert _must(found)[0] == 0.5
    assert _must(found) == sorted(_must(found), reverse=True)
    # Below .50 is ignored, whatever the threshold.
    assert {part.labels[IGNORE] for part in found.thresholds} == {2}
    assert found.describe()["thresholds"][0]["labels"][MUST] == 2
    with LanceTable(tmp_path / "s", create=DIMENSION) as table:
        table.add([entry(number, text) for number, text in enumerate(texts)])
    assert _must(drift(read(tmp_path / "s", graded=True))) == _shares(texts)
    assert drift(read(path)).thresholds == []
    page = write_page(found, "l.sqlite", tmp_path / "d.html").read_text("utf-8")
    assert "If must_remember began at another score" in page
    assert "Grades of heuristic-v1" in page
    assert "kettle" not in page


def test_page_says_what_its_charts_leave_out(tmp_path: Path) -> None:
    days = source(*[{MUST: 1}] * 70).rows
    found = drift(Source("ledger", [row._replace(scope=f"scope {at % 40}") for at, row in enumerate(days)]))
    page = write_page(found, "l.sqlite", tmp_path / "d.html").read_text("utf-8")
    assert "The chart shows the newest 60 of 70." in page
    assert "The chart shows the largest 30 of 40." in page
    assert "If must_remember began" not in page
    # A ledger has observations, which need not be memories.
    assert ">observations</th>" in page
    assert "70 observations, " in page
    stored = drift(source({MUST: 1})._replace(kind="store"))
    assert ">memories</th>" in write_page(stored, "s", tmp_path / "s.html").read_text("utf-8")
    # The chart and the table have a row each; the smallest scopes only the table.
    assert (page.count(">scope 0<"), page.count(">scope 39<")) == (2, 1)
    assert (page.count(">2026-01-05<"), page.count(">2026-03-15<")) == (0, 2)


def test_source_without_memories_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="the ledger has no observations"):
        drift(Source("ledger", []))
    with pytest.raises(UnusableInput, match="expected day or week"):
        drift(source({MUST: 1}), "month")
    with pytest.raises(UnusableInput):
        read(tmp_path / "none")


def test_page_shows_shares_and_no_text(tmp_path: Path) -> None:
    found = drift(source({MUST: 1, UNKNOWN: 3}, {UNKNOWN: 4}, scope="<b>&home"))
    page = write_page(found, "l.sqlite", tmp_path / "drift.html").read_text("utf-8")
    assert "2026-01-06" in page
    assert "87.5\N{NO-BREAK SPACE}%" in page
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;home" in page
    write_page(found, "l.sqlite", tmp_path / "drift.html")
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(UnusableInput, match="is not a page"):
        write_page(found, "l.sqlite", tmp_path / "mine.html")
    assert MARK.decode() in page


def test_command_fails_when_the_newest_period_exceeds_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"ts": f"2026-01-0{5 + n // 40}T00:00:00Z", "summary": "x", "detail": {"importance": 0.9} if n < 40 else {}}
        for n in range(80)
    ]
    path = filled(tmp_path / "l.sqlite", rows)
    command = ["memory", "ledger", "drift", str(path), "--page", str(tmp_path / "d.html")]
    app([*command, "--thresholds"], standalone_mode=False)
    said = capsys.readouterr().out
    assert "2026-01-06" in said
    assert "must from" in said
    for options in (("--most-unknown", "0.99"), ("--most-change", "0.5")):
        with pytest.raises(CheckFailed, match="2026-01-06"):
            app([*command, *options], standalone_mode=False)
    capsys.readouterr()
    app([*command, "--most-unknown", "1", "--most-change", "1", "--json"], standalone_mode=False)
    value = json.loads(capsys.readouterr().out)
    assert value["change"]["distance"] == 1.0
