"""Check a golden set against the recordings that it judges, and find doubtful judgements.

The caller passes the recordings, because this package does not depend on :mod:`lab.recordings`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lab.base.formatting import counted, folded
from lab.base.regex import regex
from lab.golden.model import (
    ABSENT,
    CONDITIONS,
    IRRELEVANT,
    NOTHING,
    SUPERSEDED,
    TYPES,
    Aside,
    GoldenSet,
    Probe,
    added_key,
    is_added,
    marks,
    original_key,
)

if TYPE_CHECKING:
    from lab.recordings.model import Memory, Recording, Turn

# A shorter text, in characters, is too unspecific to count as quoted.
QUOTABLE = 20
# Lengths of the character n-grams that are compared: long enough for a phrase, also in Chinese.
GRAM, LEAKED_GRAM = 3, 8
NUMBER = regex(r"[a-z0-9_.:/-]*[0-9][a-z0-9_:/-]*")
# Share of common n-grams at which two texts are near-duplicates, and at which a turn leaks its answer.
NEARLY, LEAKED = 0.75, 0.6


def doubts(probe: Probe, recording: Recording, turn: Turn | None, refused: Collection[str]) -> Iterator[str]:
    """Yield the doubts about a probe, as predicates of "probe <id> …".

    ``turn`` is the turn of the probe, or None for a separate query. ``refused`` holds the keys of memories that were
    judged not relevant.
    """
    memories = {memory.key: memory for memory in recording.memories}
    visible = [memory for memory in recording.memories if turn is None or memory.is_visible_at(turn.seq)]
    judged = dict.fromkeys(refused, "0") | marks(probe)
    relevant = [memories[judgement.memory] for judgement in probe.relevant if judgement.memory in memories]
    if relevant and probe.slices.get("type") == NOTHING:
        yield f"has the type {NOTHING}, but a relevant memory"
    asks_for_absent = probe.slices.get("condition") == ABSENT
    if not probe.relevant and not asks_for_absent and probe.slices.get("type", NOTHING) in set(TYPES) - {NOTHING}:
        yield f"has the type {probe.slices['type']}, but no relevant memory"
    text = turn.text if turn else probe.query or ""
    for memory in relevant:
        if turn and memory.scope not in (turn.scope, "global"):
            yield f"has the scope {turn.scope}, but its relevant memory {memory.key} has the scope {memory.scope}"
        if len(memory.text) >= QUOTABLE and memory.text in text:
            yield f"quotes its relevant memory {memory.key}"
        elif len(memory.text) >= QUOTABLE and _contained_share(memory.text, text) >= LEAKED:
            yield f"contains most of its relevant memory {memory.key}"
    for newer in visible:
        for older in newer.supersedes:
            if judged.get(older) in ("1", "2") and older in memories:
                yield f"judges {older} relevant, which {newer.key} had already superseded"
    yield from _duplicates(relevant, visible, judged, {memory.key: _replaced(memory, visible) for memory in relevant})


def _duplicates(
    relevant: list[Memory], visible: list[Memory], judged: dict[str, str], replaced: dict[str, set[str]]
) -> Iterator[str]:
    """Yield the duplicates of relevant memories that are judged differently or not at all."""
    reported: set[frozenset[str]] = set()
    runs = {memory.key: _runs(memory.text, GRAM) for memory in (*relevant, *visible)}
    for memory in relevant:
        for other in visible:
            pair = frozenset((memory.key, other.key))
            if len(pair) == 1 or pair in reported or other.scope != memory.scope or other.key in replaced[memory.key]:
                continue
            reported.add(pair)
            mark, gold = judged.get(other.key), judged[memory.key]
            if folded(memory.text) == folded(other.text):
                if mark is not None and mark != gold:
                    yield f"judges {memory.key} {gold} but {other.key} {mark}, which has the same text"
                elif mark is None:
                    yield f"lists {memory.key} but not {other.key}, which has the same text"
            elif (
                mark is None
                and _numbers(memory.text) == _numbers(other.text)
                and _jaccard(runs[memory.key], runs[other.key]) >= NEARLY
            ):
                yield f"lists {memory.key} but not {other.key}, which has nearly the same text"


def _replaced(memory: Memory, visible: list[Memory]) -> set[str]:
    """Return the keys of the memories that this memory supersedes or that supersede it; they are naturally similar."""
    return {*memory.supersedes, *(other.key for other in visible if memory.key in other.supersedes)}


def _numbers(text: str) -> set[str]:
    """Return the numbers, dates and identifiers of a text; texts that differ in them are not duplicates."""
    return set(NUMBER.findall(text.casefold()))


def _runs(text: str, length: int) -> set[str]:
    plain = folded(text)
    return {plain[start : start + length] for start in range(max(1, len(plain) - length + 1))}


def _jaccard(left: set[str], right: set[str]) -> float:
    """Return the Jaccard similarity, or 0 if it cannot reach :data:`NEARLY`."""
    # Sizes rule out most pairs without computing the intersection.
    if min(len(left), len(right)) < NEARLY * max(len(left), len(right)):
        return 0.0
    return len(left & right) / len(left | right)


def _contained_share(memory: str, text: str) -> float:
    runs = _runs(memory, LEAKED_GRAM)
    return len(runs & _runs(text, LEAKED_GRAM)) / len(runs)


# With fewer conversations, no exact two-sided sign-flip test can reach p < .05.
ENOUGH_CONVERSATIONS = 6
# A message names at most this many conversations.
FEW = 3
WITHOUT_REASON = "gives no reason for"
NOTHING_BESIDE = Aside({}, {})


@dataclass(frozen=True, slots=True)
class Lint:
    """The counts and findings of a check.

    ``silent`` counts the probes without a relevant memory; ``relevant``, ``forbidden`` and ``refused`` (irrelevant)
    count judgements; ``unjudged`` counts the memories that a judge saw but did not grade; ``conditions`` maps each
    planted condition to its number of probes. ``captures`` counts the candidates of captures by judgement.
    """

    probes: int
    silent: int
    relevant: int
    forbidden: int
    refused: int
    unjudged: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    conditions: dict[str, int] = field(default_factory=dict)
    captures: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON-serializable values."""
        return asdict(self)


