"""Made-up fact sets without a defect, and the same with one defect of each code, for the tests of the lint."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lab.memory.facts import store
from lab.memory.facts.asserting import Claim, assert_facts, invalidate
from lab.memory.facts.model import ACTIVE, PREDICATES, Fact, Object, Record, Source
from lab.memory.facts.view import CODES, View
from tests.memory.facts.stores import NOW, Place, place

ROWS, QUARANTINED = 40, 5
SUBJECTS = ("gateway", "kitchen", "choir", "ledger", "網關")
SINGLE = [name for name, predicate in PREDICATES.items() if predicate.is_single]
MULTI = [name for name, predicate in PREDICATES.items() if not predicate.is_single]
Defect = Callable[[list[Record], random.Random], str]


def clean(folder: Path, seed: int) -> Place:
    """Return a made-up set of facts without a defect: chains of values, several values, ends, and all kinds of sources.

    The last rows of its ledger are quarantined, and no fact names them.
    """
    draw = random.Random(seed)
    rows = [{"summary": f"row {number}"} for number in range(ROWS)]
    here = place(folder, [*rows, *({"summary": "x", "detail": {"trust": "quarantined"}} for _ in range(QUARANTINED))])
    for subject in draw.sample(SUBJECTS, 3):
        for predicate in draw.sample(SINGLE, 2):
            day, previous = draw.randint(1, 9), ()
            for _ in range(draw.randint(1, 4)):
                made = here.add(_claim(draw, subject, predicate, day, previous))
                previous, day = (made.id,), day + draw.randint(1, 5)
            if draw.random() < 0.3:
                end = {"given": ("obs:1",), "assertion": "note:end", "at": "2026-12-01", "now": NOW, "write": True}
                invalidate(here.facts, made.id, here.sources, **end)
        claims = [_claim(draw, subject, draw.choice(MULTI), draw.randint(1, 25)) for _ in range(4)]
        assert_facts(here.facts, claims, here.sources, now=NOW + timedelta(seconds=1), write=True)
    return here


def _claim(draw: random.Random, subject: str, predicate: str, day: int, supersedes: tuple[str, ...] = ()) -> Claim:
    kind = draw.choice(PREDICATES[predicate].objects)
    value = {"json": f'{{"n": {draw.randint(0, 10**9)}}}'}.get(kind, f"value {draw.randint(0, 10**9)}")
    sources, highest = draw.choice(
        (
            ((f"obs:{draw.randint(1, ROWS)}",), "operator_asserted"),
            (("doc:a.md", "memory:b.md#part"), "corroborated"),
            (("daily_log:b.md",), "source_capped"),
        )
    )
    confidence = draw.choice(("low", "source_capped", highest))
    since = f"2026-11-{day:02d}T{draw.randint(0, 23):02d}:00:00Z"
    return Claim(subject, predicate, value, since, sources, "note:x", kind, None, confidence, supersedes)


def seeded(here: Place, code: str, seed: int) -> tuple[list[Record], str]:
    """Return the records of a clean set with one defect of a code, and the id of the fact that has it."""
    records = list(store.read(here.facts).records)
    return records, DEFECTS[code](records, random.Random(seed))


def _changed(records: list[Record], draw: random.Random, change: Callable[[Fact], Fact], *, own_id: bool = True) -> str:
    """Change a random active fact that nothing supersedes, give it the id of its content, and return that."""
    view = View(records)
    facts = [record for record in records if isinstance(record, Fact)]
    old = draw.choice([fact for fact in facts if (now := view.get(fact.id)) and now.status == ACTIVE])
    new = change(old)
    new = replace(new, id=new.own_id) if own_id else new
    records[records.index(old)] = new
    return new.id


def _of_sources(*sources: Source, confidence: str = "low") -> Defect:
    def defect(records: list[Record], draw: random.Random) -> str:
        return _changed(records, draw, lambda fact: replace(fact, sources=sources, digests={}, confidence=confidence))

    return defect


def _of(**changes: object) -> Defect:
    return lambda records, draw: _changed(records, draw, lambda fact: replace(fact, **changes))


def _conflict(records: list[Record], draw: random.Random) -> str:
    """Add a second value to a single-valued predicate in the time of the first."""
    view = View(records)
    old = draw.choice([fact for fact in view if fact.predicate in SINGLE and fact.status == ACTIVE])
    new = replace(old, object=Object("literal", "rival"), supersedes=(), superseded_by=(), valid_to=None)
    new = replace(new, created_at="2026-12-31T00:00:00Z")
    records.append(replace(new, id=new.own_id))
    return old.id


def _cycle(records: list[Record], draw: random.Random) -> str:
    """Let a fact supersede the one that supersedes it."""
    facts = {record.id: record for record in records if isinstance(record, Fact)}
    new = draw.choice([fact for fact in facts.values() if fact.supersedes])
    old = facts[new.supersedes[0]]
    records[records.index(old)] = replace(old, supersedes=(new.id,))
    return old.id


def _foreign(records: list[Record], draw: random.Random) -> str:
    """Let a fact supersede one of another subject or predicate."""
    facts = list(View(records))

    def change(fact: Fact) -> Fact:
        others = [one.id for one in facts if (one.subject, one.predicate) != (fact.subject, fact.predicate)]
        return replace(fact, supersedes=(draw.choice(others),))

    return _changed(records, draw, change)


DEFECTS: dict[str, Defect] = {
    "unknown_predicate": _of(predicate="likes"),
    "object_type_mismatch": _of(predicate="status", object=Object("json", {"a": 1})),
    "missing_source_refs": _of_sources(),
    "interval_invalid": _of(valid_to="2026-10-01T00:00:00Z"),
    "dangling_source_ref": _of_sources(Source("receipt", "obs:999")),
    "quarantined_source": _of_sources(Source("receipt", f"obs:{ROWS + 1}")),
    "confidence_exceeds_source_cap": _of_sources(Source("doc", "a.md"), confidence="corroborated"),
    "stale_source": lambda records, draw: _changed(
        records, draw, lambda fact: replace(fact, digests=dict.fromkeys(fact.digests, "0" * 64))
    ),
    "unresolved_supersedes": _of(supersedes=("fact_00000000000000000000",)),
    "foreign_supersedes": _foreign,
    "cyclic_supersedes": _cycle,
    "single_value_interval_conflict": _conflict,
    "id_mismatch": lambda records, draw: _changed(
        records, draw, lambda fact: replace(fact, object=Object("literal", "edited by hand")), own_id=False
    ),
}
assert DEFECTS.keys() == CODES.keys()
