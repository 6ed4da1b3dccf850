"""The observer, which keeps what matters of a turn or a memory: by rules (OB-3), or as recorded (OB-4).

The rule-based observer keeps the most important sentences and is a pure function. A recorded one has the output of a
language model for each turn or memory, read from a JSONL file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import expect, field, only_keys, optional
from lab.recordings.model import LABELS, SEARCHED
from lab.systems.observations.log import Observation, folded, whole_minute
from lab.systems.openclaw.capture.secrets import looks_secret
from lab.systems.plans import due_in
from lab.systems.rsclaw.extract import sentences
from lab.systems.sidecar import BASELINE, grade_observation, graded_label

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


# Longer texts are refused: the log would hold little else.
MOST_CHARS = 2000
Observe = Callable[[Entry], Observation | None]


class Output(NamedTuple):
    """The output for an entry. A blank text keeps nothing. Without ``sources``, the entry is the source."""

    text: str
    label: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outputs of a file by the key of a turn or a memory."""

    path: str
    outputs: Mapping[str, Output]

    def observe(self, entry: Entry) -> Observation | None:
        """Return the recorded observation of an entry, None if nothing is kept.

        Raises :class:`UnusableInput` if the file has none: it belongs to another recording, or is incomplete.
        """
        key = entry.sources[0]
        output = self.outputs.get(key)
        if output is None:
            raise UnusableInput(
                f"{self.path}: has no line for {key}; record the observer's outputs for this recording, one line each"
            )
        if not output.text:
            return None
        return observation_of(entry, output.text, output.label, output.sources or entry.sources)


def observer_of(path: str) -> Observe:
    """Return the rule-based observer, or that of a file of recorded outputs if ``path`` is not blank."""
    return read_outputs(Path(path)).observe if path else observe


def read_outputs(path: Path) -> Recorded:
    """Read recorded outputs, one a line: ``{"entry": KEY, "text": TEXT, "importance": LABEL}``.

    The importance may also be a score from 0 to 1; ``sources`` are the keys of all entries that the text sums up.
    Raises :class:`UnusableInput`, naming the line.
    """
    if not path.is_file():
        raise UnusableInput(f"{path}: no such file of recorded observer outputs")
    outputs: dict[str, Output] = {}
    for number, record in read_json_lines(path):
        at = f"{path}:{number}"
        only_keys(record, ("entry", "text", "importance", "sources"), at)
        key, text = field(record, "entry", str, at), folded(field(record, "text", str, at))
        if key in outputs:
            raise UnusableInput(f"{at}: entry {key!r} occurs twice")
        if len(text) > MOST_CHARS:
            raise UnusableInput(f"{at}: field 'text': {len(text)} characters; at most {MOST_CHARS} are allowed")
        listed = optional(record, "sources", list, [], at)
        sources = tuple(expect(source, str, f"{at}: field 'sources'") for source in listed)
        if not all(sources):
            raise UnusableInput(f"{at}: field 'sources': a key is blank")
        outputs[key] = Output(text, _label(record.get("importance", 0.0), at), sources)
    return Recorded(str(path), outputs)


def _label(value: object, at: str) -> str:
    if isinstance(value, str) and value in LABELS:
        return value
    if not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= 1:
        return graded_label(value)
    raise UnusableInput(
        f"{at}: field 'importance': expected a number from 0 to 1, or one of {', '.join(LABELS)}, found {value!r:.40}"
    )
