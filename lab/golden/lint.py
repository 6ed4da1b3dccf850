"""Whether a golden set fits the recordings that it judges.

The recordings are handed in: this room knows none by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lab.formatting import counted
from lab.golden.changes import marks
from lab.golden.doubts import doubts
from lab.golden.judging import Aside
from lab.golden.model import GoldenSet, Probe

if TYPE_CHECKING:
    from lab.recordings.model import Recording, Turn

# Fewer conversations than this and no exact two-sided sign-flip test reaches p < .05.
ENOUGH_CONVERSATIONS = 6
WITHOUT_REASON = "gives no reason for"
NOTHING_BESIDE = Aside({}, {})


@dataclass(frozen=True, slots=True)
class Lint:
    """Counts and findings.

    ``silent`` are the probes that need nothing; ``relevant``, ``forbidden`` and ``refused`` count judgements,
    ``unjudged`` what a judge was shown and did not grade.
    """

    probes: int
    silent: int
    relevant: int
    forbidden: int
    refused: int
    unjudged: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def lint(
    golden: GoldenSet,
    recordings: Sequence[Recording],
    beside: Aside = NOTHING_BESIDE,
    equal: Sequence[Sequence[str]] = (),
) -> Lint:
    """Everything that is wrong (errors) or doubtful (warnings) between a golden set and its recordings.

    ``equal`` are groups of conversations that say the same (:mod:`lab.recordings.equal`): judging two of a group counts
    the same evidence twice.
    ``beside`` is what side files of judges know: memories that were found not relevant, which a golden set does not
    list, and those that nobody graded.
    Judgements without a reason come last: in a set of one's own there may be many.
    """
    errors = probe_problems(recordings, golden.probes) if golden.probes else ["golden set: holds no probe"]
    warnings: list[str] = []
    bare: list[str] = []
    by_name = {recording.conversation: recording for recording in recordings}
    for probe in golden.probes:
        if probe.conversation in by_name:
            recording = by_name[probe.conversation]
            turn = next((one for one in recording.turns if one.key == probe.turn), None)
            if probe.turn and turn is None:
                continue
            at = f"golden set: probe {probe.id}"
            errors += [f"{at} {problem}" for problem in _mistakes(probe, recording, turn)]
            warnings += [f"{at} {doubt}" for doubt in doubts(probe, recording, turn, beside.refused.get(probe.id, ()))]
            bare += [f"{at} {WITHOUT_REASON} {one}" for one in _without_reason(probe, recording)]
    errors += _disagreeing(golden.probes)
    first = {name: group[0] for group in equal for name in group}
    judged = {probe.conversation for probe in golden.probes}
    for group in equal:
        twice = [name for name in group if name in judged]
        if len(twice) > 1:
            errors.append(f"golden set: {', '.join(twice)} say the same, turn by turn; judge one of them alone")
    conversations = {first.get(name, name) for name in judged}
    if len(conversations) < ENOUGH_CONVERSATIONS:
        warnings.append(
            f"{counted(len(conversations), 'conversation')}: a two-sided sign-flip test needs {ENOUGH_CONVERSATIONS} "
            "for p < .05"
        )
    return Lint(
        len(golden.probes),
        sum(not probe.relevant for probe in golden.probes),
        sum(len(probe.relevant) for probe in golden.probes),
        sum(len(probe.forbidden) for probe in golden.probes),
        sum(len(beside.refused.get(probe.id, ())) for probe in golden.probes),
        sum(len(beside.unjudged.get(probe.id, ())) for probe in golden.probes),
        tuple(errors),
        (*warnings, *bare),
    )


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


def _mistakes(probe: Probe, recording: Recording, turn: Turn | None) -> Iterator[str]:
    judged = [judgement.memory for judgement in (*probe.relevant, *probe.forbidden)]
    yield from (f"judges {key} twice" for key in sorted({key for key in judged if judged.count(key) > 1}))
    known = {memory.key: memory for memory in recording.memories}
    for key in judged:
        if turn and key in known and known[key].visible_from > turn.seq:
            yield f"judges {key}, which is born after it"
        elif turn and key in known and known[key].is_forgotten_at(turn.seq):
            yield f"judges {key}, which was forgotten before it"


def _without_reason(probe: Probe, recording: Recording) -> Iterator[str]:
    known = {memory.key for memory in recording.memories}
    for judgement in (*probe.relevant, *probe.forbidden):
        if judgement.memory in known and not judgement.reason:
            yield judgement.memory


def _disagreeing(probes: Iterable[Probe]) -> Iterator[str]:
    """Probes that ask the same and want something else: the same turn, or the same words from outside."""
    first: dict[tuple[str, str], Probe] = {}
    for probe in probes:
        asks = probe.turn or " ".join((probe.query or "").casefold().split())
        before = first.setdefault((probe.conversation, asks), probe)
        if before is not probe and marks(before) != marks(probe):
            key = next(
                key for key in (*marks(before), *marks(probe)) if marks(before).get(key) != marks(probe).get(key)
            )
            yield f"golden set: probe {probe.id} asks what {before.id} asks, and judges {key} otherwise"
