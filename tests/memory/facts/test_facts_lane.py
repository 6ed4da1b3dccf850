"""Facts as a lane of a pack, proposals for review, and claims of a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.memory.facts.asserting import assert_facts, claims_in, measure, propose, triples
from lab.memory.facts.pack import FactsLane
from tests.memory.facts.stores import NOW, claim, place

LATER = int((NOW + timedelta(days=30)).timestamp() * 1000)


def test_lane_returns_what_holds_then_what_it_superseded(tmp_path: Path) -> None:
    here = place(tmp_path)
    old = here.add(claim())
    new = here.add(claim("retired", "2026-11-05", sources=("obs:2",), supersedes=(old.id,)))
    here.add(claim("gas", subject="kitchen", predicate="uses"))
    lane = FactsLane(here.facts, here.ledger, here.root)
    found = lane.search("what is the status of the gateway?", 5, scope=None, now_ms=LATER)
    assert [one.ref for one in found.candidates] == [new.id, old.id]
    best, replaced = found.candidates
    assert (best.text, best.kind) == ("entity:gateway status = retired (from 2026-11-05T00:00:00Z)", "fact")
    assert (best.supersedes, best.contradicts, best.sources) == ((old.id,), (), ("obs:2",))
    assert replaced.contradicts == ()
    assert [one.ref for one in lane.search("gateway", 1, scope=None, now_ms=LATER).candidates] == [new.id]
    assert lane.search("zebra", 5, scope=None, now_ms=LATER).candidates == []


def test_lane_knows_only_what_was_asserted_by_then(tmp_path: Path) -> None:
    here = place(tmp_path)
    old = here.add(claim())
    here.add(claim("retired", "2026-11-05", supersedes=(old.id,)), now=NOW + timedelta(days=2))
    lane = FactsLane(here.facts, here.ledger)
    before = int((NOW + timedelta(days=1)).timestamp() * 1000)
    assert [one.ref for one in lane.search("gateway", 5, scope=None, now_ms=before).candidates] == [old.id]
    assert len(lane.search("gateway", 5, scope=None, now_ms=LATER).candidates) == 2
    assert lane.search("gateway", 5, scope=None, now_ms=0).candidates == []


def test_lane_knows_a_renewal_only_from_then_on(tmp_path: Path) -> None:
    here = place(tmp_path)
    made = here.add(claim(sources=("doc:a.md",)))
    (here.root / "a.md").write_text("edited\n")
    again, renewed = claim(sources=("doc:a.md",)), NOW + timedelta(days=2)
    assert assert_facts(here.facts, [again], here.sources, now=renewed, write=True).renewed == [made.id]
    lane = FactsLane(here.facts, here.ledger, here.root)
    found = [
        lane.search("gateway", 5, scope=None, now_ms=int((NOW + timedelta(days=days)).timestamp() * 1000)).candidates
        for days in (1, 2)
    ]
    assert [[one.ref for one in candidates] for candidates in found] == [[], [made.id]]


def test_lane_trusts_a_fact_as_its_confidence(tmp_path: Path) -> None:
    here = place(tmp_path)
    trust = {"low": "untrusted", "source_capped": "unknown", "corroborated": "trusted", "operator_asserted": "trusted"}
    for confidence in trust:
        here.add(claim(confidence, predicate="uses", confidence=confidence))
    found = FactsLane(here.facts, here.ledger, here.root).search("gateway", 5, scope=None, now_ms=LATER)
    assert {one.text.split()[3]: one.trust for one in found.candidates} == trust


def test_lane_without_a_ledger_says_that_sources_were_not_checked(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.add(claim())
    here.add(claim("gas", subject="kitchen", predicate="uses", sources=("doc:a.md",)))
    lane = FactsLane(here.facts, None, here.root)
    assert lane.search("gateway", 5, scope=None, now_ms=LATER).reason == "no_ledger_sources_not_checked"
    assert lane.search("kitchen", 5, scope=None, now_ms=LATER)[2:] == (True, None)
    checked = FactsLane(here.facts, here.ledger, here.root).search("gateway", 5, scope=None, now_ms=LATER)
    assert (len(checked.candidates), checked.reason) == (1, None)


def test_lane_names_values_that_contradict_each_other(tmp_path: Path) -> None:
    here = place(tmp_path)
    made = here.add(claim())
    rival = here.facts.read_text().replace('"live"', '"retired"').replace(made.id, "fact_by_hand")
    here.facts.write_text(here.facts.read_text() + rival)
    found = FactsLane(here.facts, here.ledger).search("gateway", 5, scope=None, now_ms=LATER).candidates
    assert {one.ref: one.contradicts for one in found} == {made.id: ("fact_by_hand",), "fact_by_hand": (made.id,)}


def test_lane_counts_facts_that_it_leaves_out(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.add(claim("redis", predicate="uses", sources=("doc:a.md",)))
    lane = FactsLane(here.facts, here.ledger, here.root)
    assert lane.search("gateway", 5, scope=None, now_ms=LATER).reason is None
    (tmp_path / "a.md").unlink()
    found = lane.search("gateway", 5, scope=None, now_ms=LATER)
    assert (found.candidates, found.reason) == ([], "left out: sources_missing_excluded 1")


def test_lane_counts_facts_that_supersede_each_other(tmp_path: Path) -> None:
    here = place(tmp_path)
    old = here.add(claim())
    new = here.add(claim("retired", "2026-11-05", supersedes=(old.id,)))
    here.facts.write_text(here.facts.read_text().replace('"supersedes": []', f'"supersedes": ["{new.id}"]'))
    found = FactsLane(here.facts, here.ledger).search("gateway", 5, scope=None, now_ms=LATER)
    assert (found.candidates, found.reason) == ([], "left out: supersession_cycle 2")


def test_lane_without_readable_facts_says_so(tmp_path: Path) -> None:
    here = place(tmp_path)
    lane = FactsLane(here.facts, here.ledger)
    assert lane.search("x", 5, scope=None, now_ms=LATER) == ("facts", (), False, "no facts")
    here.facts.write_text("{\n")
    found = lane.search("x", 5, scope=None, now_ms=LATER)
    reason = f"{here.facts} cannot be read; lab memory facts lint says why"
    assert (found.searched, found.reason) == (False, reason)
    here.facts.write_text("")
    assert lane.search("x", 5, scope=None, now_ms=LATER).candidates == []
    assert lane.search("x", 5, scope=None, now_ms=10**20).searched is False


def test_lane_finds_chinese_facts(tmp_path: Path) -> None:
    here = place(tmp_path)
    made = here.add(claim("已退役", subject="網關"))
    now = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() * 1000)
    assert [one.ref for one in FactsLane(here.facts).search("網關退役了嗎", 5, scope=None, now_ms=now).candidates] == [
        made.id
    ]


TEXT = """We agreed: entity:gateway uses entity:lancedb.
entity:gateway state retired.
entity:gateway runs_on Linux
the gateway uses redis
entity:gateway likes tea
entity:gateway configured_as port 80 """


def test_proposals_are_explicit_triples_and_write_nothing() -> None:
    assert triples(TEXT) == [
        ("entity:gateway", "uses", "entity:lancedb"),
        ("entity:gateway", "status", "retired"),
        ("entity:gateway", "uses", "Linux"),
        ("entity:gateway", "configured_as", "port 80"),
    ]
    made = propose(TEXT, ["doc:notes.md"], most=2)
    assert (made["proposal_count"], made["writes_performed"], made["review_required"]) == (2, False, True)
    assert made["proposals"][0]["object"] == {"type": "entity_ref", "value": "entity:lancedb"}
    assert {one["writes_performed"] for one in made["proposals"]} == {False}
    with pytest.raises(UnusableInput, match="missing_source_refs"):
        propose(TEXT, [])


def test_proposals_are_measured_against_golden_triples(tmp_path: Path) -> None:
    corpus, golden = tmp_path / "c.jsonl", tmp_path / "g.jsonl"
    corpus.write_text(json.dumps({"text": TEXT}) + "\n")
    expected = [
        ("gateway", "uses", "entity:lancedb"),
        ("entity:gateway", "state", "retired"),
        ("choir", "uses", "mill"),
    ]
    rows = [{"subject": a, "predicate": b, "object": c} for a, b, c in expected]
    golden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert measure(corpus, golden, most=1)["counts"]["proposed"] == 1
    result = measure(corpus, golden)
    assert result["counts"] == {
        "golden": 3, "proposed": 4, "truePositive": 2, "falsePositive": 2, "falseNegative": 1,
    }  # fmt: skip
    assert (result["precision"], result["recall"]) == (0.5, pytest.approx(2 / 3))
    for line, message in (
        ('{"subject": "a"}', "predicate: expected a string, found null"),
        ('{"subject": "a", "predicate": "usesq"}', "unknown predicate 'usesq'; did you mean uses"),
        ('{"subject": " ", "predicate": "uses"}', "the name of an entity is blank"),
    ):
        golden.write_text(f"\n{line}\n")
        with pytest.raises(UnusableInput, match=rf"g.jsonl:2: {message}"):
            measure(corpus, golden)


def test_reviewed_proposals_are_claims(tmp_path: Path) -> None:
    proposals = propose(TEXT, ["obs:1", "doc:a.md#top"])["proposals"]
    reviewed = [{**one, "valid_from": "2026-11-01", "assertion_ref": "note:r"} for one in proposals[:2]]
    reviewed.append(
        {**reviewed[0], "subject": "kitchen", "predicate": "config", "object": {"type": "json", "value": [1]}}
    )
    path = tmp_path / "claims.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in reviewed))
    first, _, third = claims_in(path)
    assert (first.subject, first.label, first.value) == ("entity:gateway", "gateway", "entity:lancedb")
    assert (first.sources, first.assertion) == (("obs:1", "doc:a.md#top"), "note:r")
    assert (third.subject, third.type, third.value, third.label) == ("kitchen", "json", "[1]", None)
    path.write_text(json.dumps({**reviewed[0], "assertion_ref": None}) + "\n")
    with pytest.raises(UnusableInput, match=r"claims.jsonl:1: has no assertion_ref"):
        claims_in(path)


def test_line_of_many_subjects_has_its_triples_in_linear_time() -> None:
    assert triples("entity:" * 20_000 + "\nso entity:a uses b") == [("entity:a", "uses", "b")]


def test_lane_with_an_unreadable_ledger_names_it_and_keeps_the_rest(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.add(claim())
    kept = here.add(claim("redis", predicate="uses", sources=("doc:a.md",)))
    here.ledger.write_text("no ledger")
    found = FactsLane(here.facts, here.ledger, here.root).search("gateway", 5, scope=None, now_ms=LATER)
    assert [one.ref for one in found.candidates] == [kept.id]
    assert found.reason == (f"{here.ledger} cannot be read, so that facts with sources in it are left out")


def test_lane_says_that_facts_have_no_scopes(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.add(claim())
    found = FactsLane(here.facts, here.ledger, here.root).search("gateway", 5, scope="ops", now_ms=LATER)
    assert (len(found.candidates), found.reason) == (1, "no_scopes_all_searched")
