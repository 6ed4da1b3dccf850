"""Tests of writing, comparing, splitting and judging golden sets, without a terminal or a replay."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json_lines
from lab.golden.files import golden_bytes, read_golden, write_new
from lab.golden.judging import Decision, Judging, aside, open_judging, side_file
from lab.golden.model import Change, GoldenSet, Judgement, Probe, differences, split
from lab.golden.pool import Pool, Pooled, PooledTurn, read_pool

A, B, C = "c/s1/t1#0", "c/s1/t1#1", "c/s1/t3#0"
FIRST, SECOND = "c/s1/t5", "c/s2/t1"
POOL = Pool(
    *(6, ("hybrid", "bm25"), 0, "mine.jsonl", "lab", "recorded", None, "none", "abc"),
    (
        PooledTurn(FIRST, (Pooled(A, {"hybrid": 1}), Pooled(B, {"bm25": 2, "hybrid": 2}))),
        PooledTurn(SECOND, (Pooled(B, {"hybrid": 1}), Pooled(C, {"bm25": 1}))),
    ),
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "gold.jsonl"


def _shipped(operators: Path) -> GoldenSet:
    return read_golden(operators.parents[1] / "golden" / operators.name)


def test_golden_bytes_reads_back_equal(operators: Path, out: Path) -> None:
    probes = (*_shipped(operators).probes, Probe("q1", "two", None, "Which port?", (Judgement("two/s/t#0", 2, "p"),)))
    out.write_bytes(golden_bytes(probes))
    assert read_golden(out).probes == probes


def test_write_new_never_overwrites_other_content(out: Path) -> None:
    write_new(out, b"one\n")
    write_new(out, b"one\n")
    with pytest.raises(UnusableInput, match="already exists with other content"):
        write_new(out, b"two\n")
    assert out.read_bytes() == b"one\n"


def _set(*probes: Probe) -> GoldenSet:
    return GoldenSet(probes)


def test_differences_cover_grades_and_types_but_not_reasons() -> None:
    one = Probe(FIRST, "c", FIRST, None, (Judgement(A, 2, "x"), Judgement(B, 1)), slices={"type": "todo"})
    two = Probe(SECOND, "c", SECOND, None, (), (Judgement(C),))
    new = Probe("c/s2/t3", "c", "c/s2/t3", None, ())
    assert not differences(_set(one, two), _set(one, two))
    reworded = differences(_set(one), _set(replace(one, reason="why not")))
    assert (bool(reworded), reworded.reworded) == (False, 1)
    later = replace(one, relevant=(Judgement(A, 1),), forbidden=(Judgement(C),), slices={"type": "update"})
    found = differences(_set(one, two), _set(later, new))
    assert (found.added, found.removed, found.reworded) == (("c/s2/t3",), (SECOND,), 0)
    assert found.changes == (
        Change(FIRST, A, "2", "1"),
        Change(FIRST, B, "1", "–"),
        Change(FIRST, C, "–", "forbidden"),
    )
    assert found.retyped == (Change(FIRST, "type", "todo", "update"),)
    assert bool(differences(_set(one), _set(replace(one, slices={"type": "update"}))))
    planted = replace(one, slices={"type": "todo", "condition": "absent"})
    assert differences(_set(one), _set(planted)).retyped == ((FIRST, "condition", "–", "absent"),)
    with pytest.raises(UnusableInput, match="occurs twice"):
        differences(_set(one, one), _set(one))


def test_differences_count_irrelevant_memories_apart() -> None:
    one = Probe(FIRST, "c", FIRST, None, (Judgement(A, 2, "x"),), irrelevant=(B,))
    later = replace(one, relevant=(Judgement(B, 1),), irrelevant=(A, C))
    found = differences(_set(one), _set(later))
    assert found.changes == (Change(FIRST, A, "2", "0"), Change(FIRST, B, "0", "1"))
    assert found.graded_zero == (Change(FIRST, C, "–", "0"),)
    only_zero = differences(_set(one), _set(replace(one, irrelevant=())))
    assert (bool(only_zero), only_zero.changes, only_zero.graded_zero) == (True, (), ((FIRST, B, "0", "–"),))
    assert only_zero.as_json()["graded_zero"] == [{"probe": FIRST, "what": B, "before": "0", "after": "–"}]


def test_differences_changed_query_is_a_change() -> None:
    one = Probe("q1", "c", None, "Which port?", ())
    found = differences(_set(one), _set(replace(one, conversation="d", query="Which host?")))
    assert found.changes == (
        Change("q1", "conversation", "c", "d"),
        Change("q1", "query", "Which port?", "Which host?"),
    )


def test_split_keeps_conversations_and_nests_shares(operators: Path) -> None:
    golden = _shipped(operators)
    names = {probe.conversation for probe in golden.probes}
    inside: set[str] = set()
    for share in (0.25, 0.5, 0.75):
        dev, test = split(golden, share, seed=3)
        mine, other = ({probe.conversation for probe in half.probes} for half in (dev, test))
        assert (mine | other, mine & other, len(mine)) == (names, set(), round(share * len(names)))
        assert Counter(map(id, (*dev.probes, *test.probes))) == Counter(map(id, golden.probes))
        assert inside < mine
        inside = mine
    assert split(golden, 0.5, seed=3) == split(golden, 0.5, seed=3) != split(golden, 0.5, seed=4)
    assert len({probe.conversation for probe in split(golden, 0.01, 0)[0].probes}) == 1
    for share, why in ((0.0, "not between"), (1.0, "not between")):
        with pytest.raises(UnusableInput, match=why):
            split(golden, share, 0)
    with pytest.raises(UnusableInput, match="needs at least two"):
        split(GoldenSet(golden.of(min(names))), 0.5, 0)


def test_read_pool_matches_the_written_pool(tmp_path: Path) -> None:
    path = tmp_path / "pool.jsonl"
    path.write_bytes(POOL.as_bytes())
    assert read_pool(path) == POOL
    path.write_bytes(replace(POOL, memories_from="store").as_bytes())
    assert read_pool(path).memories_from == "store"
    for line, why in (
        ('{"kind": "probe"}', "is not a pool"),
        ('{"kind": "pool", "schema": "lab.pool.v9"}', "reads lab.pool.v1"),
        (POOL.as_bytes().decode().split("\n")[0] + '\n{"kind": "turn", "turn": "x", "items": [1]}', ":2: each item is"),
        (POOL.as_bytes().decode().replace('{"hybrid": 1}', "3"), ":2: each item is"),
        (POOL.as_bytes().decode().split("\n")[0], "has no turn to judge"),
        (POOL.as_bytes().decode().replace(SECOND, FIRST), f"turn {FIRST} occurs twice"),
    ):
        path.write_text(line + "\n", encoding="utf-8")
        with pytest.raises(UnusableInput, match=why):
            read_pool(path)


def test_judging_only_done_turns_become_probes(out: Path) -> None:
    judging = open_judging(POOL, out, "ann")
    for decision in (
        Decision(FIRST, "grade", A, "1"),
        Decision(FIRST, "grade", A, "2"),
        Decision(FIRST, "note", A, "the port"),
        Decision(FIRST, "add", C),
        Decision(FIRST, "grade", C, "f"),
        Decision(FIRST, "reason", value="asks for the port"),
        Decision(SECOND, "grade", B, "1"),
    ):
        judging.decide(decision)
    assert read_golden(out).probes == ()
    judging.decide(Decision(FIRST, "done", value="identifier"))
    (probe,) = read_golden(out).probes
    assert probe == Probe(
        *(FIRST, "c", FIRST, None, (Judgement(A, 2, "the port"),), (Judgement(C),)),
        {"type": "identifier"},
        "asks for the port",
    )
    header = json.loads(side_file(out).read_text("utf-8").split("\n")[0])
    assert (header["judge"], header["unjudged"]) == ("ann", {FIRST: [B]})
    progress = judging.progress()
    assert (progress["done"], progress["open"], progress["unjudged"], progress["judgements"]) == (1, 1, 1, 2)
    judging.decide(Decision(FIRST, "rest", refused=(B,)))
    judging.decide(Decision(FIRST, "grade", B, "1"))
    judging.decide(Decision(FIRST, "grade", A, "1"))
    judging.decide(Decision(FIRST, "grade", B, "2"))
    # Grade 2 comes before grade 1, whatever the order of the pool, and no memory is left unjudged.
    assert list(read_golden(out).probes[0].grades.items()) == [(B, 2), (A, 1)]
    assert json.loads(side_file(out).read_text("utf-8").split("\n")[0])["unjudged"] == {}


def test_judging_grading_a_skipped_turn_reopens_it(out: Path) -> None:
    judging = Judging(POOL, out, "ann")
    judging.decide(Decision(FIRST, "skip"))
    judging.decide(Decision(FIRST, "grade", A, "2"))
    assert judging.sheet(FIRST).state == "open"


def test_judging_undo_reverts_the_last_decision(out: Path) -> None:
    judging = Judging(POOL, out, "ann")
    judging.decide(Decision(FIRST, "grade", A, "f"))
    before = judging.sheet(FIRST)
    judging.decide(Decision(FIRST, "nothing", refused=(B,)))
    assert (judging.sheet(FIRST).state, judging.sheet(FIRST).marks) == ("done", {A: "f", B: "0"})
    assert len(read_golden(out).probes) == 1
    assert judging.undo() == Decision(FIRST, "nothing", refused=(B,))
    assert judging.sheet(FIRST) == before
    assert read_golden(out).probes == ()
    assert judging.undo()
    assert judging.undo() is None


def test_open_judging_resumes_without_golden_set(out: Path) -> None:
    judging = open_judging(POOL, out, "ann")
    judging.decide(Decision(FIRST, "grade", A, "2"))
    judging.decide(Decision(FIRST, "done", value="todo"))
    written = out.read_bytes()
    out.write_bytes(b"")  # as if killed between the two writes
    again = open_judging(POOL, out, "ann")
    again.save()
    assert (again.decisions, out.read_bytes()) == (judging.decisions, written)


def test_open_judging_larger_pool_leaves_new_items_unjudged(out: Path) -> None:
    open_judging(POOL, out, "ann").decide(Decision(FIRST, "nothing", refused=(A, B)))
    deeper = replace(POOL, turns=(PooledTurn(FIRST, (*POOL.turns[0].items, Pooled(C, {}))), *POOL.turns[1:]))
    again = open_judging(deeper, out, "ann")
    again.save()
    assert again.sheet(FIRST).unjudged == [C]
    assert aside(out).unjudged == {FIRST: {C}}
    assert aside(out).refused == {FIRST: {A, B}} == aside(out.parent).refused
    # The golden set alone says what was judged: the new memory was not.
    assert read_golden(out).probes[0].irrelevant == (A, B)


def test_open_judging_golden_set_of_an_older_version_gains_grades_of_0(out: Path) -> None:
    judging = open_judging(POOL, out, "ann")
    judging.decide(Decision(FIRST, "nothing", refused=(A, B)))
    new = out.read_bytes()
    older = golden_bytes([replace(probe, irrelevant=()) for probe in read_golden(out).probes])
    out.write_bytes(older)
    header, rest = side_file(out).read_bytes().split(b"\n", 1)
    states = [sha256(data).hexdigest() for data in (b"", older)]
    side_file(out).write_bytes(dump_json(json.loads(header) | {"golden": states}, indent=None) + rest)
    open_judging(POOL, out, "ann").save()
    assert (out.read_bytes(), new != older) == (new, True)


def test_open_judging_shallower_pool_keeps_grades(out: Path) -> None:
    judging = open_judging(POOL, out, "ann")
    judging.decide(Decision(FIRST, "grade", B, "2"))
    judging.decide(Decision(FIRST, "done", value="todo"))
    before = out.read_bytes()
    shallow = replace(POOL, turns=(PooledTurn(FIRST, POOL.turns[0].items[:1]), *POOL.turns[1:]))
    again = open_judging(shallow, out, "ann")
    again.save()
    assert (again.sheet(FIRST).items, out.read_bytes()) == ([A, B], before)


def test_open_judging_edited_golden_set_is_refused(out: Path) -> None:
    judging = open_judging(POOL, out, "ann")
    judging.decide(Decision(FIRST, "nothing", refused=(A, B)))
    kept, older = out.read_bytes(), side_file(out).read_bytes()
    judging.decide(Decision(SECOND, "nothing", refused=(B, C)))
    out.write_bytes(kept)  # as if killed between the two writes
    assert len(open_judging(POOL, out, "ann").decisions) == 2
    edited = kept.replace(b'"reason": ""', b'"reason": "by hand"')
    out.write_bytes(edited)
    with pytest.raises(UnusableInput, match="was edited after judging"):
        open_judging(POOL, out, "ann")
    assert (out.read_bytes(), kept != edited) == (edited, True)
    out.unlink()
    side_file(out).write_bytes(older)
    again = open_judging(POOL, out, "ann")
    again.save()
    assert out.read_bytes() == kept


def test_aside_merges_refusals_of_several_judges(tmp_path: Path) -> None:
    open_judging(POOL, tmp_path / "ann.jsonl", "ann").decide(Decision(FIRST, "grade", A, "0"))
    open_judging(POOL, tmp_path / "bob.jsonl", "bob").decide(Decision(FIRST, "rest", refused=(B,)))
    assert aside(tmp_path).refused == {FIRST: {A, B}}


def test_open_judging_foreign_work_is_refused(out: Path) -> None:
    open_judging(POOL, out, "ann").decide(Decision(SECOND, "skip"))
    with pytest.raises(UnusableInput, match="belongs to judge 'ann'"):
        open_judging(POOL, out, "bob")
    with pytest.raises(UnusableInput, match=f"judges {SECOND}, which is not in this pool"):
        open_judging(replace(POOL, turns=POOL.turns[:1]), out, "ann")
    side_file(out).unlink()
    with pytest.raises(UnusableInput, match=r"already exists, without gold\.judging"):
        open_judging(POOL, out, "ann")
    with pytest.raises(UnusableInput, match="must end in"):
        open_judging(POOL, out.with_suffix(".judging"), "ann")
    with pytest.raises(UnusableInput, match="must end in"):
        open_judging(POOL, out.with_suffix(".json"), "ann")  # its side file would be that of gold.jsonl


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"turn": FIRST, "what": "grade", "memory": A, "value": "3"}, "invalid decision: grade 3"),
        ({"turn": FIRST, "what": "love", "memory": A}, "invalid decision: love"),
        ({"turn": FIRST, "what": "grade", "value": "1"}, "a decision 'grade' must name a memory"),
        ({"turn": FIRST, "what": "skip", "memory": A}, "a decision 'skip' must not name a memory"),
        ({"what": "skip"}, "has no field 'turn'"),
    ],
)
def test_read_decisions_invalid_decision_names_line(out: Path, line: dict[str, str], why: str) -> None:
    Judging(POOL, out, "ann").save()
    side = side_file(out)
    side.write_text(side.read_text("utf-8") + json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(UnusableInput, match=rf"gold\.judging:2: .*{why}"):
        open_judging(POOL, out, "ann")
    assert len(list(read_json_lines(side))) == 2