def lint(
    golden: GoldenSet,
    recordings: Sequence[Recording],
    beside: Aside = NOTHING_BESIDE,
    equal: Sequence[Sequence[str]] = (),
    *,
    complete: bool = True,
) -> Lint:
    """Return the errors and the warnings (doubtful judgements) of a golden set.

    ``beside`` holds the refused and ungraded memories from the judges' side files; golden sets of older versions do not
    list the refused ones. ``equal`` holds groups of duplicate conversations (:mod:`lab.recordings.model`); judging two
    of a group counts the same evidence twice. Without ``complete``, the set has other conversations, whose memories may
    be in a haystack. Judgements without a reason come last, because there may be many.
    """
    errors = (
        probe_problems(recordings, golden.judged, complete=complete) if golden.judged else ["golden set: has no probe"]
    )
    warnings: list[str] = []
    without_reason: list[str] = []
    by_name = {recording.conversation: recording for recording in recordings}
    for probe in golden.probes:
        if probe.conversation in by_name:
            recording = by_name[probe.conversation]
            turn = next((turn for turn in recording.turns if turn.key == probe.turn), None)
            if probe.turn and turn is None:
                continue
            label = f"golden set: probe {probe.id}"
            errors += [f"{label} {problem}" for problem in _mistakes(probe, recording, turn)]
            warnings += [f"{label} {doubt}" for doubt in doubts(probe, recording, turn, refused_of(probe, beside))]
            without_reason += [f"{label} {WITHOUT_REASON} {key}" for key in _without_reason(probe, recording)]
    for capture in golden.captures:
        errors += [f"golden set: {capture.id} {problem}" for problem in _capture_mistakes(capture, by_name)]
    errors += _disagreeing(golden.probes)
    warnings += _unread(golden.probes, by_name)
    first = {name: group[0] for group in equal for name in group}
    judged = {probe.conversation for probe in golden.judged}
    for group in equal:
        twice = [name for name in group if name in judged]
        if len(twice) > 1:
            errors.append(f"golden set: {', '.join(twice)} have the same turns, or nearly so; judge only one of them")
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
        sum(len(refused_of(probe, beside)) for probe in golden.probes),
        sum(len(beside.unjudged.get(probe.id, ())) for probe in golden.probes),
        tuple(errors),
        (*warnings, *without_reason),
        dict(Counter(probe.slices["condition"] for probe in golden.probes if "condition" in probe.slices)),
        {name: count for name, count in _capture_counts(golden).items() if count},
    )


