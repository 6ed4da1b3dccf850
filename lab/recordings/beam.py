"""BEAM (mohammadtavakoli78, no licence in its repository: research only): long chats of a user and an assistant.

A folder a chat: ``chat.json``, and ``probing_questions.json`` beside it or in a folder of that name. Ten chats of 100K
have a copy cut to length beside them, ``chat_trunecated.json``, which the authors' evaluation uses; it holds every
source of a question and is read where it is named itself. Ten abilities are asked for from outside after the chat.
Every message is a memory; the marker ``->-> 1,22`` that its generation left in questions is taken off. A batch is a
session, and takes its time from the one ``time_anchor`` in it.

What a probe wants follows from its ability. ``abstention`` needs nothing. ``knowledge_update`` wants what was said last
and forbids what it replaced, unless one message says both; a whole message replaces no other, so no memory
``supersedes``. ``contradiction_resolution`` wants both sides, since the answer is that they disagree. Any other probe
without a source is left out and noted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import read_json
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn, in_birth_order
from lab.shape import expect, field

PATTERN = "**/chat.json"
QUESTIONS = "probing_questions.json"
SIZE = re.compile(r"\d+[KM]")
MARKER = re.compile(r" ?->-> ?\d+,(?:\d+|N/A)")
OLD, NEW = "original_info", "updated_info"


def questions_of(path: Path) -> tuple[Path, ...]:
    """The probing questions of a chat, where there are any."""
    places = (path.with_name(QUESTIONS), path.parent / "probing_questions" / QUESTIONS)
    return tuple(place for place in places if place.is_file())[:1]


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one chat and the questions about it."""
    folder = path.absolute().parent
    name = f"{folder.parent.name}-{folder.name}" if SIZE.fullmatch(folder.parent.name) else folder.name
    turns: list[Turn] = []
    memories: list[Memory] = []
    keys: dict[int, str] = {}
    notes: list[str] = []
    clock = marked = 0
    for number, batch in enumerate(expect(read_json(path), list, str(path))):
        at = f"{path}: [{number}]"
        session = f"batch-{field(batch, 'batch_number', int, at)}"
        rounds = field(batch, "turns", list, at)
        messages = [
            (f"{at}.turns[{place}][{index}]", expect(raw, dict, f"{at}.turns[{place}][{index}]"))
            for place, exchange in enumerate(rounds)
            for index, raw in enumerate(expect(exchange, list, f"{at}.turns[{place}]"))
        ]
        dated = (batch, *(raw for _, raw in messages))
        anchor = next((one["time_anchor"] for one in dated if one.get("time_anchor")), None)
        start = _day_ms(anchor)
        if start is None:
            notes.append(f"{name}: {session} has no date ({anchor!r}), it follows the one before")
        for spot, raw in messages:
            identity, role = field(raw, "id", int, spot), field(raw, "role", str, spot)
            if identity in keys:
                raise UnusableInput(f"{spot}: message {identity} occurs twice")
            text, markers = MARKER.subn("", field(raw, "content", str, spot))
            marked += markers
            clock = max(clock + 1, start or 0)
            turn = Turn(f"{name}/{session}/{identity}", len(turns), session, role, text, clock, speaker=role)
            turns.append(turn)
            keys[identity] = f"{turn.key}#0"
            memories.append(Memory(keys[identity], text, text, visible_from=len(turns), created_at=clock))
    if marked:
        notes.append(f"{name}: markers of the form '->-> 1,22' taken off: {marked}")
    beside = questions_of(path)
    if not beside:
        notes.append(f"{name}: no {QUESTIONS} beside the chat, so nothing is judged")
    probes = _questions(name, beside[0], keys, notes) if beside else []
    golden = GoldenSet(tuple(probes), tuple(notes))
    return [(Recording(name, tuple(turns), in_birth_order(memories), notes=golden.notes), golden)]


def _questions(name: str, path: Path, keys: dict[int, str], notes: list[str]) -> list[Probe]:
    probes = []
    for ability, asked in expect(read_json(path), dict, str(path)).items():
        for index, raw in enumerate(expect(asked, list, f"{path}: {ability}")):
            at = f"{path}: {ability}[{index}]"
            identity = f"{name}/{ability}-{index + 1}"
            question = field(raw, "question", str, at)
            sources = raw.get("source_chat_ids")
            old: list[int] = []
            if ability == "knowledge_update" and isinstance(sources, dict) and NEW in sources:
                old = _ids(sources.get(OLD), f"{at}: {OLD}")
                sources = sources[NEW]
            wanted = _ids(sources, f"{at}: source_chat_ids")
            dead = sorted({one for one in (*wanted, *old) if one not in keys})
            relevant = tuple(Judgement(keys[one]) for one in wanted if one in keys)
            if dead:
                notes.append(f"{identity}: sources {dead} are no messages")
            if not relevant and ability != "abstention":
                notes.append(f"{identity}: left out, it names {'what was replaced alone' if old else 'no source'}")
                continue
            forbidden = tuple(
                Judgement(keys[one], reason="replaced since") for one in old if one in keys and one not in wanted
            )
            slices = {"ability": ability}
            if isinstance(raw.get("difficulty"), str):
                slices["difficulty"] = raw["difficulty"]
            probes.append(Probe(identity, name, None, question, relevant, forbidden, slices=slices))
    return probes


def _ids(value: Any, at: str) -> list[int]:
    """The message ids in a number, a list or an object of them, however nested, each once."""
    if value is None:
        return []
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return list(dict.fromkeys(one for part in inner for one in _ids(part, at)))
    return [expect(value, int, at)]


def _day_ms(text: Any) -> int | None:
    """``March-15-2024`` as epoch milliseconds of that day's midnight, UTC; None for anything else."""
    try:
        return int(datetime.strptime(text, "%B-%d-%Y").replace(tzinfo=UTC).timestamp()) * 1000
    except (TypeError, ValueError):
        return None
