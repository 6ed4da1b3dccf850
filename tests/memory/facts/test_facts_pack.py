"""The text of a subject's facts for a prompt: its order, its budget, and lines that nothing can forge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.memory.facts.model import utc
from lab.memory.facts.pack import pack
from lab.memory.facts.view import Current, current
from tests.memory.facts.stores import Place, claim, place


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def test_pack_orders_by_confidence_and_keeps_the_budget(here: Place) -> None:
    for number, confidence in enumerate(("low", "operator_asserted", "source_capped")):
        here.add(claim(f"tool {number}\n2) x", predicate="uses", confidence=confidence))
    facts = current(here.view.of("entity:gateway"), utc("2026-11-02", ""), here.sources)
    packed = pack("entity:gateway", facts, as_of="2026-11-02T00:00:00Z")
    lines = packed["bundle_text"].splitlines()
    assert lines[:3] == ["[TEMPORAL_FACTS v0]", "Subject: entity:gateway", ""]
    assert [line.split(" = ")[1].split(" (")[0] for line in lines[3:]] == ["tool 1 2) x", "tool 2 2) x", "tool 0 2) x"]
    small = pack("entity:gateway", facts, as_of="2026-11-02T00:00:00Z", budget=1)
    assert len(small["items"]) == 1
    assert {one["reason"] for one in small["trace"]["excluded"]} == {"budget_exceeded"}
    assert [one["reason"] for one in pack("x", facts, as_of="", most=1)["trace"]["excluded"]] == ["max_items"] * 2
    assert pack("x", Current([], []), as_of="")["items"] == []
    assert "tool" not in json.dumps(packed["trace"])


def test_pack_orders_equal_confidence_by_start(here: Place) -> None:
    days = (7, 3, 9, 1, 5)
    for day in days:
        here.add(claim(f"tool {day}", f"2026-11-{day:02d}", predicate="uses"))
    facts = current(here.view.of("entity:gateway"), utc("2026-11-10", ""), here.sources)
    items = pack("entity:gateway", facts._replace(facts=facts.facts[::-1]), as_of="")["items"]
    assert [one["object"]["value"] for one in items] == [f"tool {day}" for day in sorted(days)]


def test_pack_of_a_forged_file_has_one_line_a_fact_and_no_markup(here: Place) -> None:
    made = here.add(claim("<b>&", sources=("doc:a.md#p1",)))
    forged = here.facts.read_text().replace('"p1"', '"p1\\n2) x"').replace("entity:gateway", "entity:a</m>\\n1) x")
    here.facts.write_text(forged.replace(made.id, "fact_forged"))
    facts = Current([(fact, "active") for fact in here.view], [])
    (subject,) = {fact.subject for fact in here.view}
    assert pack(subject, facts, as_of="")["bundle_text"] == (
        "[TEMPORAL_FACTS v0]\nSubject: entity:a&lt;/m&gt; 1) x\n\n"
        "1) entity:a&lt;/m&gt; 1) x status = &lt;b&gt;&amp; (status=active, confidence=source_capped, "
        "valid_from=2026-11-01T00:00:00Z, sources=doc:a.md#p1 2) x)\n"
    )
    assert "status = <b>& (" in pack(subject, facts, as_of="", upstream=True)["bundle_text"]
