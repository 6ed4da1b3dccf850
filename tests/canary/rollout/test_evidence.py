"""The tests of a watch: limits that are learned or given, a control beside it, thresholds, and the saved state."""

from __future__ import annotations

import json
import random

import pytest

from lab.canary.rollout.evidence import (
    EQUAL,
    LATENCY_TIMES,
    LEARN,
    PER_RECALL,
    REPEAT_MORE,
    SHARES,
    SILENT,
    TEXT_LIMIT,
    WINDOW,
    WINDOWS,
    Evidence,
    Limits,
    quantile,
)
from lab.canary.rollout.live_figures import CALLS, ERRORS, FIGURES, LATENCY, REPEAT, TEXT, TURNS, Observation


def add(evidence: Evidence, figure: str, *values: float, control: bool = False) -> None:
    for value in values:
        evidence.add(Observation(figure, value), control=control)


def test_false_alarms_of_all_figures_add_up_to_one() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    evidence = Evidence(Limits(latency=100, repeat=0.5, text=0.9), recalls=1000)
    assert set(evidence.detectors) == set(FIGURES)
    # Observations in so many recalls, over the observations until a false alarm.
    rates = [1000 * PER_RECALL[figure] / one.threshold for figure, one in evidence.detectors.items()]
    assert sum(rates) == pytest.approx(1)


