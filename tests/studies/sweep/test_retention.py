"""Retention rules over replays: uses from receipts, what a rule archives, what it loses (RT-6 to RT-9)."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.cli.main import app
from lab.recordings.model import Memory
from lab.replay.plan import plan_of
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold
from lab.runs.tables import read_table
from lab.studies.retention import (
    ALL,
    DAY_MS,
    DEFAULT,
    FILE,
    P1_DAYS,
    P2_DAYS,
    SIGNALS,
    Life,
    Rule,
    largest,
    lives,
    losses,
    parse_rule,
    priority,
    write_lives,
)

ARMS = ("tier_quota_v1", "recency", "oracle")


def days(*numbers: float) -> list[int]:
    return [int(number * DAY_MS) for number in numbers]


def life(name: str, created: float, end: float, included: list[int], **more: object) -> Life:
    return Life("a", "c", "m", name, *days(created, end), included=included, **more)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (life("P0", 0, 4000, []), None),
        (life("P1", 0, 89.99, []), None),
        (life("P1", 0, 90, []), 90),
        (life("P2", 0, 90, []), 30),
        (life("P2", 0, 40, days(11)), None),
        (life("P2", 0, 60, days(11, 20)), 50),
        # A use at the very end of the term comes too late: the job runs before the recall.
        (life("P2", 0, 60, days(30, 31, 59)), 30),
        # The birth of a memory may be a millisecond later than a recall.
        (life("P2", 10, 39, days(9)), None),
    ],
)
def test_memory_is_archived_after_the_first_long_gap(one: Life, expected: int | None) -> None:
    assert one.archived_at(DEFAULT) == (None if expected is None else expected * DAY_MS)


def test_signal_decides_what_counts_as_a_use() -> None:
    one = life("P2", 0, 60, days(20), retrieved=days(20, 45))
    assert [one.archived_at(DEFAULT, signal) for signal in SIGNALS] == [50 * DAY_MS, None, 30 * DAY_MS]


def test_losses_count_pairs_after_archival_alone() -> None:
    wanted = [(days(10)[0], True), (days(50)[0], True), (days(60)[0], False)]
    found = [life("P2", 0, 100, days(19), wanted=wanted), life("P0", 0, 100, [], wanted=wanted[2:])]
    by = {loss.priority: loss for loss in losses(found, [DEFAULT])}
    # Archived on day 49.
    assert by["P2"][3:] == (1, 1, 3, 2, 2, 1, 1, 1)
    assert by["P0"][3:] == (1, 0, 1, 0, 0, 0, 1, 0)
    assert by["P1"][3:] == (0,) * 8
    assert by[ALL][3:] == (2, 1, 4, 2, 2, 1, 2, 1)
    assert by[ALL].lost_share == 0.5
    assert by["P1"].lost_share is None
    with pytest.raises(UnusableInput, match="--used seen"):
        losses(found, [DEFAULT], "seen")


def test_largest_rule_loses_less_than_the_limit_and_none_archives_more() -> None:
    found = [life("P1" if n % 2 else "P2", 0, 400, [], wanted=[(days(n)[0], False)]) for n in range(1, 200)]
    best = largest(found, 0.2)["a"]
    assert best is not None
    assert (best.lost_share or 0) < 0.2
    every = losses(found, [Rule(p1, p2) for p1 in P1_DAYS for p2 in P2_DAYS if p2 <= p1])
    fit = [loss for loss in every if loss.priority == ALL and (loss.lost_share or 0) < 0.2]
    assert best.archived == max(loss.archived for loss in fit)
    assert largest([life("P2", 0, 400, [], wanted=[(days(399)[0], False)])], 0.01)["a"] is None


def test_priority_follows_label_or_kind() -> None:
    memory = Memory("k", "t", "t", 0, 0, category="decision", label="must_remember")
    assert (priority(memory), priority(memory, "kind")) == ("P0", "P1")
    plain = Memory("k", "t", "t", 0, 0, category="other", label=None)
    assert (priority(plain), priority(plain, "kind")) == ("P2", "P2")
    assert priority(Memory("k", "t", "t", 0, 0, category="other", hard_rule=True), "kind") == "P0"


@pytest.mark.parametrize("text", ["90", "90/", "/30", "0/30", "90/0", "a/b", "90/30/7", "-1/3", "9.5/3"])
def test_malformed_rule_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="two numbers of days"):
        parse_rule(text)
    assert parse_rule(" 120 / 45 ") == Rule(120, 45)


@pytest.fixture(scope="module")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    request = ReplayRequest(
        str(operators), "lab", ARMS, embedder="hashing", conversation=("harbor-release", "two-desks")
    )
    return run_replay(request, tmp_path_factory.mktemp("retention") / "run").run


def test_lives_agree_with_the_receipts(run: RunDirectory) -> None:
    found = lives(run)
    gold, plan = read_gold(run), plan_of(run)
    included = dict.fromkeys(ARMS, 0)
    last: dict[tuple[str, str], int] = {}
    for recording in plan.recordings:
        times = {turn.key: turn.time_ms for turn in recording.turns}
        for row in read_table(run.receipts(recording.conversation)).to_pylist():
            if row["is_recall_turn"]:
                keys = {*row["item_key"][: row["injected"]], *row["pinned"]}
                included[row["arm"]] += len(keys)
                last |= {(row["arm"], key): times[row["turn"]] for key in keys}
    for arm in ARMS:
        mine = [one for one in found if one.arm == arm]
        assert len(mine) == sum(len(recording.memories) for recording in plan.recordings)
        assert sum(len(one.included) for one in mine) == included[arm]
        assert all(set(one.included) <= set(one.retrieved) for one in mine)
    assert {(one.arm, one.memory): one.included[-1] for one in found if one.included} == last
    pairs = sum(len(judged.visible) for judged in gold.values())
    assert sum(len(one.wanted) for one in found if one.arm == "oracle") == pairs
    # The oracle injects what is relevant, so far as there is room.
    hits = [hit for one in found if one.arm == "oracle" for _, hit in one.wanted]
    assert sum(hits) > 0.9 * len(hits)


def test_rule_that_archives_everything_loses_what_is_wanted_later(run: RunDirectory) -> None:
    found = lives(run)
    day = {loss.arm: loss for loss in losses(found, [Rule(1, 1)], "none") if loss.priority == ALL}
    late = {
        arm: sum(
            time >= one.created + DAY_MS
            for one in found
            if one.arm == arm and one.priority != "P0"
            for time, _ in one.wanted
        )
        for arm in ARMS
    }
    assert {arm: loss.lost for arm, loss in day.items()} == late
    assert late["oracle"] > 0
    # Longer terms never lose more, and more uses never lose more.
    for signal in SIGNALS:
        shares = [losses(found, [Rule(term, term)], signal)[3].lost for term in (1, 3, 10, 30, 90)]
        assert shares == sorted(shares, reverse=True)
    by_signal = [losses(found, [Rule(5, 5)], signal)[3].lost for signal in ("retrieved", "included", "none")]
    assert by_signal == sorted(by_signal)


def test_table_has_last_uses(run: RunDirectory, tmp_path: Path) -> None:
    found = lives(run)
    rows = write_lives(found, tmp_path / FILE, Rule(2, 1)).to_pylist()
    assert rows == read_table(tmp_path / FILE).to_pylist()
    for one, row in zip(found, rows, strict=True):
        assert row["last_included_at"] == (one.included[-1] if one.included else None)
        assert row["archived_at"] == one.archived_at(Rule(2, 1))
    lost = {loss.arm: loss.lost for loss in losses(found, [Rule(2, 1)]) if loss.priority == ALL}
    assert {arm: sum(row["lost"] for row in rows if row["arm"] == arm) for arm in ARMS} == lost


def test_command_prints_and_says_the_same(run: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        app([str(word) for word in words], standalone_mode=False)
        return capsys.readouterr().out

    command = ("study", "retention", str(run.path), "--rule", "3/1", "--rule", "90/30", "--used", "retrieved")
    value = json.loads(said(*command, "--json"))
    expected = losses(lives(run), [Rule(3, 1), DEFAULT], "retrieved")
    assert [one["lost"] for one in value["rules"]] == [one.lost for one in expected]
    assert all(one is None or one["lost_share"] < 0.01 for one in value["best"].values())
    assert math.isclose(value["days"], max(one.end - one.created for one in lives(run)) / DAY_MS)
    text = said(*command)
    for one in expected:
        assert f"{one.arm}, rule {one.rule}:" in text
        counts = (one.archived, one.memories), (one.lost_memories, one.relevant_memories), (one.lost, one.relevant)
        cells = [f"{part / of:.1%} of {of}" if of else "-" for part, of in (*counts, (one.lost_found, one.found))]
        assert [one.priority, *cells] in [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    assert (run.path / FILE).is_file()


def test_run_too_short_for_a_rule_names_none(
    run: RunDirectory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*words: str) -> str:
        app(["study", "retention", str(run.path), *words], standalone_mode=False)
        return " ".join(capsys.readouterr().out.split())

    # Rules that no conversation of the run is long enough for.
    monkeypatch.setattr("lab.studies.retention.P1_DAYS", (9000,))
    monkeypatch.setattr("lab.studies.retention.P2_DAYS", (9000,))
    text = said()
    assert "Too short to judge a rule, so none is named: the shortest archives after 9000 days." in text
    assert "archives most" not in text
    assert set(json.loads(said("--json"))["best"].values()) == {None}


def test_no_rule_is_best_that_archives_nothing() -> None:
    assert largest([life("P2", 0, 40, days(6, 12, 18, 24, 30, 36))], 0.5) == {"a": None}
    assert largest([life("P2", 0, 40, days(6))], 0.5)["a"] is not None
