"""Signals of silence, and their thresholds."""

from __future__ import annotations

import pytest

from lab.retrieval.contract import Hit, Lanes
from lab.retrieval.silence import SIGNALS, Silence

# Cosines .9, .7, .5, .3, .1, -.1, -.3.
LANES = Lanes([Hit(0, 30.0), Hit(1, 5.0)], [Hit(row, 1.0, 0.2 + 0.4 * row) for row in range(7)])


@pytest.mark.parametrize(
    ("signal", "expected"), [("top", 0.9), ("mean", 0.4), ("margin", 0.9 - 0.3), ("words", 30 / 40)]
)
def test_signal_of_lanes_has_the_worked_value(signal: str, expected: float) -> None:
    assert SIGNALS[signal](LANES) == pytest.approx(expected)
    assert not Silence(signal, expected - 1e-6).applies(LANES)
    assert Silence(signal, expected + 1e-6).applies(LANES)


def test_silence_without_threshold_never_applies() -> None:
    assert not any(Silence(signal).applies(lanes) for signal in SIGNALS for lanes in (LANES, Lanes([], [])))


def test_silence_without_vector_applies_only_by_words() -> None:
    """Recall continues with the text lane if there is no embedding."""
    lanes = Lanes(LANES.fts, [])
    assert [signal for signal in SIGNALS if Silence(signal, 1.0).applies(lanes)] == ["words"]
    assert Silence("words", 0.01).applies(Lanes([], LANES.vec))
