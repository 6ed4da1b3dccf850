"""The rule-based observer: keep the most important sentences of a turn or a memory (OB-3). A pure function."""

from __future__ import annotations

from typing import NamedTuple

from lab.recordings.model import SEARCHED
from lab.systems.observations.log import Observation, folded, whole_minute
from lab.systems.openclaw.capture.secrets import looks_secret
from lab.systems.plans import due_in
from lab.systems.rsclaw.extract import sentences
from lab.systems.sidecar.heuristic import BASELINE, grade_observation

# The longest text of an observation, in characters.
LONGEST = 120
CUT = "…"


class Entry(NamedTuple):
    """A turn or a memory in the raw buffer; ``due_ms`` is the due time that a memory has as a field, if any."""

    key: str
    text: str
    time_ms: int
    sources: tuple[str, ...]
    due_ms: int | None = None


class _Sentence(NamedTuple):
    position: int
    text: str
    score: float


def observe(entry: Entry) -> Observation | None:
    """Return the observation of an entry, None if nothing of it is worth keeping (OB-3).

    Texts with a secret, and texts with nothing but questions and sentences that heuristic-v1 grades below its baseline,
    are left out. A text of at most :data:`LONGEST` characters is kept unchanged; from a longer one, the sentences with
    the highest grades are kept, in their order.
    """
    text = folded(entry.text[:SEARCHED])
    if not text or looks_secret(text):
        return None
    graded = [_Sentence(position, part, _score(part)) for position, part in enumerate(sentences(text))]
    kept = [part for part in graded if part.score >= BASELINE and not part.text.endswith(("?", "？"))]
    if not kept:
        return None
    if len(text) > LONGEST:
        text = _extract(kept)
    label = grade_observation({"summary": text}).label
    return observation_of(entry, text, label, entry.sources)


def observation_of(entry: Entry, text: str, label: str, sources: tuple[str, ...]) -> Observation:
    """Return an observation of an entry, at its time; the entry or the text gives the due time."""
    due = due_in(text, entry.time_ms) if entry.due_ms is None else entry.due_ms
    return Observation(
        entry.key, whole_minute(entry.time_ms), label, text, sources, None if due is None else whole_minute(due)
    )


def _score(text: str) -> float:
    return grade_observation({"summary": text}).score


def _extract(graded: list[_Sentence]) -> str:
    """Return the sentences with the highest scores that fit, in their order; the start of the best one if none fits."""
    chosen: list[_Sentence] = []
    room = LONGEST
    for part in sorted(graded, key=lambda part: (-part.score, part.position)):
        if len(part.text) <= room:
            chosen.append(part)
            room -= len(part.text) + 1
    if not chosen:
        best = min(graded, key=lambda part: (-part.score, part.position))
        return f"{best.text[: LONGEST - len(CUT)].rstrip()}{CUT}"
    return " ".join(part.text for part in sorted(chosen))
