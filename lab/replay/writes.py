"""What systems wrote in a conversation, as ``writes/<conversation>.parquet``, without texts.

Captured items are judged here, because a run holds no texts: by the captures of the golden set, by the memories that
its probes need, and against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.columns import booleans, lists, numbers, strings
from lab.golden.align import Aligner, Alignment
from lab.recordings.model import Recording
from lab.replay.loop import TurnWrites
from lab.systems.contract import Stored

if TYPE_CHECKING:
    import pyarrow as pa

KIND, VERSION = "lab.writes", "1"
# Alignments by arm and captured id; the last text of an id decides.
Aligned = Mapping[tuple[str, str], Alignment]
# Shorter texts occur in other texts by chance.
ECHO_CHARS = 20


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


def writes_table(wrote: Sequence[TurnWrites], aligned: Aligned, turns: int) -> pa.Table:
    """Return the writes of a conversation, one row for each memory written; the metadata holds ``turns``.

    Columns: ``arm, turn, seq, what`` (created, updated or deleted), ``id, chars`` (Unicode characters; 0 if deleted),
    ``sources`` (a list), ``echo`` (the text repeats what was injected at this turn), and of the alignment
    (:mod:`lab.golden.align`) ``memory, rule, score``, null if there is none. ``keep`` is the judgement of the candidate
    that the item is aligned to: its grade, 0 not to keep, -1 never to store; null if it is unjudged. ``again`` says
    that the item repeats one that the arm held, ``leak`` that it holds what must never be stored.
    """
    import pyarrow as pa

    rows = [
        (entry, what, stored)
        for entry in wrote
        for what, memories in (
            ("created", entry.writes.created),
            ("updated", entry.writes.updated),
            ("deleted", tuple(Stored(identity, "") for identity in entry.writes.deleted)),
        )
        for stored in memories
    ]
    matches = [aligned.get((entry.arm, stored.id)) if what != "deleted" else None for entry, what, stored in rows]
    sources = [stored.sources for _, _, stored in rows]
    table = pa.table(
        {
            "arm": strings([entry.arm for entry, _, _ in rows]),
            "turn": strings([entry.turn.key for entry, _, _ in rows]),
            "seq": numbers([entry.turn.seq for entry, _, _ in rows], "int32"),
            "what": strings([what for _, what, _ in rows]),
            "id": strings([stored.id for _, _, stored in rows]),
            "chars": numbers([len(stored.text) for _, _, stored in rows], "int32"),
            "sources": lists([len(keys) for keys in sources], strings([key for keys in sources for key in keys])),
            "echo": booleans([is_echo(stored.text, entry.context) for entry, _, stored in rows]),
            "memory": strings([match.memory if match else None for match in matches]),
            "rule": strings([match.rule if match else None for match in matches]),
            "score": numbers([match.score if match else None for match in matches], "float64"),
        }
    )
    return table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION, "turns": str(turns)})


def is_echo(text: str, context: str) -> bool:
    """Return whether an injected block contains a text of :data:`ECHO_CHARS` or more, ignoring case and spaces."""
    folded = " ".join(text.casefold().split())
    return len(folded) >= ECHO_CHARS and folded in " ".join(context.casefold().split())
