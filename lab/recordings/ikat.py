"""TREC iKAT 2023, 2024 and 2025 (MIT): what a user stated about themselves, and which of it each utterance needs.

One file a year, a conversation a topic. The personal statements (PTKB) are memories from before the first turn. Every
utterance of the user is judged: most of them need nothing. Statements are numbered in 2023 and 2024 and named by their
text in 2025; a number that is text, a text with other white space, and one named twice are repaired. What still names
no statement is left out of the gold and noted. There are no times: turns and memories follow one another by a
millisecond.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.files import read_json
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn
from lab.shape import expect, field, optional

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
        {str(place): text for place, text in enumerate(stated, 1)}
        if isinstance(stated, list)
        else expect(stated, dict, f"{where}: ptkb")
    )
    memories: dict[str, Memory] = {}
    for number, text in statements.items():
        expect(text, str, f"{where}: ptkb[{number}]")
        memories[number] = Memory(f"{name}/ptkb#{number}", text, text, visible_from=0, created_at=len(memories))
    # The first statement of a text stands for those that repeat it.
    by_text = {_bare(memory.text): memory.key for memory in reversed(memories.values())}
    turns: list[Turn] = []
    probes, notes = [], []
    spoken = "responses" if "responses" in topic else "turns"
    for index, raw in enumerate(field(topic, spoken, list, where)):
        at = f"{where}: {spoken}[{index}]"
        identity = str(field(raw, "turn_id", object, at))
        said = field(raw, "user_utterance" if "user_utterance" in raw else "utterance", str, at)
        key = f"{name}/{SESSION}/{identity}"
        answer = optional(raw, "response", str, "", at)
        for role, text, suffix in (("user", said, ""), ("assistant", answer, "-answer")):
            if text.strip():
                now = len(memories) + len(turns)
                turns.append(Turn(key + suffix, len(turns), SESSION, role, text, now, speaker=role))
        if not said.strip():
            notes.append(f"{key}: left out, the user says nothing")
            continue
        wanted = "relevant_ptkbs" if "relevant_ptkbs" in raw else "ptkb_provenance"
        keys = []
        for place, one in enumerate(optional(raw, wanted, list, [], at)):
            memory = memories.get(str(one))
            found = memory.key if memory else by_text.get(_bare(one)) if isinstance(one, str) else None
            if found is None:
                # By its place: what it names may be the text of a statement.
                notes.append(f"{key}: {wanted}[{place}] names no statement")
            else:
                keys.append(found)
        if len(set(keys)) < len(keys):
            notes.append(f"{key}: a statement is named twice and counts once")
        relevant = tuple(Judgement(one) for one in dict.fromkeys(keys))
        probes.append(Probe(key, name, key, None, relevant, slices={"year": year}))
    recording = Recording(name, tuple(turns), tuple(memories.values()), notes=tuple(notes))
    return recording, GoldenSet(tuple(probes), tuple(notes))


def _bare(text: str) -> str:
    """A text without what white space and capitals add to it."""
    return " ".join(text.split()).casefold()
