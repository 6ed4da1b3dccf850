"""Labels graded from the text of memories."""

from __future__ import annotations

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.labels import Labels, choose_labels, labels_note

TEXTS = ("Never push to main, we decided", "We decided to use LanceDB", "The kiln is blue", "thanks")


def recording() -> Recording:
    memories = tuple(Memory(f"c/s/t#{number}", text, text, 1, number) for number, text in enumerate(TEXTS))
    return Recording("c", (Turn("c/s/t", 0, "s", "user", "hello", 0),), memories)


def test_heuristic_labels_grade_text_as_a_note() -> None:
    assert list(Labels("heuristic-v1").of(recording(), []).values()) == [
        "must_remember",
        "nice_to_have",
        "ignore",
        "ignore",
    ]


def test_choose_labels_heuristic_describes_itself() -> None:
    labels = choose_labels("heuristic-v1", [recording()], None, None, 0)
    assert labels.describe() == {"mode": "heuristic-v1"}
    with pytest.raises(UnusableInput, match="these are graded by heuristic-v1; add --labels sampled"):
        choose_labels("heuristic-v1", [recording()], 0.1, None, 0)


def test_labels_note_heuristic_counts_ignored_memories() -> None:
    labels = Labels("heuristic-v1")
    assert labels_note(labels, "heuristic-v1", [labels.of(recording(), [])] * 2) == (
        "labels by heuristic-v1: 1 must_remember, 1 nice_to_have, 2 ignore; 2 of 4 memories are labelled ignore, "
        "which belongs to no tier, so arms with tiers cannot recall them"
    )
    note = labels_note(labels, "heuristic-v1", [{"a#1": "ignore", "a#2": "unknown"}, {"b#1": "ignore"}])
    assert note is not None
    assert "2 ignore, 1 unknown; 2 of 3 memories are labelled ignore" in note


def test_labels_note_requested_or_recorded_is_none() -> None:
    assert labels_note(Labels("sampled"), "sampled", []) is None
    assert labels_note(Labels("recorded"), None, []) is None
    assert labels_note(Labels("sampled"), None, []) == (
        "the recordings have no labels, so labels are sampled: must 0.10, nice 0.63, seed 0"
    )