def _capture_counts(golden: GoldenSet) -> dict[str, int]:
    """Return how many candidates are to be kept, not to be kept, and never to be stored."""
    return {
        "keep": sum(len(capture.relevant) for capture in golden.captures),
        "not to keep": sum(len(capture.irrelevant) for capture in golden.captures),
        "never to store": sum(len(capture.forbidden) for capture in golden.captures),
    }


def refused_of(probe: Probe, beside: Aside) -> set[str]:
    """Return the memories judged irrelevant for a probe, in its golden set or beside it."""
    listed = {judgement.memory for judgement in (*probe.relevant, *probe.forbidden)}
    return {*probe.irrelevant, *beside.refused.get(probe.id, ())} - listed


def probe_problems(recordings: Sequence[Recording], probes: Iterable[Probe], *, complete: bool = False) -> list[str]:
    """Return the problems that prevent a replay: duplicate probes and unknown conversations, turns and memories.

    Haystack memories of conversations that were not read cannot be checked: unless the recordings are the ``complete``
    set, they are allowed. An irrelevant one is always, because a replay without it loses nothing.
    """
    by_name = {recording.conversation: recording for recording in recordings}
    turns = {name: {turn.key for turn in recording.turns} for name, recording in by_name.items()}
    keys = {name: {memory.key for memory in recording.memories} for name, recording in by_name.items()}
    added = {added_key(name, key): name for name, of_recording in keys.items() for key in of_recording}
    problems: list[str] = []
    seen: set[str] = set()
    for probe in probes:
        label = f"golden set: probe {probe.id}"
        if probe.id in seen:
            problems.append(f"{label} occurs twice")
        seen.add(probe.id)
        if probe.conversation not in by_name:
            problems.append(f"{label} names conversation {probe.conversation!r}, which no recording has")
            continue
        if probe.turn is not None and probe.turn not in turns[probe.conversation]:
            problems.append(f"{label} names turn {probe.turn!r}, which the recording does not have")
        problems += [
            f"{label} names memory {key!r}, which the recording does not have"
            for part in _listed(probe)
            for key in part
            if key not in keys[probe.conversation]
            and not _may_be_added(key, probe.conversation, added)
            and ((complete and part is not probe.irrelevant) or not _is_unread(key, keys))
        ]
    return problems


def _listed(probe: Probe) -> tuple[Iterable[str], Iterable[str]]:
    """Return the relevant and forbidden memories of a probe, and the irrelevant ones."""
    return [judgement.memory for judgement in (*probe.relevant, *probe.forbidden)], probe.irrelevant


def _may_be_added(key: str, conversation: str, added: Mapping[str, str]) -> bool:
    """Return whether a key is that of a haystack memory that the conversation may be given.

    Keys of other sets cannot be checked, because the recordings do not tell which sets those are.
    """
    if not is_added(key):
        return False
    known = added.get(key)
    return known != conversation if known else ":" in _source(key)


def _is_unread(key: str, read: Container[str]) -> bool:
    """Return whether a key is that of a haystack memory of a conversation that was not read."""
    return is_added(key) and bool(_source(key)) and _source(key) not in read


def _source(key: str) -> str:
    return original_key(key).split("/")[0]


