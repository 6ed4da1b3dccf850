"""What systems wrote in a conversation, on disk: ``writes/<conversation>.parquet``, without a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.columns import booleans, lists, numbers, strings
from lab.golden.align import Aligner, Alignment
from lab.recordings.model import Recording
from lab.replay.loop import Wrote
from lab.systems.contract import Stored

if TYPE_CHECKING:
    import pyarrow as pa

KIND, VERSION = "lab.writes", "1"
# By arm and captured id: the last text that the id had decides what it stands for.
Aligned = Mapping[tuple[str, str], Alignment]
# A shorter text stands in many others by chance.
ECHO_CHARS = 20


def alignments(recording: Recording, wrote: Sequence[Wrote]) -> Aligned:
    """The memory of the recording that each captured item stands for, where there is one."""
    if not wrote:
        return {}
    texts = {memory.key: memory.text for memory in recording.memories}
    aligner = Aligner(texts, (turn.key for turn in recording.turns))
    found: dict[tuple[str, str], Alignment] = {}
    for one in wrote:
        for stored in (*one.writes.created, *one.writes.updated):
            alignment = aligner.align(stored.text, stored.sources)
            found.pop((one.arm, stored.id), None)
            if alignment is not None:
                found[one.arm, stored.id] = alignment
    return found


def writes_table(wrote: Sequence[Wrote], aligned: Aligned, turns: int) -> pa.Table:
    """A row a memory that was written in a conversation of so many ``turns``, which the metadata names.

    Columns ``arm, turn, seq, what`` (created, updated or deleted), ``id, chars`` (Unicode characters; 0 where it was
    deleted), ``sources`` (a list), ``echo`` (it says what had been injected at this turn), and of its alignment
    (:mod:`lab.golden.align`) ``memory, rule, score``; null where it stands for none.
    """
    import pyarrow as pa

    rows = [
        (one, what, stored)
        for one in wrote
        for what, some in (
            ("created", one.writes.created),
            ("updated", one.writes.updated),
            ("deleted", tuple(Stored(identity, "") for identity in one.writes.deleted)),
        )
        for stored in some
    ]
    found = [aligned.get((one.arm, stored.id)) if what != "deleted" else None for one, what, stored in rows]
    sources = [stored.sources for _, _, stored in rows]
    table = pa.table(
        {
            "arm": strings([one.arm for one, _, _ in rows]),
            "turn": strings([one.turn.key for one, _, _ in rows]),
            "seq": numbers([one.turn.seq for one, _, _ in rows], "int32"),
            "what": strings([what for _, what, _ in rows]),
            "id": strings([stored.id for _, _, stored in rows]),
            "chars": numbers([len(stored.text) for _, _, stored in rows], "int32"),
            "sources": lists([len(one) for one in sources], strings([key for one in sources for key in one])),
            "echo": booleans([is_echo(stored.text, one.context) for one, _, stored in rows]),
            "memory": strings([one.memory if one else None for one in found]),
            "rule": strings([one.rule if one else None for one in found]),
            "score": numbers([one.score if one else None for one in found], "float64"),
        }
    )
    return table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION, "turns": str(turns)})


def is_echo(text: str, context: str) -> bool:
    """Whether a text of at least :data:`ECHO_CHARS` stands in an injected block, but for case and spaces."""
    said = " ".join(text.casefold().split())
    return len(said) >= ECHO_CHARS and said in " ".join(context.casefold().split())
