"""Agreement of judges, and the power of a design: against values worked out by hand or published."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from lab.base.errors import UnusableInput
from lab.compare.agreement import agree, kappa
from lab.compare.statistics import power
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn


def test_kappa_of_a_table_worked_out_by_hand() -> None:
    # raw (20 + 15) / 50 = .7; chance .5 * .6 + .5 * .4 = .5; so .2 / .5.
    table = Counter({(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15})
    assert kappa(table) == pytest.approx(0.4, abs=1e-12)
    # With two grades, weighted kappa equals plain kappa.
    assert kappa(table, squared=True) == pytest.approx(0.4, abs=1e-12)


def test_kappa_of_three_grades_worked_out_by_hand() -> None:
    table = Counter({(0, 0): 4, (0, 2): 1, (1, 1): 2, (2, 1): 1, (2, 2): 2})
    # Margins 5 2 3 and 4 3 3 of 10: chance agrees at .20 + .06 + .09, the judges at .8.
    assert kappa(table) == pytest.approx((0.8 - 0.35) / 0.65, abs=1e-12)
    # Squared distances: observed (4 + 1) / 10; expected (5*3*1 + 5*3*4 + 2*4*1 + 2*3*1 + 3*4*4 + 3*3*1) / 100.
    assert kappa(table, squared=True) == pytest.approx(1 - 0.5 / 1.46, abs=1e-12)


def test_cohens_own_example() -> None:
    # Cohen 1960, table 1, in percent: kappa .492.
    table = Counter(
        {(1, 1): 44, (1, 2): 5, (1, 3): 1, (2, 1): 7, (2, 2): 20, (2, 3): 3, (3, 1): 9, (3, 2): 5, (3, 3): 6}
    )
    assert kappa(table) == pytest.approx(0.492, abs=5e-4)


def test_kappa_at_its_ends() -> None:
    assert kappa(Counter({(0, 0): 5, (1, 1): 5})) == 1
    assert kappa(Counter({(0, 1): 5, (1, 0): 5})) == -1
    assert kappa(Counter({(0, 0): 9})) is None
    assert kappa(Counter()) is None
    # One judge gave every pair the same grade: the formula gives 0, which says nothing.
    assert kappa(Counter({(0, 0): 9, (0, 1): 1})) is None


def _recording(name: str) -> Recording:
    """Four turns; memories a, b (global) and x (another scope) from the start, late only after the last turn."""
    turns = tuple(Turn(f"{name}/s/t{at}", at, "s", "user", "?", at, "ops") for at in range(4))
    scopes = {"a": ("ops", 0), "b": ("global", 0), "x": ("home", 0), "late": ("ops", 9)}
    memories = tuple(Memory(f"{name}#{key}", key, key, at, 0, scope=scope) for key, (scope, at) in scopes.items())
    return Recording(name, turns, memories)


def _golden(name: str, *turns: dict[str, int], kind: str = "todo") -> GoldenSet:
    """One probe per turn: grades by memory, 0 for forbidden."""
    probes = []
    for at, marks in enumerate(turns):
        relevant = tuple(Judgement(f"{name}#{key}", grade) for key, grade in marks.items() if grade)
        forbidden = tuple(Judgement(f"{name}#{key}") for key, grade in marks.items() if not grade)
        probes.append(Probe(f"{name}/s/t{at}", name, f"{name}/s/t{at}", None, relevant, forbidden, {"type": kind}))
    return GoldenSet(tuple(probes))


RECORDINGS = {name: _recording(name) for name in ("c", "d")}


def test_agree_universe_is_visible_memories_of_the_scope() -> None:
    found = agree(_golden("c", {"a": 2}, {}), _golden("c", {"a": 1, "x": 0}, {"b": 1}), RECORDINGS)
    (whole,) = found.rows
    # a and b at both turns, and x, which one judge forbids.
    assert (whole.pairs, whole.both, whole.first, whole.second, found.outside) == (5, 1, 0, 1, 1)
    assert (whole.raw, whole.positive, whole.low) == (0.8, pytest.approx(2 / 3), None)
    assert (found.forbidden.pairs, found.forbidden.second, found.silent.pairs, found.silent.first) == (5, 1, 2, 1)
    assert [(one.memory, one.grades, one.forbids) for one in found.disagreements] == [
        ("c#a", (2, 1), (False, False)),
        ("c#x", (0, 0), (False, True)),
        ("c#b", (0, 1), (False, False)),
    ]


def test_agree_with_a_pool_uses_it_as_universe() -> None:
    pooled = {"c/s/t0": ["c#a", "c#x"]}
    found = agree(_golden("c", {"a": 2}, {}), _golden("c", {"a": 2}, {"b": 1}), {}, pooled)
    assert (found.probes, found.rows[0].pairs, found.outside) == (1, 2, 0)
    # Both judged the second turn, which is not in the pool.
    assert (found.alone, found.unpooled, found.rows[0].kappa) == ((0, 0), 1, 1)
    with pytest.raises(UnusableInput, match="no probe is in both golden sets and the pool"):
        agree(_golden("c", {"a": 2}), _golden("c", {"a": 2}), {}, {"c/s/t1": []})


def test_agree_has_rows_by_type() -> None:
    first = GoldenSet(
        _golden("c", {"a": 1}, {"a": 1}, {"b": 1}).probes + _golden("d", {"a": 1}, {"b": 1}, {}, kind="update").probes
    )
    second = GoldenSet(
        _golden("c", {"a": 1}, {"a": 1}, {"a": 1}).probes + _golden("d", {"a": 1}, {"b": 1}, {}, kind="update").probes
    )
    whole, todo, update = agree(first, second, RECORDINGS).rows
    assert (whole.name, todo.name, update.name) == ("all", "todo", "update")
    assert (todo.pairs + update.pairs, update.kappa) == (whole.pairs, 1)
    # Leave-one-out: kappa is 1 without c, and that of c without d.
    assert whole.kappa is not None
    assert todo.kappa is not None
    spread = 12.706204736 * abs(1 - todo.kappa) / 2
    assert whole.low == pytest.approx(max(-1, whole.kappa - spread), abs=1e-8)
    assert whole.high == pytest.approx(min(1, whole.kappa + spread), abs=1e-8)


def test_agree_counts_pairs_that_both_judged() -> None:
    (one,), (other,) = _golden("c", {"a": 1}).probes, _golden("c", {"a": 1}).probes
    added, far = "haystack:d/s#1", "haystack:d/s#2"
    # Sets that list no irrelevant memory grade all others of the universe 0, and none of a haystack.
    found = agree(GoldenSet((one,)), GoldenSet((other,)), RECORDINGS)
    assert (found.rows[0].pairs, found.outside, found.one_sided) == (2, 0, 0)
    # Only b, a, and the memory of a haystack that both list; not what one of them did not judge.
    first = replace(one, irrelevant=("c#b", added, far))
    second = replace(other, irrelevant=("c#b", added))
    found = agree(GoldenSet((first,)), GoldenSet((second,)), RECORDINGS)
    assert (found.rows[0].pairs, found.rows[0].raw, found.outside, found.one_sided) == (3, 1, 1, 1)
    # A judge who lists irrelevant memories has not judged b, which the other calls relevant.
    (both,) = _golden("c", {"a": 1, "b": 2}).probes
    found = agree(GoldenSet((replace(one, irrelevant=(added,)),)), GoldenSet((both,)), RECORDINGS)
    assert (found.rows[0].pairs, found.disagreements, found.one_sided) == (1, (), 2)
    # A judge who lists none has graded b 0, but not a memory of a haystack that the other calls irrelevant.
    found = agree(GoldenSet((replace(one, irrelevant=("c#b", added)),)), GoldenSet((other,)), RECORDINGS)
    assert (found.rows[0].pairs, found.outside, found.one_sided) == (2, 0, 1)
    assert found.as_json()["one_sided"] == 1
    # Grade 0 against grade 2 is a disagreement.
    found = agree(GoldenSet((first,)), GoldenSet((replace(both, irrelevant=(added,)),)), RECORDINGS)
    assert [(pair.memory, pair.grades) for pair in found.disagreements] == [("c#b", (0, 2))]


def test_agree_sorts_types_and_weights_grades() -> None:
    first = GoldenSet(_golden("c", {"a": 2}).probes + _golden("d", {"a": 2}, kind="decision").probes)
    second = GoldenSet(_golden("c", {"a": 1}).probes + _golden("d", {"a": 2}, kind="decision").probes)
    whole, *types = agree(first, second, RECORDINGS).rows
    assert [one.name for one in types] == ["decision", "todo"]
    # Grades (2, 1) (2, 2) (0, 0) (0, 0): 1 / 4 observed; expected (2*1*1 + 2*2*4 + 2*1*1 + 2*1*4) / 16.
    assert (whole.kappa, whole.weighted) == (1, pytest.approx(1 - (1 / 4) / (28 / 16)))


def test_agree_interval_needs_every_leave_one_out_kappa() -> None:
    # Without d nothing is relevant, so kappa is undefined.
    whole = agree(
        GoldenSet(_golden("c", {}).probes + _golden("d", {"a": 1}).probes),
        GoldenSet(_golden("c", {}).probes + _golden("d", {"a": 1}).probes),
        RECORDINGS,
    ).rows[0]
    assert (whole.kappa, whole.low, whole.high) == (1, None, None)


def test_notebook_names_what_cannot_be_compared() -> None:
    with pytest.raises(UnusableInput, match="no probe is in both"):
        agree(_golden("c", {}), _golden("d", {}), RECORDINGS)
    with pytest.raises(UnusableInput, match="names conversation 'c', which no recording has"):
        agree(_golden("c", {}), _golden("c", {}), {})
    with pytest.raises(UnusableInput, match="names turn 'c/s/t4', which the recording does not have"):
        agree(_golden("c", *[{}] * 5), _golden("c", *[{}] * 5), RECORDINGS)


def test_power_follows_from_probes_and_conversations() -> None:
    gold = [_golden(f"k{at}", *[{"a": 1}] * 10).probes for at in range(6)]
    found = power(GoldenSet(tuple(probe for probes in gold for probe in probes)))
    assert (found.probes, found.conversations, found.design_effect) == (60, 6, pytest.approx(1.45))
    # Student's t with 5 degrees: 2.570582 at .975, 0.919544 at .8.
    assert found.detectable[0.25] == pytest.approx((2.570582 + 0.919544) * math.sqrt(0.25 * 1.45 / 60), abs=1e-5)
    assert found.detectable[0.1] < found.detectable[0.25] < found.detectable[0.4]
    more = GoldenSet(tuple(_golden(f"k{at}", *[{"a": 1}] * 2).probes[0] for at in range(60)))
    assert power(more).detectable[0.25] < found.detectable[0.25]


def test_power_of_one_conversation_is_undefined() -> None:
    assert power(_golden("c", {"a": 1}, {})).as_json() == {
        "probes": 1,
        "conversations": 1,
        "design_effect": None,
        "detectable": {},
        "alike": 0.05,
    }
