"""Reader of MADial-Bench (hejunqing, MIT), English and Chinese: dialogues over an archive of a user's experiences.

The set has two files per language: ``…dialogue….json(l)``, one dialogue per line, and the memories, in a file with
``memory`` instead of ``dialogue`` in its name. As published, each line of the memory file is an object whose only key
is the memory's id; a single object with all ids as keys is accepted as well. A user is a conversation and the user's
dialogues are its sessions. The archive exists before the first session. Each dialogue has one probe: the user turn
before the first ``test-turn``, which is a line number that counts the ``<BOD>`` line; the line of the test turn is its
answer. A memory without a user belongs
to the users whose dialogues need it, else to the users whose name it mentions, else to all. Dialogues have no time:
they follow 2024-06-16, the date that the set's scorer assumes, or the last memory. A line without ``<speaker>:``
belongs to the other speaker.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_json, read_json_lines, read_text
from lab.base.formatting import counted
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.base.times import date_ms
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.cleaning import language_of
from lab.recordings.model import Memory, Recording, Turn, in_birth_order

MARKS = ("<BOD>", "<EOD>")
SPOKEN = regex(r"<([^<>]{1,40})>\s*[:：]\s*(.*)", re.DOTALL)
ASSISTANT = "Assistant"
SCORED_ON_MS = int(datetime(2024, 6, 16, tzinfo=UTC).timestamp()) * 1000
DAY_MS = 86_400_000


class Event(NamedTuple):
    """One memory of the archive, with its location; ``user`` is None if the file names no user."""

    at: str
    text: str
    day_ms: int
    user: str | None


class Dialogue(NamedTuple):
    """One dialogue, with its location; ``probed`` is the line number of the first test turn."""

    at: str
    user: str
    lines: list[str]
    probed: int
    relevant_ids: list[str]


def memories_of(path: Path) -> tuple[Path, ...]:
    """Return the memory file of a dialogue file, or an empty tuple."""
    stem = path.stem.replace("dialogue", "memory")
    candidates = (path.with_name(stem + suffix) for suffix in (".json", ".jsonl"))
    return tuple(candidate for candidate in candidates if candidate.is_file() and candidate != path)[:1]


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read every user of one language."""
    if "dialogue" not in path.stem or fnmatchcase(path.name, "*setting*"):
        raise UnusableInput(f"{path}: is not a dialogue file; give …-dialogue.json or its folder")
    beside = memories_of(path)
    if not beside:
        expected = path.stem.replace("dialogue", "memory") + ".json"
        raise UnusableInput(f"{path}: its memory file is missing; put {expected} into the same folder")
    archive = _archive(beside[0])
    dialogues = [_dialogue(value, f"{path}:{number}") for number, value in read_json_lines(path)]
    language = language_of([event.text for event in archive.values()])
    users = list(dict.fromkeys(dialogue.user for dialogue in dialogues))
    owners = {key: _owners(key, event, dialogues, users) for key, event in archive.items()}
    orphaned = sum(not set(owned) & set(users) for owned in owners.values())
    note = f"{path.name}: {counted(orphaned, 'memory')} dropped because their user has no dialogue"
    return [
        _user(
            f"{language}-user{user}",
            language,
            [dialogue for dialogue in dialogues if dialogue.user == user],
            {key: event for key, event in archive.items() if user in owners[key]},
            [note] if orphaned and user == users[0] else [],
        )
        for user in users
    ]


def _archive(path: Path) -> dict[str, Event]:
    """Return the events of a memory file by id: one object per line as published, or one object with every id."""
    starts = sum(line.startswith("{") for line in read_text(path).split("\n"))
    objects = (
        [(f"{path}:{number}", record) for number, record in read_json_lines(path)]
        if starts > 1
        else [(str(path), expect(read_json(path, once=True), dict, str(path)))]
    )
    archive: dict[str, Event] = {}
    for at, record in objects:
        for key, event in record.items():
            where = f"{at}: {key}"
            if key in archive:
                raise UnusableInput(f"{where}: occurs twice; the first is at {archive[key].at}")
            time = field(event, "time", str, where)
            day = date_ms(time.strip(), "%Y-%m-%d", f"{where}: time {time!r} is not like '2023-12-25'")
            user = str(event["user-id"]) if "user-id" in event else None
            archive[key] = Event(where, field(event, "event", str, where), day, user)
    if not archive:
        raise UnusableInput(f"{path}: has no memory")
    return archive


