"""The five acceptance criteria of seed 000 and milestone M1 of seed 001, each as tests registered in advance.

A criterion passes if all of its tests pass, which needs no correction, and fails if one of them fails. A criterion
whose set does not show the failure that the criterion is about is inconclusive, and says which option makes it show.
docs/acceptance.md argues every test and threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lab.base.formatting import counted, number
from lab.compare.judgements import Turns
from lab.compare.paired import Pairs
from lab.gate.line import FAIL, GRAVITY, INCONCLUSIVE, PASS, Line
from lab.measures.inputs import WINDOW
from lab.measures.score import never_seen
from lab.studies.acceptance.arms import HYBRID, OLD, VECTOR, Cast
from lab.studies.acceptance.evidence import Measured, Reference, named, share_of, shown

# Half of the effect: what a new treatment must keep of an old one in a non-inferiority trial.
HALF = 0.5
# Must items that are mostly repeats dominate.
MOSTLY = 0.5
# The share of turns, or of memories, that "the operator can tell" requires.
NEARLY_ALL = 0.95
# A terminal of 80 by 24 is any screen.
ROWS = 24
MET = {PASS: "Met", FAIL: "Not met", INCONCLUSIVE: "Undecided"}
# With no loss in so many turns, the 95 % bound of the loss is at most 5 %.
TURNS = 59


class Test(NamedTuple):
    """One test of a criterion: what is required, and the result.

    ``is_check``: whether it tests if the set can decide the criterion; ``settles`` then says what set could. ``turns``
    says how many wrong judgements turn a result that depends on judgements.
    """

    about: str
    line: Line
    is_check: bool = False
    settles: str | None = None
    turns: Turns | None = None

    @property
    def sentences(self) -> str:
        """Return whether the requirement is met, and what was measured, as sentences."""
        measured = self.line.reason.removeprefix(f"{self.line.label}: ")
        turns = f" This turns {self.turns.clause}." if self.turns else ""
        return f"{MET[self.line.status]}: {self.about}. {self.line.measure}: {measured}.{turns}"


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one criterion for one arm, with the tests that it rests on.

    ``reason`` and ``settles`` are sentences. ``applies`` is False for an inconclusive criterion that is about something
    the arm does not have; it does not decide then.
    """

    criterion: str
    title: str
    arm: str
    status: str
    reason: str
    settles: str | None
    tests: tuple[Test, ...] = ()
    applies: bool = True


class Criterion(NamedTuple):
    """A criterion: its id, title, source, and the function that judges an arm."""

    id: str
    title: str
    source: str
    judge: Callable[[Runs, str], Sequence[Test] | Line]


@dataclass(frozen=True, slots=True)
class Runs:
    """What the criteria are judged on: the run as recorded, and the one with a large must share (None: the same).

    ``large`` describes the must share of the second run; ``screen`` is the number of rows of a screen, if the operator
    gave it.
    """

    plain: Measured
    saturated: Measured | None
    cast: Cast
    large: str
    screen: int | None = None

    @property
    def with_large_pool(self) -> Measured:
        """Return the run with a large must share, or the only one."""
        return self.saturated or self.plain


def undecided(measure: str, reason: str, settles: str | None = None) -> Line:
    """Return an inconclusive line without numbers."""
    return Line("criterion", measure, INCONCLUSIVE, True, reason, settles)


def _test(
    about: str,
    measured: Measured,
    measure: str,
    arms: tuple[str, Reference],
    better: str,
    only: set[str] | None = None,
    *,
    settles: str | None = None,
) -> Test:
    """Return a test; one with ``settles`` is a check, and says what set would pass it."""
    candidate, reference = arms
    is_check = settles is not None
    pairs = measured.pairs(measure, candidate, reference, only)
    if pairs is None:
        return Test(about, undecided(measure, f"{measure}: has no value"), is_check, settles)
    line = shown(pairs, better, named(reference))
    if line.low is None and line.candidate is not None and line.baseline is not None:
        # Too few conversations for an interval: the means are all that there is to say.
        why = line.reason.removeprefix(f"{line.label}: ")
        line = replace(line, reason=f"{line.label}: {_compared(line)}, without an interval ({why})")
    ahead = (line.difference or 0.0) * (1 if better == "higher" else -1)
    if line.settles and line.low is not None and (ahead < 0 or (is_check and not ahead)):
        # With the observed difference, more conversations show the opposite of what is required.
        line = replace(line, settles=settles or f"{line.settles}; the test then fails")
    return Test(about, line, is_check, settles, measured.turns(line, candidate, reference, better, only))


def nice_under_saturation(runs: Runs, arm: str) -> Sequence[Test] | Line:
    """Criterion 1: with a large must share, relevant nice memories still appear."""
    measured = runs.with_large_pool
    measure = f"GoldNice@{measured.k}"
    if measured.mean(HYBRID, measure) is None:
        return undecided(
            measure,
            "no relevant memory is labelled nice_to_have",
            "a golden set (--golden), and labels with nice memories (--labels sampled)",
        )
    return [
        _test(
            f"must_remember memories suppress others under {OLD}: {HYBRID}, which ignores labels, injects more of them",
            measured,
            measure,
            (HYBRID, {OLD: 1.0}),
            "higher",
            settles="a set in which labels suppress nice memories: more relevant memories labelled nice_to_have, or "
            "more must memories to compete with them (a larger --haystack N)",
        ),
        _test(
            f"the candidate restores more than half of what {OLD} suppresses",
            measured,
            measure,
            (arm, {OLD: HALF, HYBRID: HALF}),
            "higher",
        ),
    ]


