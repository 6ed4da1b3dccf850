"""Every criterion passes, fails and stays undecided for the reason that docs/acceptance.md gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lab.studies.acceptance.arms import Cast
from lab.studies.acceptance.criteria import CRITERIA, M1, Result, Runs, judge
from lab.studies.acceptance.evidence import Measured

OLD, NEW = "tier_first_v1", "new"
Values = Mapping[str, Mapping[str, Sequence[float]]]
CAST = Cast((NEW,), {NEW: "plain"}, (), ())
BY_ID = {criterion.id: criterion for criterion in (*CRITERIA, M1)}


class Fake(Measured):
    """Values by arm and measure, the same in each of eight conversations but for a small shift."""

    def __init__(self, values: Values, *, pool: float = 100.0, items: float = 2.0, concept: bool = True) -> None:
        self.k = 6
        self._fake, self._must, self._items, self._concept = values, pool, items, concept

    def known(self, arm: str, measure: str) -> dict[str, tuple[str, float]]:
        values = self._fake.get(arm, {}).get(measure, ())
        return {f"c{c}/{at}": (f"c{c}", value) for c in range(8) for at, value in enumerate(values)}

    def turns(self, *_: Any) -> None:
        """Nothing is judged."""

    def must_pool(self, arm: str) -> float:
        return self._must

    def smaller_haystack(self, arm: str, pool: float) -> int | None:
        return 60 if pool == 24.0 else None

    def must_items(self, arm: str) -> float:
        return self._items

    def concept_probes(self) -> tuple[set[str], int]:
        return ({f"c{c}/{at}" for c in range(8) for at in (0, 1)} if self._concept else set()), 5


def _judged(criterion: str, values: Values, *, screen: int | None = None, cast: Cast = CAST, **how: Any) -> Result:
    arm = "hybrid" if criterion == "M1" else NEW
    return judge(BY_ID[criterion], Runs(Fake(values, **how), None, cast, "as recorded", screen), arm)


def _nice(new: Sequence[float], old: Sequence[float] = (0, 0, 0, 0), hybrid: Sequence[float] = (1, 1, 1, 0)) -> Values:
    return {arm: {"GoldNice@6": values} for arm, values in ((NEW, new), (OLD, old), ("hybrid", hybrid))}


@pytest.mark.parametrize(
    ("values", "status", "reason"),
    [
        (_nice((1, 1, 0, 0)), "pass", "restores more than half of what tier_first_v1 suppresses"),
        # A quarter is less than half of three quarters.
        (_nice((1, 0, 0, 0)), "fail", "shown not to be better"),
        (_nice((0, 0, 0, 0)), "fail", "shown not to be better"),
        # Nothing is suppressed, so there is nothing to restore.
        (
            _nice((1, 1, 1, 1), old=(1, 1, 1, 0)),
            "inconclusive",
            "This set cannot decide it. Undecided: must_remember",
        ),
        ({}, "inconclusive", "no relevant memory is labelled nice_to_have"),
    ],
)
def test_criterion_1_needs_half_of_what_is_suppressed(values: Values, status: str, reason: str) -> None:
    result = _judged("1", values)
    assert result.status == status
    assert reason in result.reason
    assert (result.settles is None) == (status != "inconclusive")


def _repeats(new: Sequence[float], streak: float, old: Sequence[float] = (1, 1, 0.9, 0.8)) -> Values:
    return {
        NEW: {"MustRepeat": new, "MustStreak": [streak]},
        OLD: {"MustRepeat": old, "MustStreak": [30.0]},
    }


@pytest.mark.parametrize(
    ("values", "how", "status", "reason"),
    [
        (_repeats((0.2, 0.3, 0.1, 0.0), 3), {}, "pass", "fewer must items are repeats than under tier_first_v1"),
        (_repeats((0.7, 0.6, 0.6, 0.7), 3), {}, "fail", "less than half of the must items are repeats"),
        (_repeats((0.2, 0.3, 0.1, 0.0), 9), {}, "fail", "no must item stays longer than the repeat window"),
        (_repeats((1, 1, 0.9, 0.9), 9), {}, "fail", "fewer must items"),
        (_repeats((0.2, 0.1, 0.1, 0.1), 2, old=(0.3, 0.2, 0.1, 0.1)), {}, "inconclusive", "must items dominate under"),
        # Two a turn go round in six turns.
        (
            _repeats((0.2, 0.3, 0.1, 0.0), 3),
            {"pool": 11.0},
            "inconclusive",
            "11.0 must memories beside the Working Set",
        ),
        ({NEW: {}, OLD: {}}, {}, "inconclusive", "no must_remember memory could repeat"),
    ],
)
def test_criterion_2_needs_decay(values: Values, how: dict[str, Any], status: str, reason: str) -> None:
    result = _judged("2", values, **how)
    assert result.status == status
    assert reason in result.reason


def test_criterion_2_with_a_haystack_says_which_size_settles_it() -> None:
    # Twice the pool that a rotation of two a turn exhausts in six turns.
    values = _repeats((0.2, 0.1, 0.1, 0.1), 2, old=(0.3, 0.2, 0.1, 0.1))
    assert "(--haystack 60)" in str(_judged("2", values).settles)
    assert "--labels sampled with a smaller --must-share" in str(_judged("2", values, items=3.0).settles)


def test_criterion_2_names_what_each_value_is_compared_with() -> None:
    result = _judged("2", _repeats((0.2, 0.1, 0.1, 0.1), 2, old=(0.3, 0.2, 0.1, 0.1)))
    assert "MustRepeat 0.125 against 0.175 of tier_first_v1; MustRepeat 0.125 against the limit 0.500" in result.reason
    # A high MustRepeat is bad, but the check asks whether it is high.
    assert "shown not to be higher" in result.reason
    assert "better" not in result.reason


def test_criterion_2_uses_the_run_in_which_the_old_policy_repeats() -> None:
    quiet = Fake(_repeats((0.1, 0.1, 0.1, 0.1), 2, old=(0.2, 0.2, 0.2, 0.2)))
    loud = Fake(_repeats((0.9, 0.9, 0.9, 0.8), 9))
    assert judge(BY_ID["2"], Runs(quiet, loud, CAST, "large"), NEW).status == "fail"
    assert judge(BY_ID["2"], Runs(loud, quiet, CAST, "large"), NEW).status == "fail"
    assert judge(BY_ID["2"], Runs(quiet, quiet, CAST, "large"), NEW).status == "inconclusive"


def _duplicates(new: Sequence[float], plain: Sequence[float]) -> Values:
    return {NEW: {"BackboneDuplication": new}, "plain": {"BackboneDuplication": plain}}


@pytest.mark.parametrize(
    ("values", "cast", "status", "reason"),
    [
        (_duplicates((0, 0, 0.1), (0.2, 0.3, 0.4)), CAST, "pass", "fewer items repeat the Working Set"),
        (_duplicates((0.3, 0.4, 0.5), (0.2, 0.3, 0.4)), CAST, "fail", "shown not to be better"),
        (_duplicates((0, 0, 0), (0, 0, 0)), CAST, "inconclusive", "there is nothing to reduce"),
        (_duplicates((), ()), CAST, "inconclusive", "the Working Set is empty at every turn"),
        (_duplicates((0,), (1,)), Cast((NEW,), {}, (), ()), "inconclusive", "the candidate has no Working Set"),
    ],
)
def test_criterion_3_needs_less_duplication(values: Values, cast: Cast, status: str, reason: str) -> None:
    result = _judged("3", values, cast=cast)
    assert result.status == status
    assert reason in result.reason
    if "empty" in reason:
        assert "--categories detected" in str(result.settles)


@pytest.mark.parametrize(
    ("kept", "status", "reason"),
    [
        ([1.0] * 8, "pass", "at all of 64 turns; if turns were independent, the rate of losses would be at most 4.6%"),
        ([1.0] * 7, "inconclusive", "at all of 56 turns"),
        ([1.0] * 7 + [0.5], "fail", "a hard rule is missing at 8 of 64 turns, first at c0/7"),
        ([], "inconclusive", "the set has no hard rule"),
    ],
)
def test_criterion_4_allows_no_loss(kept: list[float], status: str, reason: str) -> None:
    result = _judged("4", {NEW: {"HardRules": kept}})
    assert result.status == status
    assert reason in result.reason
    if not kept:
        assert "--hard-rules N" in str(result.settles)


def test_criterion_4_holds_at_any_must_share() -> None:
    sound, broken = (Fake({NEW: {"HardRules": [1.0] * 8 + last}}) for last in ([], [0.0]))
    assert judge(BY_ID["4"], Runs(sound, sound, CAST, "many"), NEW).status == "pass"
    for runs in ((sound, broken), (broken, sound)):
        assert judge(BY_ID["4"], Runs(*runs, CAST, "many"), NEW).status == "fail"


@pytest.mark.parametrize(
    ("share", "rows", "screen", "status", "reason"),
    [
        ((1.0, 0.98, 1.0), 20.0, None, "pass", "100.0% of 24 receipts fit 24 rows; the median has 20"),
        ((0.6, 0.5, 0.7), 20.0, None, "fail", "have a reason"),
        ((1.0, 0.98, 1.0), 36.0, 40, "pass", "100.0% of 24 receipts fit 40 rows"),
        ((1.0, 0.98, 1.0), 36.0, 30, "fail", "0.0% of 24 receipts fit 30 rows"),
        ((1.0, 0.98, 1.0), 60.0, None, "fail", "0.0% of 24 receipts fit 24 rows; the median has 60"),
        ((), 20.0, None, "inconclusive", "the candidate writes no receipts"),
    ],
)
def test_criterion_5_needs_reasons_on_one_screen(
    share: Sequence[float], rows: float, screen: int | None, status: str, reason: str
) -> None:
    result = _judged("5", {NEW: {"Explained": share, "ReceiptLines": [rows] * 3}}, screen=screen)
    assert result.status == status
    assert reason in result.reason


def _hits(hybrid: Sequence[float], vector: Sequence[float]) -> Values:
    return {"hybrid": {"Success@6": hybrid}, "vector": {"Success@6": vector}}


@pytest.mark.parametrize(
    ("values", "how", "status", "reason"),
    [
        # The third probe is in no slice: it decides nothing.
        (_hits((1, 1, 0), (0, 1, 1)), {}, "pass", "at 16 probes for a concept"),
        (_hits((0, 1, 1), (1, 1, 0)), {}, "fail", "shown not to be better"),
        (_hits((1, 0, 1), (0, 1, 0)), {}, "inconclusive", "not shown to be better"),
        (_hits((1,), (0,)), {"concept": False}, "inconclusive", "all 5 probes that need a decision or preference name"),
    ],
)
def test_m1_is_judged_on_concept_queries(values: Values, how: dict[str, Any], status: str, reason: str) -> None:
    result = _judged("M1", values, **how)
    assert (result.arm, result.status) == ("hybrid", status)
    assert reason in result.reason


def test_criteria_with_few_conversations_are_undecided() -> None:
    class Few(Fake):
        def known(self, arm: str, measure: str) -> dict[str, tuple[str, float]]:
            return {at: value for at, value in super().known(arm, measure).items() if value[0] in ("c0", "c1", "c2")}

    few = Runs(Few(_nice((1, 1, 1, 1))), None, CAST, "as recorded")
    result = judge(BY_ID["1"], few, NEW)
    assert result.status == "inconclusive"
    assert "3 conversations" in result.reason


def test_pairs_take_the_weighted_mean_of_the_reference() -> None:
    measured = Fake({NEW: {"Success@6": [1, 0]}, "a": {"Success@6": [1, 1]}, "b": {"Success@6": [0, 1]}})
    pairs = measured.pairs("Success@6", NEW, {"a": 0.25, "b": 0.75}, {"c0/0", "c1/1"})
    assert pairs is not None
    assert (pairs.at, pairs.candidate, pairs.baseline) == (["c0/0", "c1/1"], [1, 0], [0.25, 1.0])
    assert measured.pairs("Success@6", NEW, 0.5, set()) is None


def test_pairs_fill_in_missing_values_and_count_them() -> None:
    class Gaps(Fake):
        def known(self, arm: str, measure: str) -> dict[str, tuple[str, float]]:
            values = super().known(arm, measure)
            return {at: value for at, value in values.items() if arm != NEW or at != "c0/0"}

    pairs = Gaps({NEW: {"MustRepeat": [1, 1]}, OLD: {"MustRepeat": [1, 1, 1]}}).pairs("MustRepeat", NEW, {OLD: 1.0})
    assert pairs is not None
    # MustRepeat counts a turn without must items as 0.
    assert (len(pairs.at), pairs.filled_candidate, pairs.filled_baseline) == (24, 9, 0)
    assert (sum(pairs.candidate), sum(pairs.baseline)) == (15, 24)


def test_reason_says_whether_each_requirement_is_met() -> None:
    failed = _judged("4", {NEW: {"HardRules": [1.0] * 7 + [0.5]}})
    assert failed.reason.startswith("Not met: every hard rule is in the prompt, as recorded. HardRules: a hard rule is")
    # A test that passes is reported beside the one that decides.
    mixed = _judged("5", {NEW: {"Explained": (1.0, 0.98, 1.0), "ReceiptLines": [60.0] * 3}})
    assert mixed.reason.startswith(
        "Not met: at least 95% of the receipts fit 24 rows of 80 columns. ReceiptLines: 0.0%"
    )
    assert "Met: at least 95% of the injected, pinned and displaced must memories have a reason" in mixed.reason


def test_settles_says_if_more_conversations_would_show_a_failure() -> None:
    def drift(up: float) -> Result:
        class Mixed(Fake):
            def known(self, arm: str, measure: str) -> dict[str, tuple[str, float]]:
                values = {OLD: 0.0, "hybrid": 1.0}.get(arm)
                return {f"c{c}/0": (f"c{c}", (up if c % 2 else 0.5) if values is None else values) for c in range(8)}

        return judge(BY_ID["1"], Runs(Mixed({}), None, CAST, "as recorded"), NEW)

    below, above = drift(0.49), drift(0.51)
    assert (below.status, above.status) == ("inconclusive", "inconclusive")
    assert "if the observed difference is true (80 % power); the test then fails" in str(below.settles)
    assert str(above.settles).endswith("if the observed difference is true (80 % power)")


def test_settles_of_a_failing_check_is_another_set() -> None:
    class Mixed(Fake):
        def known(self, arm: str, measure: str) -> dict[str, tuple[str, float]]:
            values = super().known(arm, measure)
            if arm == OLD and measure == "MustRepeat":
                return {at: (cluster, 0.8 if cluster in ("c0", "c1") else 0.35) for at, (cluster, _) in values.items()}
            return values

    result = judge(BY_ID["2"], Runs(Mixed(_repeats((0.2, 0.1, 0.1, 0.1), 2)), None, CAST, "as recorded"), NEW)
    assert result.status == "inconclusive"
    assert result.reason.startswith("This set cannot decide it. Undecided: must items dominate under tier_first_v1")
    assert "more conversations" not in str(result.settles)


def test_criterion_3_applies_only_to_candidates_with_a_working_set() -> None:
    values = _duplicates((0,), (1,))
    beside = Cast((NEW, "seed"), {"seed": "plain"}, (), (), frozenset({NEW}))
    result = _judged("3", values, cast=beside)
    assert (result.status, result.applies, result.settles) == ("inconclusive", False, None)
    assert result.reason == "Does not apply: the candidate has no Working Set, so nothing can repeat it."
    # Some candidate must be judged by every criterion.
    alone = _judged("3", values, cast=Cast((NEW,), {}, (), (), frozenset({NEW})))
    assert alone.applies
    assert "--candidate seed_full" in str(alone.settles)
