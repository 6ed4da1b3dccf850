"""What systems wrote in a conversation, as ``writes/<conversation>.parquet``, without texts.

Captured items are judged here, because a run holds no texts: by the captures of the golden set, by the memories that
its probes need, and against each other (E-82). A golden set names the recorded memories, but a system that captures
memories from the turns creates its own. So each captured item is judged as the recorded memory that it is aligned to:
one of its source turn or, if that turn has none, one with similar words. An item without such a memory is unjudged, and
reports always show how many there are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from lab.base.columns import booleans, lists, numbers, strings
from lab.base.formatting import folded
from lab.base.regex import regex
from lab.golden.model import GoldenSet
from lab.recordings.model import Recording
from lab.replay.loop import TurnWrites
from lab.systems.contract import Stored
from lab.systems.openclaw.capture.secrets import looks_secret
from lab.systems.openclaw.js import js_json
from lab.systems.openclaw.near_duplicate import NearDuplicates

if TYPE_CHECKING:
    import pyarrow as pa

Rule = Literal["source", "text"]
# Minimum F1 of the words of two texts that count as the same memory.
LEAST = 0.6
_WORDS = regex(r"[^\W_]+", re.UNICODE)


class Alignment(NamedTuple):
    """The memory that a captured item corresponds to, the rule that matched, and the F1 of their words (0 to 1)."""

    memory: str
    rule: Rule
    score: float


class Aligner:
    """Alignment of the captured items of one conversation with its judged memories.

    ``texts`` maps the keys of the judged memories to their texts. A key names the source of its memory
    (``<conversation>/<session>[/<turn>]#<ordinal>``). ``turns`` holds the keys of all turns.
    """

    def __init__(self, texts: Mapping[str, str], turns: Iterable[str]) -> None:
        known = set(turns)
        self._words = {key: words(text) for key, text in texts.items()}
        self._of_turn: dict[str, list[str]] = {}
        self._loose: list[str] = []
        for key in texts:
            turn = key.rpartition("#")[0]
            if turn in known:
                self._of_turn.setdefault(turn, []).append(key)
            else:
                self._loose.append(key)

    def align(self, text: str, sources: Sequence[str]) -> Alignment | None:
        """Return the memory that an item corresponds to, or None; ``sources`` are the keys of the item's source turns.

        Among the judged memories of the item's source turns, the memory with the highest F1 wins. If there are none,
        the memories without a known turn are compared, and the F1 must reach :data:`LEAST`. Ties are broken by key.
        """
        item_words = words(text)
        near = [key for turn in sources for key in self._of_turn.get(turn, ())]
        if near:
            best = min(near, key=lambda key: (-f1(item_words, self._words[key]), key))
            return Alignment(best, "source", f1(item_words, self._words[best]))
        score, best = min(((-f1(item_words, self._words[key]), key) for key in self._loose), default=(0.0, ""))
        return Alignment(best, "text", -score) if -score >= LEAST else None


def words(text: str) -> Counter[str]:
    """Return the case-folded words of a text with their counts. A word with CJK characters counts by character."""
    return Counter(
        part
        for word in _WORDS.findall(text.casefold())
        for part in (
            list(word)
            if any("\u3040" <= character <= "\u9fff" or character >= "\uac00" for character in word)
            else [word]
        )
    )


def f1(left: Counter[str], right: Counter[str]) -> float:
    """Return the F1 of two word counts: twice the common words over all words, or 0 if both are empty."""
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 0.0


KIND, VERSION = "lab.writes", "2"
# Alignments by arm and captured id; the last text of an id decides.
Aligned = Mapping[tuple[str, str], Alignment]
# Shorter texts occur in other texts by chance.
ECHO_CHARS = 20
# A part of a secret of at least this many characters counts as the secret.
SECRET_CHARS = 12


def alignments(recording: Recording, wrote: Sequence[TurnWrites]) -> Aligned:
    """Return the memory of the recording that each captured item is aligned to, if any."""
    if not wrote:
        return {}
    texts = {memory.key: memory.text for memory in recording.memories}
    aligner = Aligner(texts, (turn.key for turn in recording.turns))
    aligned: dict[tuple[str, str], Alignment] = {}
    for entry in wrote:
        for stored in (*entry.writes.created, *entry.writes.updated):
            alignment = aligner.align(stored.text, stored.sources)
            aligned.pop((entry.arm, stored.id), None)
            if alignment is not None:
                aligned[entry.arm, stored.id] = alignment
    return aligned


@dataclass(frozen=True, slots=True)
class Expected:
    """What should be kept of a conversation.

    ``judged`` are the judgements of its candidates by key: the grade, 0 not to keep, -1 never to store. ``secrets`` are
    the texts never to store, folded. ``gold`` are the memories that its probes need.
    """

    judged: Mapping[str, int]
    secrets: tuple[str, ...]
    gold: frozenset[str]

    @classmethod
    def of(cls, recording: Recording, golden: GoldenSet) -> Expected:
        """Return what the golden set says of a conversation."""
        judged = golden.kept(recording.conversation)
        secrets = [memory.text for memory in recording.memories if judged.get(memory.key) == -1]
        probes = golden.of(recording.conversation)
        gold = frozenset(judgement.memory for probe in probes for judgement in probe.relevant)
        return cls(judged, tuple(folded(text) for text in secrets), gold)

    def keep(self, match: Alignment | None) -> int | None:
        """Return the judgement of the candidate that an item is aligned to; None if it is unjudged.

        Other candidates of the turn were judged too, so the words must agree as between texts of different turns.
        """
        return self.judged.get(match.memory) if match is not None and match.score >= LEAST else None

    def leaks(self, text: str) -> bool:
        """Return whether a text has the form of a secret, or shares enough with one never to be stored (E-83)."""
        plain = folded(text)
        return looks_secret(text) or any(
            secret in plain or (len(plain) >= SECRET_CHARS and plain in secret) for secret in self.secrets
        )


class _Line(NamedTuple):
    """One line of the table. ``again`` and ``leak`` are false for what is not created or updated."""

    entry: TurnWrites
    what: str
    stored: Stored
    match: Alignment | None = None
    keep: int | None = None
    again: bool = False
    leak: bool = False
    receipt: str | None = None


def writes_table(wrote: Sequence[TurnWrites], aligned: Aligned, expected: Expected, turns: int) -> pa.Table:
    """Return the writes of a conversation: one row for each memory written, and one for each receipt.

    Columns: ``arm, turn, seq, what`` (created, updated, deleted or receipt), ``id, chars`` (Unicode characters; 0 if
    deleted), ``sources`` (a list), ``echo`` (the text repeats what was injected at this turn), and of the alignment
    (:class:`Alignment`) ``memory, rule, score``, null if there is none. ``keep`` is the judgement of the candidate
    that the item is aligned to: its grade, 0 not to keep, -1 never to store; null if it is unjudged. ``gold``: a probe
    needs the memory that it is aligned to. ``again``: it repeats an item that the arm stored before. ``leak``: it holds
    a secret. ``receipt``: the receipt as JSON. ``derived``: a recall wrote it, and no turn. The metadata has the number
    of ``turns``, of ``candidates`` to keep, and of memories that probes need (``gold``).
    """
    import pyarrow as pa

    rows = list(_lines(wrote, aligned, expected))
    sources = [row.stored.sources for row in rows]
    table = pa.table(
        {
            "arm": strings([row.entry.arm for row in rows]),
            "turn": strings([row.entry.turn.key for row in rows]),
            "seq": numbers([row.entry.turn.seq for row in rows], "int32"),
            "what": strings([row.what for row in rows]),
            "id": strings([row.stored.id for row in rows]),
            "chars": numbers([len(row.stored.text) for row in rows], "int32"),
            "sources": lists([len(keys) for keys in sources], strings([key for keys in sources for key in keys])),
            "echo": booleans([is_echo(row.stored.text, row.entry.context) for row in rows]),
            "memory": strings([row.match.memory if row.match else None for row in rows]),
            "rule": strings([row.match.rule if row.match else None for row in rows]),
            "score": numbers([row.match.score if row.match else None for row in rows], "float64"),
            "keep": numbers([row.keep for row in rows], "int8"),
            "gold": booleans([row.match is not None and row.match.memory in expected.gold for row in rows]),
            "again": booleans([row.again for row in rows]),
            "leak": booleans([row.leak for row in rows]),
            "receipt": strings([row.receipt for row in rows]),
            "derived": booleans([row.entry.derived for row in rows]),
        }
    )
    counts = {
        "turns": turns,
        "candidates": sum(grade > 0 for grade in expected.judged.values()),
        "gold": len(expected.gold),
    }
    return table.replace_schema_metadata(
        {"kind": KIND, "schema_version": VERSION} | {name: str(count) for name, count in counts.items()}
    )


def _lines(wrote: Sequence[TurnWrites], aligned: Aligned, expected: Expected) -> Iterator[_Line]:
    before: defaultdict[str, NearDuplicates] = defaultdict(NearDuplicates)
    for entry in wrote:
        stored_before = before[entry.arm]
        for what, memories in (("created", entry.writes.created), ("updated", entry.writes.updated)):
            for stored in memories:
                match = aligned.get((entry.arm, stored.id))
                again = what == "created" and not entry.derived and stored_before.has(stored.text)
                yield _Line(entry, what, stored, match, expected.keep(match), again, expected.leaks(stored.text))
                if not entry.derived:
                    stored_before.add(stored.text)
        for identity in entry.writes.deleted:
            yield _Line(entry, "deleted", Stored(identity, ""))
        if entry.writes.receipt:
            yield _Line(entry, "receipt", Stored("", ""), receipt=js_json(dict(entry.writes.receipt)))


def is_echo(text: str, context: str) -> bool:
    """Return whether an injected block contains a text of :data:`ECHO_CHARS` or more, ignoring case and spaces."""
    plain = folded(text)
    return len(plain) >= ECHO_CHARS and plain in folded(context)