def must_winners_decay(runs: Runs, arm: str) -> Sequence[Test] | Line:
    """Criterion 2: without exact-hit evidence, the same must items do not dominate consecutive turns.

    Judged as recorded, or with a large must share if only there most must items are repeats under the old policy.
    """
    measure = "MustRepeat"
    several = [measured for measured in (runs.plain, runs.saturated) if measured is not None]
    # The old policy alone chooses the run: the first one in which its must items dominate.
    measured = next((run for run in several if (run.mean(OLD, measure) or 0.0) > MOSTLY), several[0])
    if measured.mean(OLD, measure) is None:
        return undecided(
            measure, "no must_remember memory could repeat", "labels with must memories, and --recall-turns all or user"
        )
    if measured.mean(arm, measure) is None:
        return undecided(measure, "the candidate injects no must_remember memory that could repeat", "a larger pool")
    pool, items = measured.must_pool(arm), measured.must_items(arm)
    if pool <= WINDOW * items:
        return undecided(
            measure,
            f"{pool:.1f} must memories beside the Working Set, the mean of all turns, are too few: at {items:.1f} a "
            f"turn, even taking them in turn repeats them within {WINDOW} turns",
            "more must memories (--must-share), or more memories (--haystack 100)",
        )
    fewer = measured.smaller_haystack(arm, 2 * WINDOW * items)
    return [
        _test(
            f"must items dominate under {OLD}: most of them are repeats",
            measured,
            measure,
            (OLD, MOSTLY),
            "higher",
            settles=f"fewer added memories, so that must memories repeat (--haystack {fewer})"
            if fewer
            else "a set in which must memories repeat: --labels sampled with a smaller --must-share",
        ),
        _test(f"fewer must items are repeats than under {OLD}", measured, measure, (arm, {OLD: 1.0}), "lower"),
        _test("less than half of the must items are repeats", measured, measure, (arm, MOSTLY), "lower"),
        _test(
            f"no must item stays longer than the repeat window of {WINDOW} turns",
            measured,
            "MustStreak",
            (arm, float(WINDOW)),
            "lower",
        ),
    ]


def backbone_duplication(runs: Runs, arm: str) -> Sequence[Test] | Line:
    """Criterion 3: what the Working Set carries does not take another slot."""
    measured, measure = runs.plain, "BackboneDuplication"
    plain = runs.cast.plain.get(arm)
    if plain is None and arm in runs.cast.without_working_set and set(runs.cast.candidates) & set(runs.cast.plain):
        return replace(undecided(measure, "the candidate has no Working Set, so nothing can repeat it"), critical=False)
    if plain is None:
        return undecided(
            measure,
            "the candidate has no Working Set, or no arm without its de-duplication (dedupeBackbone: false)",
            "a candidate with a Working Set (--candidate seed_full), replayed by lab acceptance PATH",
        )
    if measured.mean(plain, measure) is None:
        return undecided(
            measure,
            "the Working Set is empty at every turn",
            "memories with categories: recorded ones, or --categories detected",
        )
    if not measured.mean(plain, measure):
        return undecided(
            measure,
            "nothing repeats the Working Set even without de-duplication, so there is nothing to reduce",
            "a set that stores a thing twice, or --categories detected",
        )
    return [
        _test(
            "fewer items repeat the Working Set than without de-duplication",
            measured,
            measure,
            (arm, {plain: 1.0}),
            "lower",
        )
    ]


def hard_rules_survive(runs: Runs, arm: str) -> Sequence[Test] | Line:
    """Criterion 4: hard rules are in the prompt at every turn, at any must share."""
    tests = []
    several = (("as recorded", runs.plain), (runs.large, runs.saturated))
    for about, measured in ((about, measured) for about, measured in several if measured is not None):
        values = measured.known(arm, "HardRules")
        if not values:
            return undecided("HardRules", "the set has no hard rule", "--hard-rules N samples N in each conversation")
        lost = [at for at, (_, value) in values.items() if value < 1.0]
        n, clusters = len(values), len({cluster for cluster, _ in values.values()})
        mean = sum(value for _, value in values.values()) / n
        status = FAIL if lost else PASS if n >= TURNS else INCONCLUSIVE
        why = (
            f"a hard rule is missing at {len(lost)} of {counted(n, 'turn')}, first at {lost[0]}"
            if lost
            else f"every hard rule is in the prompt at all of {counted(n, 'turn')}; if turns were independent, the "
            f"rate of losses would be at most {never_seen(n):.1%} (95 % bound)"
        )
        settles = None if status != INCONCLUSIVE else f"{counted(TURNS - n, 'more turn')} with hard rules"
        line = Line(
            *("limit", "HardRules", status, True, f"HardRules: {why}", settles),
            candidate=mean,
            n=n,
            conversations=clusters,
            limit="at every turn",
        )
        tests.append(Test(f"every hard rule is in the prompt, {about}", line))
    return tests


