"""What a watch says of its figures: over how many recalls, and with how much evidence."""

from __future__ import annotations

from typing import Any

from lab.canary.rollout.evidence import Evidence, Limits
from lab.canary.rollout.live_figures import ERRORS, LATENCY, REPEAT, TURNS, Observation
from lab.canary.rollout.watching import status_line, why


def failing(before: int, failed: int) -> Evidence:
    """Evidence of recalls without an error, then of failed ones, which have no repeat rate."""
    evidence = Evidence(Limits(latency=100, repeat=0.95))
    for _ in range(before):
        evidence.add(Observation(REPEAT, 0.87))
        evidence.add(Observation(LATENCY, 50.0))
        evidence.add(Observation(ERRORS, 0.0))
    for _ in range(failed):
        evidence.add(Observation(ERRORS, 1.0, ("provider_unavailable",)))
    return evidence


def receipt(evidence: Evidence, alarm: Any = None) -> dict[str, Any]:
    return {
        "seen": sum(window["recalls"] for window in evidence.windows) + evidence.now.recalls,
        "windows": list(evidence.windows),
        "now": {"recalls": evidence.now.recalls, **evidence.now.figures()},
        "figures": {
            name: {"evidence": one.evidence, "threshold": one.threshold} for name, one in evidence.detectors.items()
        },
        "learning": {},
        "recent_causes": evidence.last.causes,
        "turns_missed": evidence.missed,
        "alarm": alarm,
    }


def test_errors_are_said_of_the_last_recalls_alone() -> None:
    evidence = failing(1300, 120)
    line = status_line(receipt(evidence, {"figure": ERRORS}))
    assert line.startswith("1,420 recalls; of the last 120: errors 100.0% (evidence more than a million times")
    said = (
        "the engine did not work in 100.0% of the last 120 recalls: provider_unavailable 120; allowed: 1.0% (evidence"
    )
    assert why(evidence, ERRORS).startswith(said)
    assert "times the threshold; provider_unavailable 120)" in line
    assert len(line) < 230


def test_repeat_rate_stays_known_while_recalls_fail() -> None:
    assert "repeat 0.87 earlier" in status_line(receipt(failing(300, 250)))
    assert "repeat 0.87 (" in status_line(receipt(failing(300, 30)))
    assert "repeat none yet" in status_line(receipt(failing(0, 30)))


def test_evidence_below_and_above_the_threshold() -> None:
    quiet = status_line(receipt(failing(50, 0)))
    assert quiet.startswith("50 recalls: errors 0.0% (evidence 0%)")
    evidence = failing(0, 0)
    evidence.detectors[ERRORS].evidence = 40 * evidence.detectors[ERRORS].threshold
    assert "evidence 40 times the threshold" in status_line(receipt(evidence))
    assert "(evidence 769,231, threshold 19,231)" in why(evidence, ERRORS)


def test_latency_of_an_alarm_is_that_of_the_last_recalls() -> None:
    evidence = failing(100, 0)
    for _ in range(20):
        evidence.add(Observation(LATENCY, 400.0))
        evidence.add(Observation(ERRORS, 0.0))
    assert "p95 50 ms" in status_line(receipt(evidence))
    assert "p95 400 ms" in status_line(receipt(evidence, {"figure": LATENCY}))
    assert "is 400 ms; allowed: 100 ms" in why(evidence, LATENCY)


def test_dead_plugin_is_said_with_the_turns_that_waited() -> None:
    evidence = failing(20, 0)
    for _ in range(8):
        evidence.add(Observation(TURNS, 1.0))
    assert evidence.alarm == TURNS
    # Eight turns had to follow the last one that was missed.
    assert why(evidence, TURNS).startswith("the log got no recall after 16 turns of users in a row: the plugin is dead")
    assert "turns without a recall 8 (evidence" in status_line(receipt(evidence, {"figure": TURNS}))