def _unread(probes: Iterable[Probe], read: Container[str]) -> Iterator[str]:
    """Yield the warning that some irrelevant memories cannot be checked, if there are any."""
    unread = [key for probe in probes for key in probe.irrelevant if ":" not in _source(key) and _is_unread(key, read)]
    if unread:
        names = sorted({_source(key) for key in unread})
        listed = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        yield (
            f"golden set: {counted(len(unread), 'irrelevant memory')} cannot be checked, because the recordings lack "
            f"their conversations: {listed}"
        )


def _mistakes(probe: Probe, recording: Recording, turn: Turn | None) -> Iterator[str]:
    judged = [key for part in _listed(probe) for key in part]
    yield from (f"judges {key} twice" for key, times in sorted(Counter(judged).items()) if times > 1)
    known = {memory.key: memory for memory in recording.memories}
    for key in judged:
        if turn and key in known and known[key].visible_from > turn.seq:
            yield f"judges {key}, which does not exist yet at that turn"
        elif turn and key in known and known[key].is_forgotten_at(turn.seq):
            yield f"judges {key}, which is forgotten before that turn"
    yield from _condition_mistakes(probe, recording)


def _capture_mistakes(capture: Probe, by_name: Mapping[str, Recording]) -> Iterator[str]:
    judged = [key for part in _listed(capture) for key in part]
    yield from (f"judges {key} twice" for key, times in sorted(Counter(judged).items()) if times > 1)
    yield from (f"judges {key}, which is no candidate of its turn" for key in judged if _turn_of(key) != capture.turn)
    recording = by_name.get(capture.conversation)
    candidates = [memory.key for memory in recording.memories] if recording else []
    unjudged = [key for key in candidates if _turn_of(key) == capture.turn and key not in judged]
    yield from (f"does not judge {key}" for key in unjudged)


def _turn_of(key: str) -> str:
    return key.rpartition("#")[0]


def _condition_mistakes(probe: Probe, recording: Recording) -> Iterator[str]:
    """Yield what a probe lacks for its condition to be planted."""
    condition = probe.slices.get("condition")
    if condition is None:
        return
    if condition not in CONDITIONS:
        yield f"has the condition {condition!r}; known: {', '.join(CONDITIONS)}"
        return
    if not probe.forbidden and condition != ABSENT:
        yield f"has the condition {condition}, but no forbidden memory"
    if condition == ABSENT and probe.relevant:
        yield f"has the condition {condition}, but a relevant memory"
    elif condition != ABSENT and not probe.relevant:
        yield f"has the condition {condition}, but no relevant memory"
    older = {memory.key: memory.supersedes for memory in recording.memories}
    replaced, found = set[str](), [judgement.memory for judgement in probe.relevant]
    while found:
        found = [key for name in found for key in older.get(name, ()) if key not in replaced]
        replaced |= set(found)
    if condition == SUPERSEDED and not any(judgement.memory in replaced for judgement in probe.forbidden):
        yield f"has the condition {condition}, but no forbidden memory that a relevant one supersedes"


def _without_reason(probe: Probe, recording: Recording) -> Iterator[str]:
    known = {memory.key for memory in recording.memories}
    for judgement in (*probe.relevant, *probe.forbidden):
        if judgement.memory in known and not judgement.reason:
            yield judgement.memory


def _disagreeing(probes: Iterable[Probe]) -> Iterator[str]:
    """Yield the pairs of probes with the same turn or query but different judgements."""
    first: dict[tuple[str, str], Probe] = {}
    for probe in probes:
        question = probe.turn or folded(probe.query or "")
        earlier = first.setdefault((probe.conversation, question), probe)
        # A memory without a judgement counts as irrelevant, so judging it so in one of the probes is no contradiction.
        one, other = marks(earlier), marks(probe)
        differ = [key for key in (*one, *other) if one.get(key, IRRELEVANT) != other.get(key, IRRELEVANT)]
        if differ:
            key = differ[0]
            yield f"golden set: probes {earlier.id} and {probe.id} have the same question, but judge {key} differently"
