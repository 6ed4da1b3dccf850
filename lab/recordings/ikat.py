"""Reader of TREC iKAT 2023, 2024 and 2025 (MIT): users' personal statements, and which of them each utterance needs.

One file per year, one conversation per topic. The personal statements (PTKB) are memories that exist before the first
turn. Every user utterance is judged, and most need no memory. Judgements refer to statements by number in 2023 and
2024, and by text in 2025; the reader accepts numbers written as text, differences in white space and case, and
duplicates. References that still match no statement are dropped and noted. The data has no times, so memories and
turns are 1 ms apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.files import read_json
from lab.base.shape import expect, field, optional
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn

SESSION = "talk"


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read every topic of one year."""
    year = path.stem.removesuffix("_topics")
    return [
        _topic(topic, year, f"{path}: [{number}]")
        for number, topic in enumerate(expect(read_json(path), list, str(path)))
    ]


def _topic(topic: Any, year: str, where: str) -> tuple[Recording, GoldenSet]:
    topic_number = field(topic, "number", object, where)
    if not isinstance(topic_number, str):
        expect(topic_number, int, f"{where}: field 'number'")
    name = f"{year}-{topic_number}"
    stated = field(topic, "ptkb", object, where)
    statements: dict[str, Any] = (
        {str(number): text for number, text in enumerate(stated, 1)}
        if isinstance(stated, list)
        else expect(stated, dict, f"{where}: ptkb")
    )
    memories: dict[str, Memory] = {}
    for number, text in statements.items():
        expect(text, str, f"{where}: ptkb[{number}]")
        memories[number] = Memory(f"{name}/ptkb#{number}", text, text, visible_from=0, created_at=len(memories))
    # For statements with equal text, the first one wins.
    by_text = {_normalized(memory.text): memory.key for memory in reversed(memories.values())}
    turns: list[Turn] = []
    probes, notes = [], []
    spoken = "responses" if "responses" in topic else "turns"
    for index, raw in enumerate(field(topic, spoken, list, where)):
        at = f"{where}: {spoken}[{index}]"
        identity = str(field(raw, "turn_id", object, at))
        utterance = field(raw, "user_utterance" if "user_utterance" in raw else "utterance", str, at)
        key = f"{name}/{SESSION}/{identity}"
        answer = optional(raw, "response", str, "", at)
        for role, text, suffix in (("user", utterance, ""), ("assistant", answer, "-answer")):
            if text.strip():
                now = len(memories) + len(turns)
                turns.append(Turn(key + suffix, len(turns), SESSION, role, text, now, speaker=role))
        if not utterance.strip():
            notes.append(f"{key}: dropped, the utterance is blank")
            continue
        field_name = "relevant_ptkbs" if "relevant_ptkbs" in raw else "ptkb_provenance"
        keys = []
        for position, reference in enumerate(optional(raw, field_name, list, [], at)):
            memory = memories.get(str(reference))
            memory_key = (
                memory.key if memory else by_text.get(_normalized(reference)) if isinstance(reference, str) else None
            )
            if memory_key is None:
                # The note gives the position, because the reference itself may be a user's private statement.
                notes.append(f"{key}: {field_name}[{position}] names no statement")
            else:
                keys.append(memory_key)
        if len(set(keys)) < len(keys):
            notes.append(f"{key}: a statement is named twice; it counts once")
        relevant = tuple(Judgement(memory_key) for memory_key in dict.fromkeys(keys))
        probes.append(Probe(key, name, key, None, relevant, slices={"year": year}))
    recording = Recording(name, tuple(turns), tuple(memories.values()), notes=tuple(notes))
    return recording, GoldenSet(tuple(probes), tuple(notes))


def _normalized(text: str) -> str:
    """Return a text in lower case with single spaces."""
    return " ".join(text.split()).casefold()