def test_limits_are_learned_from_a_stable_window() -> None:
    evidence = Evidence(Limits())
    add(evidence, LATENCY, *range(1, LEARN[LATENCY] + 1))
    # The halves differ by a factor of more than 2: the later one stays.
    assert LATENCY not in evidence.detectors
    assert len(evidence.learned[LATENCY]) == LEARN[LATENCY] // 2
    later = [200.0 + number % 50 for number in range(LEARN[LATENCY] // 2)]
    kept = [*evidence.learned[LATENCY], *later]
    add(evidence, LATENCY, *later)
    assert evidence.limits.latency == LATENCY_TIMES * quantile(kept, 0.95)
    add(evidence, REPEAT, *[0.4, 0.5] * (LEARN[REPEAT] // 2))
    assert evidence.limits.repeat == pytest.approx(0.45 + REPEAT_MORE)
    assert evidence.alarm is None
    add(evidence, LATENCY, *[10_000.0] * 30)
    assert evidence.alarm == LATENCY


@pytest.mark.parametrize(("figure", "value"), [(ERRORS, 1.0), (CALLS, 1.0), (LATENCY, 120.0), (REPEAT, 0.9)])
def test_each_figure_raises_its_own_alarm(figure: str, value: float) -> None:
    evidence = Evidence(Limits(latency=100, repeat=0.5))
    add(evidence, ERRORS, *[0.0] * 300)
    add(evidence, figure, *[value] * 60)
    assert evidence.alarm == figure


def test_fault_of_both_arms_is_none_of_the_canary() -> None:
    draw = random.Random(3)
    evidence = Evidence(Limits(), control=True)
    for _ in range(2000):
        for control in (False, True):
            add(evidence, ERRORS, float(draw.random() < 0.2), control=control)
            add(evidence, LATENCY, 50 * draw.lognormvariate(0, 1), control=control)
            add(evidence, REPEAT, draw.random(), control=control)
    assert evidence.alarm is None


@pytest.mark.parametrize("figure", [ERRORS, LATENCY, REPEAT])
def test_canary_that_is_worse_than_its_control(figure: str) -> None:
    draw = random.Random(4)
    evidence = Evidence(Limits(), control=True)
    for number in range(600):
        for control in (False, True):
            worse = figure if not control else None
            add(evidence, ERRORS, float(draw.random() < (0.2 if worse == ERRORS else 0.02)), control=control)
            add(evidence, LATENCY, (2 if worse == LATENCY else 1) * draw.lognormvariate(4, 0.7), control=control)
            if number % 4 == 0:
                add(evidence, REPEAT, draw.betavariate(8, 2) if worse == REPEAT else draw.random(), control=control)
    assert evidence.alarm == figure


def test_control_without_traffic_takes_no_memory() -> None:
    evidence = Evidence(Limits(), control=True)
    add(evidence, ERRORS, *[0.0] * 5000)
    assert max(map(len, evidence.as_json()["waiting"][0].values())) < 1000


@pytest.mark.parametrize(("figure", "value"), [(ERRORS, 1.0), (CALLS, 1.0), (LATENCY, 120.0), (REPEAT, 0.9)])
@pytest.mark.parametrize("died", [False, True])
def test_limits_apply_while_the_control_is_silent(figure: str, value: float, died: bool) -> None:
    evidence = Evidence(Limits(latency=100, repeat=0.4), control=True)
    if died:
        # What the control gave before it died is still compared with.
        add(evidence, figure, *[0.0] * 200, control=True)
        add(evidence, figure, *[0.0] * 200)
        assert evidence.silent == []
    add(evidence, figure, *[0.0] * SILENT[figure])
    assert evidence.silent == [figure]
    add(evidence, figure, *[value] * 60)
    assert (evidence.alarm, evidence.by_limit) == (figure, True)
    assert evidence.tested()[figure].limit == evidence.detectors[figure].limit < EQUAL
    # What waited before is not compared with what comes later.
    assert all(not waiting[figure] for waiting in evidence.as_json()["waiting"])
    add(evidence, figure, 0.0, control=True)
    assert evidence.silent == []


def test_limits_are_learned_beside_a_control() -> None:
    evidence = Evidence(Limits(), control=True)
    for number in range(LEARN[LATENCY]):
        for control in (True, False):
            add(evidence, LATENCY, 100.0 + number % 7, control=control)
    assert evidence.limits.latency is not None
    add(evidence, LATENCY, *[101.0] * SILENT[LATENCY])
    add(evidence, LATENCY, *[150.0] * 30)
    assert (evidence.alarm, evidence.by_limit) == (LATENCY, True)


@pytest.mark.parametrize("gap", [2, 50, 120, 10**9])
def test_observation_counts_in_one_test_alone(gap: int) -> None:
    """Both tests together have at most as many observations as the canary gives, so one bound holds for both."""
    evidence, draw = Evidence(Limits(errors=0.2), control=True), random.Random(gap)
    for number in range(2000):
        add(evidence, ERRORS, float(draw.random() < 0.2))
        if number % gap == 0:
            add(evidence, ERRORS, float(draw.random() < 0.2), control=True)
    state = evidence.as_json()
    assert state["evidence"][ERRORS][1] + state["against"][ERRORS][1] <= 2000
    assert (state["evidence"][ERRORS][1] > 0) is (gap > SILENT[ERRORS])


@pytest.mark.parametrize("control", [False, True])
def test_saved_evidence_goes_on_as_if_nothing_had_happened(control: bool) -> None:
    draw = random.Random(9)
    seen = [
        (Observation(draw.choice(FIGURES), draw.choice((0.0, 0.3, 1.0))), control and number % 1500 < 700)
        for number in range(3000)
    ]
    whole, parts = (Evidence(Limits(errors=0.5), control=control) for _ in range(2))
    for number, (one, beside) in enumerate(seen):
        whole.add(one, 100.0 + number, control=beside)
        parts.add(one, 100.0 + number, control=beside)
        if number % 37 == 0:
            parts = Evidence.restored(json.loads(json.dumps(parts.as_json())))
    assert parts.as_json() == whole.as_json()


def test_weeks_take_bounded_memory() -> None:
    evidence = Evidence(Limits(latency=100, repeat=0.5))
    for number in range((WINDOWS + 20) * WINDOW):
        evidence.add(Observation(ERRORS, 0.0))
        evidence.add(Observation(LATENCY, 50.0))
        evidence.add(Observation(REPEAT, 0.3))
        del number
    assert len(evidence.windows) == WINDOWS
    assert len(json.dumps(evidence.as_json())) < 200_000


def fault(evidence: Evidence, count: int, figure: str = ERRORS) -> None:
    for _ in range(count):
        evidence.add(Observation(figure, 1.0, ("provider_unavailable",)))


def test_outage_is_an_alarm_before_anything_is_learned() -> None:
    evidence = Evidence(Limits())
    fault(evidence, 10)
    assert (evidence.alarm, evidence.baseline) == (ERRORS, {})


@pytest.mark.parametrize("failing", [0.0, 0.5])
def test_window_in_which_the_engine_did_not_work_teaches_nothing(failing: float) -> None:
    # So that no alarm ends it.
    evidence, draw = Evidence(Limits(errors=0.01), recalls=10**15), random.Random(7)
    evidence.threshold = lambda _: 1e300
    for number in range(20 * WINDOW):
        fails = draw.random() < failing
        evidence.add(Observation(ERRORS, float(fails), ("failed",) if fails else ()))
        if not fails:
            evidence.add(Observation(LATENCY, 50.0 + number % 7))
            evidence.add(Observation(REPEAT, 0.4))
    assert (set(evidence.baseline) == {LATENCY, REPEAT}) is (failing == 0)
    assert any("cannot learn what is usual" in one for one in evidence.warnings) is (failing > 0)
    if failing:
        assert sum(map(len, evidence.learned.values())) == 0


def test_what_was_learned_before_the_outage_of_a_window_is_dropped_with_it() -> None:
    evidence = Evidence(Limits(errors=0.3))
    for figure in (ERRORS, REPEAT):
        add(evidence, figure, *[0.0] * 20)
    add(evidence, ERRORS, *[0.0] * (WINDOW - 20))
    assert len(evidence.learned[REPEAT]) == 20
    add(evidence, REPEAT, *[0.9] * 10)
    add(evidence, ERRORS, *([1.0] * 75 + [0.0] * (WINDOW - 75)))
    assert evidence.learned[REPEAT] == [0.0] * 20


def test_text_lane_that_dies_is_an_alarm_and_one_that_was_never_heard_is_a_warning() -> None:
    evidence, draw = Evidence(Limits()), random.Random(5)
    for _ in range(1000):
        add(evidence, ERRORS, 0.0)
        add(evidence, TEXT, float(draw.random() < 0.5))
    assert (evidence.alarm, evidence.warnings, evidence.limits.text) == (None, [], TEXT_LIMIT)
    add(evidence, TEXT, *[1.0] * 160)
    assert evidence.alarm == TEXT
    silent = Evidence(Limits())
    add(silent, TEXT, *[1.0] * 5000)
    assert silent.alarm is None
    assert "the text lane found nothing in 100%" in silent.warnings[0]
    # With a limit it is tested from the first recall.
    given = Evidence(Limits(text=0.9))
    add(given, TEXT, *[1.0] * 160)
    assert given.alarm == TEXT


@pytest.mark.parametrize("control", [False, True])
def test_turns_without_receipts_raise_the_alarm_of_a_dead_plugin(control: bool) -> None:
    evidence, draw = Evidence(Limits(), control=control), random.Random(6)
    for _ in range(2000):
        add(evidence, TURNS, float(draw.random() < 0.05))
    assert evidence.alarm is None
    add(evidence, TURNS, *[1.0] * 12)
    assert (evidence.alarm, evidence.missed >= 12) == (TURNS, True)


def test_answers_that_are_all_alike_are_a_warning() -> None:
    evidence = Evidence(Limits())
    for cause in ("no_query", "nothing_found"):
        for _ in range(2 * WINDOW):
            evidence.add(Observation(ERRORS, 0.0, (cause,)))
        said = " ".join(evidence.warnings)
        assert ("were skipped" in said) is (cause == "no_query")
        assert ("found nothing in any lane" in said) is (cause != "no_query")
