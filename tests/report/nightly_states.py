"""Nightly runs in every state, made by hand, for tests of their pages."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from lab.compare.changes import ArmChanges, Changed, Changes
from lab.gate.line import AGAIN, BASELINE_LINE, ERROR, FAIL, INCONCLUSIVE, PASS, Line
from lab.gate.verdict import Verdict
from lab.nightly.nightly_run import NightlyRun, SetResult, write_nightly
from lab.nightly.trend import Point, append
from lab.report.nightly import write_pages

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")
SETS = ("operators", "traps")
MEASURES = ("Success@6", "R@6", "RepeatRate", "InjectedChars")
BEGIN = date(2026, 10, 5)
# The measure of the arm that gets worse at this nightly run, with another commit.
STEP_AT = 20


def _value(number: int, arm: str, measure: str) -> float:
    if measure == "InjectedChars":
        return 708.0 + 12 * ARMS.index(arm)
    level = {"tier_first_v1": 0.48, "tier_quota_v1": 0.61, "hybrid": 0.64}[arm]
    dropped = number >= STEP_AT and arm == "tier_quota_v1" and measure == "Success@6"
    return level - 0.1 * MEASURES.index(measure) - 0.083 * dropped


def _points(number: int, name: str, verdict: str) -> list[Point]:
    stepped = number >= STEP_AT
    commit = "b2c3d4e5f60718293a4b" if stepped else "a1b2c3d4e5f60718293a"
    return [
        Point(
            *((BEGIN + timedelta(number)).isoformat(), "mine", name, arm, measure, measure != "InjectedChars"),
            *(_value(number, arm, measure), 240, 24, 0.02, verdict, "0.2.0", commit, f"code{stepped}"),
            *("all-MiniLM-L6-v2; numpy 2.3.2", f"arm-{arm}", "same"),
        )
        for arm in ARMS
        for measure in MEASURES
    ]


def _changes(changed: int, *, moved: bool) -> Changes:
    turns = tuple(
        Changed("choir-tour", f"choir-tour/s{at:02}/t01", ("item_key", "block")) for at in range(1, changed + 1)
    )
    arms = tuple(ArmChanges(arm, 684, turns if arm == "tier_quota_v1" else (), {"item_key": changed}) for arm in ARMS)
    facts = ("numpy 2.3.1 -> 2.3.2", "arm tier_quota_v1: config.autoRecall.quotas.mustMax 2 -> 3") if moved else ()
    return Changes("baselines/ecfe793ae75cbfc4", "sets/operators/run", arms, (), (), facts)


def _result(name: str, status: str) -> SetResult:
    approve = f"lab nightly baseline approve sets/{name}/run --name {name} --baselines reports/baselines"
    again, exact = _changes(0, moved=False), _changes(12 if status == FAIL else 0, moved=status == FAIL)
    same = Line(AGAIN, "receipts", PASS, True, "two replays gave the same 2052 receipts", n=2052)
    lines = [same]
    if status == ERROR:
        again = _changes(3, moved=False)
        why = (
            "the replay is nondeterministic: 3 of 2052 receipts differ between two replays of the same code "
            "(choir-tour/s01/t01 of tier_quota_v1; in item_key, block); nothing else was judged"
        )
        lines = [Line(AGAIN, "receipts", ERROR, True, why, n=2052)]
    elif status == INCONCLUSIVE:
        why = f"there is no baseline {name!r} in reports/baselines to compare with"
        lines.append(Line(BASELINE_LINE, name, INCONCLUSIVE, True, why, approve))
    else:
        for arm in ARMS:
            has_changed = status == FAIL and arm == "tier_quota_v1"
            why = (
                "arm tier_quota_v1: config.autoRecall.quotas.mustMax 2 -> 3; numpy 2.3.1 -> 2.3.2: 12 of 684 receipts "
                "changed (choir-tour/s01/t01 of tier_quota_v1, choir-tour/s02/t01 of tier_quota_v1, "
                "choir-tour/s03/t01 of tier_quota_v1 and 9 more; in item_key, block)"
                if has_changed
                else "all 684 receipts equal the baseline's"
            )
            settles = f"{approve} (if the change is intended)" if has_changed else None
            lines.append(Line("exact", f"{arm} receipts", FAIL if has_changed else PASS, True, why, settles))
            lines.append(Line("limit", f"{arm} Future", PASS, True, f"{arm}: Future: 0 of 684 turns; at most 0"))
    lines.append(Line("guard", "tier_quota_v1 against tier_first_v1 R@6", FAIL, False, "shown to be worse by 0.02"))
    verdict = Verdict(f"mine/{name}", "as approved", f"sets/{name}/run", name, None, status, tuple(lines))
    means = {} if status == ERROR else {arm: {one: _value(0, arm, one) for one in MEASURES} for arm in ARMS}
    compared = exact if status in (PASS, FAIL) else None
    return SetResult(name, verdict, again, compared, "ecfe793ae75c" * 5 if compared else None, means, MEASURES)


def make(folder: Path, state: str, nights: int = 1) -> Path:
    """Write ``nights`` nightly runs, all but the last of which passed, and the page of the last; return its path.

    With more than :data:`STEP_AT` of them, one measure has a step, and the night of the step fails.
    """
    store = folder / "trend"
    page = folder
    for number in range(nights):
        last = number == nights - 1
        status = state if last else FAIL if number == STEP_AT else ERROR if number == 9 else PASS
        day = (BEGIN + timedelta(number)).isoformat()
        results = [_result(name, status if name == SETS[0] else PASS) for name in SETS]
        for result in results:
            if result.means:
                append(store, _points(number, result.name, result.verdict.status))
        out = folder / "nightly" / f"{day}-0a1b2c3d"
        out.mkdir(parents=True)
        commit = "b2c3d4e5f60718293a4b" if number >= STEP_AT else "a1b2c3d4e5f60718293a"
        made = NightlyRun(
            "mine", "The same memories as approved.", day, out, commit, tuple(results), folder / "baselines"
        )
        write_nightly(made)
        page = write_pages(made, store)[0] if last else page
    return page