def receipts_explain(runs: Runs, arm: str) -> Sequence[Test] | Line:
    """Criterion 5: a receipt fits one screen, and says why each item is there and each displaced must item is not."""
    measured = runs.plain
    if measured.mean(arm, "Explained") is None:
        return undecided("Explained", "the candidate writes no receipts", "a candidate that does")
    rows = measured.pairs("ReceiptLines", arm, NEARLY_ALL)
    tests = [
        _test(
            f"at least {NEARLY_ALL:.0%} of the injected, pinned and displaced must memories have a reason",
            measured,
            "Explained",
            (arm, NEARLY_ALL),
            "higher",
        )
    ]
    if rows is not None:
        tests.append(_fits(runs.screen, share_of(rows, runs.screen or ROWS), rows.candidate))
    return tests


def _fits(screen: int | None, within: Pairs, rows: Sequence[float]) -> Test:
    """Return the test whether a receipt fits one screen."""
    size = screen or ROWS
    about = f"at least {NEARLY_ALL:.0%} of the receipts fit {size} rows of 80 columns"
    share = sum(within.candidate) / len(within.candidate)
    middle = sorted(rows)[len(rows) // 2]
    line = shown(within, "higher")
    what = f"ReceiptLines: {share:.1%} of {counted(len(rows), 'receipt')} fit {size} rows; the median has {middle:.0f}"
    return Test(about, replace(line, reason=what, limit=f"{NEARLY_ALL:.0%} within {size} rows"))


def hybrid_beats_vector(runs: Runs, _arm: str) -> Sequence[Test] | Line:
    """M1: on queries for a concept whose answer is a decision or preference, hybrid search beats vectors alone."""
    measured = runs.plain
    probes, asking = measured.concept_probes()
    measure = f"Success@{measured.k}"
    if not probes:
        why = (
            f"all {asking} probes that need a decision or preference name it exactly"
            if asking
            else "no probe needs a decision or preference"
        )
        return undecided(measure, why, "a golden set with such probes, or --categories detected")
    return [
        _test(
            f"{HYBRID} finds a relevant memory more often than {VECTOR}, at {counted(len(probes), 'probe')} for a "
            "concept that need a decision or preference",
            measured,
            measure,
            (HYBRID, {VECTOR: 1.0}),
            "higher",
            probes,
        )
    ]


CRITERIA = (
    Criterion("1", "Must saturation no longer suppresses nice recall", "seed 000", nice_under_saturation),
    Criterion("2", "Repeated must winners decay", "seed 000", must_winners_decay),
    Criterion("3", "Backbone duplication is reduced", "seed 000", backbone_duplication),
    Criterion("4", "Hard rules survive", "seed 000", hard_rules_survive),
    Criterion("5", "A receipt explains the result on one screen", "seed 000", receipts_explain),
)
# It compares two searches, so it has no candidate.
M1 = Criterion("M1", "Hybrid beats vector on concept queries", "seed 001", hybrid_beats_vector)


def judge(criterion: Criterion, runs: Runs, arm: str) -> Result:
    """Judge one criterion for one arm.

    The gravest test decides. If the set does not show the failure that the criterion is about, it is inconclusive.
    """
    found = criterion.judge(runs, arm)
    if isinstance(found, Line):
        what = "Nothing to measure" if found.critical else "Does not apply"
        reason = f"{what}: {found.reason}."
        of_arm = Result(criterion.id, criterion.title, arm, found.status, reason, found.settles)
        return replace(of_arm, applies=found.critical)
    tests = tuple(found)
    unfit = next((test for test in tests if test.is_check and test.line.status != PASS), None)
    if unfit is not None:
        others = "; ".join(_means(test.line) for test in tests if not test.is_check)
        reason = f"This set cannot decide it. {unfit.sentences} Without deciding: {others}."
        settles = unfit.line.settles or unfit.settles
        return Result(criterion.id, criterion.title, arm, INCONCLUSIVE, reason, settles, tests)
    deciding = [test for test in tests if not test.is_check]
    ordered = sorted(deciding, key=lambda test: GRAVITY.index(test.line.status))
    gravest = ordered[0]
    reason = " ".join(test.sentences for test in ordered)
    more = "; ".join(
        dict.fromkeys(
            test.line.settles for test in ordered if test.line.status == gravest.line.status and test.line.settles
        )
    )
    return Result(criterion.id, criterion.title, arm, gravest.line.status, reason, more or None, tests)


def _means(line: Line) -> str:
    """Return the measure of a line with the means that it compares."""
    if line.candidate is None or line.baseline is None:
        return f"{line.measure} has no value"
    return f"{line.measure} {_compared(line)}"


def _compared(line: Line) -> str:
    """Return the means that a line compares, and what the second is of."""
    of = f"{number(line.baseline)} of {line.against}" if line.against else f"the limit {number(line.baseline)}"
    return f"{number(line.candidate)} against {of}"
