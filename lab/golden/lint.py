"""Whether a golden set fits the recordings that it judges.

The recordings are handed in: this room knows none by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lab.golden.model import GoldenSet, Probe

if TYPE_CHECKING:
    from lab.recordings.model import Recording

# Fewer conversations than this and no exact two-sided sign-flip test reaches p < .05.
ENOUGH_CONVERSATIONS = 6


@dataclass(frozen=True, slots=True)
class Lint:
    """Counts and findings; ``silent`` are the probes that need nothing."""

    probes: int
    judgements: int
    silent: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def lint(golden: GoldenSet, recordings: Sequence[Recording]) -> Lint:
    """Everything that is wrong (errors) or doubtful (warnings) between a golden set and its recordings."""
    errors = probe_problems(recordings, golden.probes)
    warnings: list[str] = []
    by_name = {recording.conversation: recording for recording in recordings}
    for probe in golden.probes:
        if probe.conversation in by_name:
            _check(probe, by_name[probe.conversation], errors, warnings)
    conversations = {probe.conversation for probe in golden.probes}
    if len(conversations) < ENOUGH_CONVERSATIONS:
        warnings.append(
            f"{len(conversations)} conversations: a two-sided sign-flip test needs {ENOUGH_CONVERSATIONS} for p < .05"
        )
    judgements = sum(len(probe.relevant) + len(probe.forbidden) for probe in golden.probes)
    silent = sum(not probe.relevant for probe in golden.probes)
    return Lint(len(golden.probes), judgements, silent, tuple(errors), tuple(warnings))


def probe_problems(recordings: Sequence[Recording], probes: Iterable[Probe]) -> list[str]:
    """Probes that occur twice or name what is not there, a sentence each: with these nothing can be replayed."""
    by_name = {recording.conversation: recording for recording in recordings}
    turns = {name: {turn.key for turn in one.turns} for name, one in by_name.items()}
    keys = {name: {memory.key for memory in one.memories} for name, one in by_name.items()}
    problems: list[str] = []
    seen: set[str] = set()
    for probe in probes:
        at = f"golden set: probe {probe.id}"
        if probe.id in seen:
            problems.append(f"{at} occurs twice")
        seen.add(probe.id)
        if probe.conversation not in by_name:
            problems.append(f"{at} names conversation {probe.conversation!r}, which no recording has")
            continue
        if probe.turn is not None and probe.turn not in turns[probe.conversation]:
            problems.append(f"{at} names turn {probe.turn!r}, which the recording does not have")
        problems += [
            f"{at} names memory {judgement.memory!r}, which the recording does not have"
            for judgement in (*probe.relevant, *probe.forbidden)
            if judgement.memory not in keys[probe.conversation]
        ]
    return problems


def _check(probe: Probe, recording: Recording, errors: list[str], warnings: list[str]) -> None:
    memories = {memory.key: memory for memory in recording.memories}
    turn = next((one for one in recording.turns if one.key == probe.turn), None)
    if probe.turn and turn is None:
        return
    at = f"golden set: probe {probe.id}"
    relevant = {judgement.memory for judgement in probe.relevant}
    judged = [judgement.memory for judgement in (*probe.relevant, *probe.forbidden)]
    errors += [f"{at} judges {key} twice" for key in sorted({key for key in judged if judged.count(key) > 1})]
    text = turn.text if turn else probe.query or ""
    for judgement in (*probe.relevant, *probe.forbidden):
        memory = memories.get(judgement.memory)
        if memory is None:
            continue
        if turn and memory.visible_from > turn.seq:
            errors.append(f"{at} judges {memory.key}, which is born after it")
        if not judgement.reason:
            warnings.append(f"{at} gives no reason for {memory.key}")
        if memory.key in relevant:
            if turn and memory.scope not in (turn.scope, "global"):
                warnings.append(f"{at} is of scope {turn.scope}, its gold {memory.key} of {memory.scope}")
            if len(memory.text) >= 20 and memory.text in text:
                warnings.append(f"{at} quotes its gold {memory.key}")