def _dialogue(value: dict[str, Any], at: str) -> Dialogue:
    lines = [expect(line, str, f"{at}: dialogue") for line in field(value, "dialogue", list, at)]
    marked = [expect(line_number, int, f"{at}: test-turn") for line_number in field(value, "test-turn", list, at)]
    if not marked or not 0 < marked[0] < len(lines):
        raise UnusableInput(
            f"{at}: test-turn {marked} is not a line number of this dialogue of {counted(len(lines), 'line')}"
        )
    relevant_ids = [str(identifier) for identifier in field(value, "relevant-id", list, at)]
    return Dialogue(at, str(field(value, "user-id", object, at)), lines, marked[0], relevant_ids)


def _owners(key: str, memory: Event, dialogues: list[Dialogue], users: list[str]) -> list[str]:
    """Return the users to whose archive a memory belongs."""
    if memory.user is not None:
        return [memory.user]
    wanting = {dialogue.user for dialogue in dialogues if key in dialogue.relevant_ids}
    mentioned = {dialogue.user for dialogue in dialogues for name in _names(dialogue) if name in memory.text}
    return [user for user in users if user in (wanting or mentioned or users)]


def _names(dialogue: Dialogue) -> set[str]:
    return {match[1] for line in dialogue.lines if (match := SPOKEN.match(line.strip()))} - {ASSISTANT}


def _user(
    name: str, language: str, dialogues: list[Dialogue], archive: dict[str, Event], notes: list[str]
) -> tuple[Recording, GoldenSet]:
    memories = in_birth_order(
        Memory(f"{name}/archive#{key}", event.text, event.text, visible_from=0, created_at=event.day_ms)
        for key, event in sorted(archive.items(), key=lambda pair: pair[1].day_ms)
    )
    keys = {memory.key for memory in memories}
    clock = max(SCORED_ON_MS, *(memory.created_at + DAY_MS for memory in memories)) if memories else SCORED_ON_MS
    turns: list[Turn] = []
    probes = []
    unnamed = 0
    for number, dialogue in enumerate(dialogues, 1):
        session = f"d{number:03d}"
        probed_turn: Turn | None = None
        answer = ""
        role = "assistant"
        for line_number, line in enumerate(dialogue.lines):
            spoken = line.strip()
            if not spoken or spoken in MARKS:
                continue
            match = SPOKEN.match(spoken)
            if match:
                role = "assistant" if match[1] == ASSISTANT else "user"
            else:
                role = "user" if role == "assistant" else "assistant"
                unnamed += 1
            text = (match[2] if match else spoken).strip().strip('"“”').strip()
            if not text:
                continue
            key = f"{name}/{session}/{line_number}"
            turns.append(
                Turn(key, len(turns), session, role, text, clock + len(turns), speaker=match[1] if match else role)
            )
            if role == "user" and line_number < dialogue.probed:
                probed_turn = turns[-1]
            elif role == "assistant" and line_number == dialogue.probed:
                answer = text
        unknown = [identifier for identifier in dialogue.relevant_ids if f"{name}/archive#{identifier}" not in keys]
        if unknown:
            notes.append(f"{name}/{session}: relevant-id {unknown} are not memories of this user")
        relevant = tuple(
            Judgement(f"{name}/archive#{identifier}")
            for identifier in dict.fromkeys(dialogue.relevant_ids)
            if identifier not in unknown
        )
        if probed_turn is None or not relevant:
            why = "no memory is relevant" if probed_turn else "no user turn comes before the test turn"
            notes.append(f"{name}/{session}: dropped, {why}")
            continue
        key, slices = probed_turn.key, {"language": language}
        probes.append(Probe(key, name, key, None, relevant, slices=slices, answer=answer))
    if unnamed:
        notes.append(f"{name}: lines without a speaker, assigned to the other speaker: {unnamed}")
    recording = Recording(name, tuple(turns), memories, language=language, notes=tuple(notes))
    return recording, GoldenSet(tuple(probes), tuple(notes))
