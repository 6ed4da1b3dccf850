"""Facts over time: assertion, supersession, what holds when, evidence, and the file that all is rebuilt from."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.errors import InUse, UnusableInput
from lab.base.files import only_writer
from lab.memory.facts import store
from lab.memory.facts.asserting import Claim, assert_facts, fact_of, invalidate
from lab.memory.facts.model import LITERAL, Fact, Object, Reference, entity, source_of, utc
from lab.memory.facts.sources import Sources
from lab.memory.facts.store import rebuild, view_bytes, view_path
from lab.memory.facts.view import View, current, lint
from lab.memory.ledger.ledger import stamp
from lab.memory.ledger.use import move, use
from tests.memory.facts.stores import NOW, Place, claim, place


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def held(here: Place, time: str, **options: bool) -> list[tuple[str, str]]:
    """Return values and statuses of what holds of the gateway at a time."""
    found = current(here.view.of("entity:gateway"), utc(time, "time"), here.sources, **options)
    return [(fact.object.value, status) for fact, status in found.facts]


def reasons(here: Place, time: str, **options: bool) -> list[str]:
    found = current(here.view.of("entity:gateway"), utc(time, "time"), here.sources, **options)
    return [one.reason for one in found.excluded]


def superseded(here: Place) -> tuple[Fact, Fact]:
    """Assert a status and another one that supersedes it."""
    old = here.add(claim())
    return old, here.add(claim("retired", "2026-11-05", sources=("obs:2",), supersedes=(old.id,)))


def test_fact_id_is_the_one_of_the_public_sidecar(here: Place) -> None:
    made = here.add(claim(sources=("obs:1", "doc:a.md"), assertion="obs:1"))
    assert made.id == made.own_id == "fact_24c22a90f6480dc47c4a"


def test_superseding_fact_ends_the_old_one_when_it_begins(here: Place) -> None:
    old, new = superseded(here)
    assert [(fact.id, fact.status, fact.valid_to, fact.superseded_by) for fact in here.view] == [
        (old.id, "superseded", "2026-11-05T00:00:00Z", (new.id,)),
        (new.id, "active", None, ()),
    ]
    assert held(here, "2026-11-06") == [("retired", "active")]
    assert held(here, "2026-11-05") == [("retired", "active")]
    assert held(here, "2026-11-04T23:59:59Z") == [("live", "superseded")]
    assert held(here, "2026-10-31") == []


def test_upstream_profile_never_returns_superseded_facts(here: Place) -> None:
    superseded(here)
    assert held(here, "2026-11-02", upstream=True) == []
    assert reasons(here, "2026-11-02", upstream=True) == ["non_current_status", "outside_interval"]


def test_correction_from_before_leaves_an_empty_interval(here: Place) -> None:
    old = here.add(claim())
    here.add(claim("retired", "2026-10-01", supersedes=(old.id,)))
    assert here.view.get(old.id) == replace(
        old, status="superseded", valid_to=old.valid_from, superseded_by=(here.view.of("entity:gateway")[0].id,)
    )
    assert held(here, "2026-11-02") == [("retired", "active")]


def test_invalidated_fact_holds_until_then_and_retracted_never(here: Place) -> None:
    made = here.add(claim())
    given = {"given": ("obs:2",), "assertion": "note:x", "now": NOW, "write": True}
    invalidate(here.facts, made.id, here.sources, at="2026-11-03", **given)
    assert (held(here, "2026-11-02"), held(here, "2026-11-03")) == ([("live", "invalidated")], [])
    invalidate(here.facts, made.id, here.sources, retract=True, **given)
    assert reasons(here, "2026-11-01") == ["outside_interval"]
    with pytest.raises(UnusableInput, match="is retracted already"):
        invalidate(here.facts, made.id, here.sources, retract=True, **given)
    here.add(claim("retired", "2026-11-05", supersedes=(made.id,)))
    assert [fact.status for fact in here.view] == ["retracted", "active"]
    assert len(store.read(here.facts).records) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predicate": "statu"}, "unknown predicate 'statu'; did you mean status\\? known: configured_as, decision"),
        ({"type": "json", "value": "{}"}, "object_type_mismatch: status takes an object of type literal"),
        ({"predicate": "config", "type": "json", "value": "{a"}, "the object is not JSON"),
        ({"predicate": "config", "type": "json", "value": "NaN"}, "the object is not JSON"),
        ({"value": "  "}, "the object is blank"),
        ({"subject": " "}, "the name of an entity is blank"),
        ({"subject": "!"}, "has no letter or digit"),
        ({"valid_from": "2026-11-05T09:30:00"}, "valid_from: .* names no time zone; end it with Z"),
        ({"valid_from": "yesterday"}, "valid_from: 'yesterday' is no ISO 8601 time"),
        ({"valid_from": "0001-01-01T00:00:00+14:00"}, "is no ISO 8601 time"),
        ({"valid_to": "2026-10-01"}, "interval_invalid"),
        ({"confidence": "sure"}, "confidence 'sure': expected low, source_capped"),
        ({"sources": ("doc:a.md",), "confidence": "corroborated"}, "these sources allow source_capped"),
        ({"sources": ()}, "missing_source_refs"),
        ({"sources": ("a.md",)}, "give obs:N, ep:ID or KIND:PATH"),
        ({"sources": ("blog:a.md",)}, "does not resolve \\(unsupported_kind\\)"),
        ({"sources": ("doc:none.md",)}, "does not resolve \\(file_missing\\)"),
        ({"sources": ("doc:.",)}, "does not resolve \\(not_a_file\\)"),
        ({"sources": ("obs:99",)}, "receipt:obs:99 does not resolve \\(observation_missing\\)"),
        ({"sources": ("obs:x",)}, "does not resolve \\(bad_observation_ref\\)"),
        ({"sources": ("obs:" + "9" * 30,)}, "does not resolve \\(bad_observation_ref\\)"),
        ({"sources": ("ep:none",)}, "does not resolve \\(episode_missing\\)"),
        ({"assertion": " "}, "assertion '': give KIND:REF"),
        ({"assertion": "note"}, "assertion 'note': give KIND:REF, where it is recorded, such as note:review"),
        ({"assertion": "note:"}, "assertion 'note:': give KIND:REF"),
        ({"assertion": ":review"}, "assertion ':review': give KIND:REF"),
        ({"supersedes": ("fact_x",)}, "unresolved_supersedes: there is no fact fact_x"),
    ],
)
def test_assert_of_an_unsound_claim_names_the_defect(here: Place, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        here.add(claim(**changes))
    assert not here.facts.exists()


def test_assert_from_a_quarantined_row_is_refused(tmp_path: Path) -> None:
    here = place(tmp_path, ({"summary": "x", "detail": {"trust": "quarantined"}},))
    with pytest.raises(UnusableInput, match="quarantined_source: receipt:obs:1"):
        here.add(claim())


def test_overlapping_value_is_refused_unless_it_supersedes(here: Place) -> None:
    old, new = superseded(here)
    with pytest.raises(UnusableInput, match=f"single_value_interval_conflict: .* add --supersedes {new.id}"):
        here.add(claim("late", "2026-12-01"))
    with pytest.raises(UnusableInput, match=f"{old.id} holds from .* until 2026-11-05"):
        here.add(claim("late", "2026-11-02", valid_to="2026-11-03"))
    here.add(claim("early", "2026-10-01", valid_to="2026-11-01"))
    here.add(claim("a", predicate="uses"))
    here.add(claim("b", predicate="uses"))
    assert len(here.view) == 5


def test_fact_that_was_asserted_before_is_not_added_again(here: Place) -> None:
    made, data = here.add(claim()), here.facts.read_bytes()
    done = assert_facts(here.facts, [claim()], here.sources, now=NOW + timedelta(days=1), write=True)
    assert (done.facts, done.before, done.written) == ([], [made.id], False)
    assert here.facts.read_bytes() == data


def test_batch_with_an_unsound_claim_writes_nothing(here: Place) -> None:
    second = claim("retired")._replace(at="c.jsonl:2")
    with pytest.raises(UnusableInput, match=r"^c\.jsonl:2: single_value_interval_conflict"):
        assert_facts(here.facts, [claim(), second], here.sources, now=NOW, write=True)
    assert not here.facts.exists()


def test_assert_without_write_changes_no_file(here: Place) -> None:
    done = assert_facts(here.facts, [claim()], here.sources, now=NOW)
    assert (len(done.facts), done.written, here.facts.exists()) == (1, False, False)


def test_changed_missing_and_quarantined_sources_are_excluded(tmp_path: Path) -> None:
    here = place(tmp_path)
    here.add(claim("kept", predicate="uses"))
    here.add(claim("changed", predicate="uses", sources=("doc:a.md",)))
    here.add(claim("gone", predicate="uses", sources=("doc:b.md",)))
    here.add(claim("doubted", predicate="uses", sources=("obs:1", "obs:2")))
    (tmp_path / "a.md").write_text("other\n")
    (tmp_path / "b.md").unlink()
    with closing(sqlite3.connect(here.ledger)) as connection, connection:
        connection.execute('UPDATE observations SET detail_json = \'{"trust": "quarantined"}\' WHERE id = 2')
    assert held(here, "2026-11-02") == [("kept", "active")]
    assert {*reasons(here, "2026-11-02")} == {"stale_excluded", "sources_missing_excluded", "quarantined_excluded"}
    statuses = dict(held(here, "2026-11-02", include_stale=True))
    assert statuses == {"kept": "active", "changed": "stale", "gone": "dangling", "doubted": "quarantined"}
    unchecked = current(here.view.of("entity:gateway"), utc("2026-11-02", ""), Sources(None, tmp_path))
    assert {fact.object.value for fact, _ in unchecked.facts} == {"kept", "doubted"}


def test_use_and_archival_of_a_row_leave_its_facts_fresh(here: Place) -> None:
    here.add(claim())
    use(here.ledger, ["obs:1"], write=True, now=NOW)
    move(here.ledger, [1], "stale", reason="x", actor="me", write=True, now=NOW)
    assert held(here, "2026-11-02") == [("live", "active")]


def test_episode_is_a_source_with_a_digest(here: Place) -> None:
    from lab.base.sqlite import transaction
    from lab.memory.ledger.ledger import open_ledger

    with open_ledger(here.ledger, write=True) as connection, transaction(connection):
        connection.execute(
            "CREATE TABLE episodic_events (event_id TEXT, ts_ms INTEGER, scope TEXT, session_id TEXT, type TEXT, "
            "summary TEXT, payload_json TEXT)"
        )
        connection.execute("INSERT INTO episodic_events VALUES ('e1', 1, 's', 't', 'ops.decision', 'x', '{}')")
    here.add(claim(sources=("ep:e1",)))
    assert held(here, "2026-11-02") == [("live", "active")]
    with open_ledger(here.ledger, write=True) as connection, transaction(connection):
        connection.execute("UPDATE episodic_events SET summary = 'y'")
    assert held(here, "2026-11-02") == []


def test_rebuild_gives_the_view_byte_for_byte(here: Place) -> None:
    superseded(here)
    made = view_path(here.facts).read_bytes()
    assert rebuild(here.facts)["status"] == "same"
    view_path(here.facts).unlink()
    assert (rebuild(here.facts)["status"], rebuild(here.facts, write=True)["writes_performed"]) == ("missing", True)
    assert view_path(here.facts).read_bytes() == made == view_bytes(store.read(here.facts))
    view_path(here.facts).write_bytes(made[:-5])
    assert rebuild(here.facts, write=True)["status"] == "differs"
    assert view_path(here.facts).read_bytes() == made


def test_line_that_a_kill_cut_off_is_replaced(here: Place) -> None:
    old, new = superseded(here)
    whole = here.facts.read_bytes()
    for cut in (1, 5, len(whole) - whole.index(b"\n") - 2):
        here.facts.write_bytes(whole[:-cut])
        again = claim("retired", "2026-11-05", sources=("obs:2",), supersedes=(old.id,))
        assert_facts(here.facts, [again], here.sources, now=NOW, write=True)
        assert here.facts.read_bytes().rstrip(b"\n") == whole.rstrip(b"\n")
    assert [fact.id for fact in here.view] == [old.id, new.id]


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (b"{", "facts.jsonl:1: damaged, not one JSON object a line; restore the file from a copy"),
        (b"[]", "facts.jsonl:1: expected an object, found a list; restore"),
        (b"\xff", "facts.jsonl:1: damaged"),
        (b"[" * 100_000, "facts.jsonl:1: damaged"),
        (b'{"source_refs": []}', "facts.jsonl:1: has no field 'assertion_ref'"),
        (b"SQLite format 3\0", "facts.jsonl: is an SQLite database; name the file of assertions"),
    ],
)
def test_damaged_line_is_named_with_a_remedy(here: Place, damaged: bytes, message: str) -> None:
    superseded(here)
    lines = here.facts.read_bytes().split(b"\n")
    here.facts.write_bytes(b"\n".join([damaged, *lines[1:]]))
    with pytest.raises(UnusableInput, match=message):
        store.read(here.facts)


def test_unknown_status_in_a_file_is_named(here: Place) -> None:
    made = here.add(claim())
    invalidate(
        here.facts, made.id, here.sources, given=("obs:1",), assertion="note:x", retract=True, now=NOW, write=True
    )
    here.facts.write_text(here.facts.read_text().replace('"retracted"', '"retractd"'))
    with pytest.raises(UnusableInput, match=r"facts.jsonl:2: status 'retractd' is none of active, superseded, inv"):
        store.read(here.facts)


def test_naive_time_in_a_file_is_named(here: Place) -> None:
    here.add(claim())
    here.facts.write_bytes(here.facts.read_bytes().replace(b"2026-11-01T00:00:00Z", b"2026-11-01T00:00:00"))
    with pytest.raises(UnusableInput, match=r"facts.jsonl:1: valid_from: .* names no time zone"):
        store.read(here.facts)


def test_second_writer_is_refused(here: Place) -> None:
    with only_writer(here.facts.parent), pytest.raises(InUse):
        here.add(claim())


@pytest.mark.parametrize("seed", range(6))
def test_one_value_holds_at_a_time_whatever_is_asserted(tmp_path: Path, seed: int) -> None:
    here, draw = place(tmp_path), random.Random(seed)
    asserted = refused = 0
    for number in range(40):
        facts = list(here.view) if here.facts.exists() else []
        since, until = draw.randint(1, 28), draw.choice((None, draw.randint(1, 28)))
        made = claim(
            f"v{number}",
            f"2026-11-{since:02d}",
            valid_to=until and f"2026-11-{until:02d}",
            supersedes=tuple(fact.id for fact in draw.sample(facts, min(len(facts), draw.choice((0, 1, 3))))),
        )
        try:
            here.add(made)
            asserted += 1
        except UnusableInput:
            refused += 1
        if facts and draw.random() < 0.2:
            ended, at = draw.choice(facts).id, f"2026-11-{draw.randint(1, 28):02d}"
            with suppress(UnusableInput):
                invalidate(
                    here.facts, ended, here.sources, given=("obs:1",), assertion="note:x", at=at, now=NOW, write=True
                )
    assert asserted > 5
    assert refused > 5
    assert max(len(held(here, f"2026-11-{day:02d}")) for day in range(1, 31)) == 1
    assert lint(here.view, here.sources) == []


def test_current_with_cyclic_supersession_ends(here: Place) -> None:
    old, new = superseded(here)
    records = [replace(old, supersedes=(new.id,)), new]
    found = current(View(records).of("entity:gateway"), utc("2026-11-09", ""), here.sources)
    assert (found.facts, len(found.excluded)) == ([], 2)


def test_facts_in_any_order_give_the_same_view(here: Place) -> None:
    superseded(here)
    records = store.read(here.facts).records
    assert list(View(records)) == list(View(records[::-1]))


def test_names_of_any_script_stay_apart() -> None:
    assert entity("Gate way!") == "entity:gate-way"
    assert entity("網關") != entity("厨房")
    assert source_of("doc:a.md#top").token == "doc:a.md#top"


def test_stale_fact_that_is_asserted_again_is_renewed(here: Place) -> None:
    made = here.add(claim(sources=("doc:a.md",)))
    (here.root / "a.md").write_text("edited\n")
    assert held(here, "2026-11-02") == []
    done = assert_facts(here.facts, [claim(sources=("doc:a.md",))], here.sources, now=NOW, write=True)
    assert (done.facts, done.before, done.renewed, done.written) == ([], [made.id], [made.id], True)
    assert (held(here, "2026-11-02"), len(here.view)) == ([("live", "active")], 1)
    assert lint(here.view, here.sources) == []


def test_stale_fact_with_a_successor_is_not_renewed(here: Place) -> None:
    here.add(claim(sources=("doc:a.md",)))
    (here.root / "a.md").write_text("edited\n")
    here.add(claim("retired", "2026-11-05"))
    with pytest.raises(UnusableInput, match="is not renewed; assert a fact with a later --from and --supersedes fact_"):
        here.add(claim(sources=("doc:a.md",)))


def test_retracted_fact_that_is_asserted_again_stays_retracted(here: Place) -> None:
    old, new = superseded(here)
    given = {"given": ("obs:1",), "assertion": "note:x", "now": NOW, "write": True}
    invalidate(here.facts, old.id, here.sources, retract=True, **given)
    done = assert_facts(here.facts, [claim()], here.sources, now=NOW, write=True)
    assert (done.retracted, done.written) == ([old.id], False)
    assert invalidate(here.facts, new.id, here.sources, retract=True, **given)["restored"] == []


def test_fact_holds_again_when_its_successor_is_retracted(here: Place) -> None:
    old, new = superseded(here)
    given = {"given": ("obs:1",), "assertion": "note:x", "now": NOW, "write": True}
    assert invalidate(here.facts, new.id, here.sources, retract=True, **given)["restored"] == [old.id]
    assert held(here, "2026-11-09") == [("live", "active")]


def test_successor_of_a_retracted_fact_ends_what_that_superseded(here: Place) -> None:
    _, middle = superseded(here)
    here.add(claim("sold", "2026-11-09", supersedes=(middle.id,)))
    given = {"given": ("obs:1",), "assertion": "note:x", "now": NOW, "write": True}
    assert invalidate(here.facts, middle.id, here.sources, retract=True, **given)["restored"] == []
    assert (held(here, "2026-11-08"), held(here, "2026-11-09")) == ([("live", "superseded")], [("sold", "active")])
    assert lint(here.view, here.sources) == []


@pytest.mark.parametrize("changes", [{"subject": "billing"}, {"predicate": "uses"}])
def test_fact_of_something_else_cannot_be_superseded(here: Place, changes: dict[str, str]) -> None:
    old = here.add(claim())
    with pytest.raises(UnusableInput, match=f"foreign_supersedes: {old.id} says entity:gateway status, not"):
        here.add(claim("retired", supersedes=(old.id,), **changes))


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("2026-12-01", "ended at 2026-11-05T00:00:00Z already; nothing changes"),
        ("2026-11-05", "ended at 2026-11-05T00:00:00Z already; nothing changes"),
        ("2026-11-01", "begins at 2026-11-01T00:00:00Z; give a later --at, or --retract"),
        ("2020-09-01", "begins at 2026-11-01T00:00:00Z; give a later --at, or --retract"),
    ],
)
def test_fact_is_not_ended_outside_its_interval(here: Place, at: str, message: str) -> None:
    old, _ = superseded(here)
    data = here.facts.read_bytes()
    with pytest.raises(UnusableInput, match=message):
        invalidate(here.facts, old.id, here.sources, given=("obs:1",), assertion="note:x", at=at, now=NOW, write=True)
    assert here.facts.read_bytes() == data


@pytest.mark.parametrize("ends", ["2100-01-01", None])
def test_claim_is_compared_with_no_fact_that_ended_before_it(
    here: Place, monkeypatch: pytest.MonkeyPatch, ends: str | None
) -> None:
    """Each of a subject's values supersedes the one before, which would end years later or never."""
    compared = 0

    def overlaps(fact: Fact, other: Fact) -> bool:
        nonlocal compared
        compared += 1
        return _overlaps(fact, other)

    _overlaps = Fact.overlaps
    monkeypatch.setattr(Fact, "overlaps", overlaps)
    claims: list[Claim] = []
    before: tuple[str, ...] = ()
    for day in range(1, 29):
        claims.append(claim(f"value {day}", f"2026-02-{day:02}", valid_to=ends, supersedes=before))
        before = (fact_of(claims[-1], here.sources, stamp(NOW), "operator").id,)
    assert len(assert_facts(here.facts, claims, here.sources, now=NOW, write=True).facts) == 28
    assert compared == 27
    with pytest.raises(UnusableInput, match="single_value_interval_conflict"):
        here.add(claim("another", "2026-02-03"))


_DAYS = st.integers(1, 9)
_BARE = Fact(
    *("", "entity:gateway", "gateway", "status", Object(LITERAL, "live"), "", None, "active", "low", ()),
    *(Reference("note", "x"), (), (), "2026-11-23T12:00:00Z", "operator", {}),
)


@given(st.lists(st.tuples(_DAYS, st.none() | _DAYS, st.integers(0, 20)), max_size=12))
def test_rivals_are_the_facts_whose_intervals_overlap(drawn: list[tuple[int, int | None, int]]) -> None:
    view = View(())
    for number, (begins, ends, old) in enumerate(drawn):
        end = None if ends is None else f"2026-11-0{ends}"
        supersedes = (f"fact_{old}",) if old < number else ()
        fact = replace(_BARE, id=f"fact_{number}", valid_from=f"2026-11-0{begins}", valid_to=end, supersedes=supersedes)
        everything = view.of(fact.subject, fact.predicate)
        assert view.rivals(fact) == [other for other in everything if fact.overlaps(other)]
        view.add(fact)
