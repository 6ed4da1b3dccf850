"""MADial-Bench (hejunqing, MIT), English and Chinese: dialogues over one archive of what a user went through.

Two files belong together: ``…dialogue….json(l)``, one dialogue per line, and the memories under the same name with
``memory`` for ``dialogue``. As published, the memory file holds one object per line, each with one key, the memory's
id; a single object with all ids as keys is read as well. A user is a conversation, the user's dialogues are its
sessions, and the archive exists before the first. A dialogue is judged once: at the turn before the first
``test-turn``, whose place counts the ``<BOD>`` line. Where memories name no user, a memory belongs to the users whose
dialogues want it, else to those whose name it holds, else to all. Dialogues have no time: they follow 2024-06-16, the
day that the set's scorer assumes, or the last memory. A line without its ``<speaker>:`` is the other's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.files import read_json, read_json_lines, read_text
from lab.formatting import counted
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.cleaning import language_of
from lab.recordings.model import Memory, Recording, Turn, in_birth_order
from lab.shape import expect, field

PATTERN = "**/*dialogue*.json*"
IGNORED = ("*setting*",)
MARKS = ("<BOD>", "<EOD>")
SPOKEN = re.compile(r"<([^<>]{1,40})>\s*[:：]\s*(.*)", re.DOTALL)
ASSISTANT = "Assistant"
SCORED_ON_MS = int(datetime(2024, 6, 16, tzinfo=UTC).timestamp()) * 1000
DAY_MS = 86_400_000


class Event(NamedTuple):
    """One memory of the archive, and where it stands; ``user`` is None where the file names none."""

    at: str
    text: str
    day_ms: int
    user: str | None


class Dialogue(NamedTuple):
    """One line of the file, and where it stands."""

    at: str
    user: str
    lines: list[str]
    probed: int
    wanted: list[str]


def memories_of(path: Path) -> tuple[Path, ...]:
    """The memory file that belongs to a dialogue file, where there is one."""
    stem = path.stem.replace("dialogue", "memory")
    places = (path.with_name(stem + suffix) for suffix in (".json", ".jsonl"))
    return tuple(place for place in places if place.is_file() and place != path)[:1]


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read every user of one language."""
    if "dialogue" not in path.stem or any(fnmatchcase(path.name, one) for one in IGNORED):
        raise UnusableInput(f"{path}: is no dialogue file; name …-dialogue.json, or the folder that holds it")
    beside = memories_of(path)
    if not beside:
        expected = path.stem.replace("dialogue", "memory") + ".json"
        raise UnusableInput(f"{path}: its memories are not beside it; put {expected} into the same folder")
    archive = _archive(beside[0])
    dialogues = [_dialogue(value, f"{path}:{number}") for number, value in read_json_lines(path)]
    language = language_of([one.text for one in archive.values()])
    users = list(dict.fromkeys(one.user for one in dialogues))
    owners = {key: _owners(key, one, dialogues, users) for key, one in archive.items()}
    strangers = sum(not set(owned) & set(users) for owned in owners.values())
    note = f"{path.name}: {counted(strangers, 'memory')} left out, no dialogue is of their user"
    return [
        _user(
            f"{language}-user{user}",
            language,
            [one for one in dialogues if one.user == user],
            {key: one for key, one in archive.items() if user in owners[key]},
            [note] if strangers and user == users[0] else [],
        )
        for user in users
    ]


def _archive(path: Path) -> dict[str, Event]:
    """Return the events of a memory file by id: one object per line as published, or one object with every id."""
    starts = sum(line.startswith("{") for line in read_text(path).split("\n"))
    objects = (
        [(f"{path}:{number}", one) for number, one in read_json_lines(path)]
        if starts > 1
        else [(str(path), expect(read_json(path, once=True), dict, str(path)))]
    )
    archive: dict[str, Event] = {}
    for at, record in objects:
        for key, one in record.items():
            where = f"{at}: {key}"
            if key in archive:
                raise UnusableInput(f"{where}: occurs twice; the first is at {archive[key].at}")
            day = _day_ms(field(one, "time", str, where), where)
            user = str(one["user-id"]) if "user-id" in one else None
            archive[key] = Event(where, field(one, "event", str, where), day, user)
    if not archive:
        raise UnusableInput(f"{path}: holds no memory")
    return archive


def _dialogue(value: dict[str, Any], at: str) -> Dialogue:
    lines = [expect(one, str, f"{at}: dialogue") for one in field(value, "dialogue", list, at)]
    marked = [expect(one, int, f"{at}: test-turn") for one in field(value, "test-turn", list, at)]
    if not marked or not 0 < marked[0] < len(lines):
        raise UnusableInput(f"{at}: test-turn {marked} is no place in a dialogue of {len(lines)} lines")
    wanted = [str(one) for one in field(value, "relevant-id", list, at)]
    return Dialogue(at, str(field(value, "user-id", object, at)), lines, marked[0], wanted)


def _owners(key: str, memory: Event, dialogues: list[Dialogue], users: list[str]) -> list[str]:
    """Return the users whose archive holds a memory."""
    if memory.user is not None:
        return [memory.user]
    wanting = {one.user for one in dialogues if key in one.wanted}
    named = {one.user for one in dialogues for name in _names(one) if name in memory.text}
    return [user for user in users if user in (wanting or named or users)]


def _names(dialogue: Dialogue) -> set[str]:
    return {match[1] for line in dialogue.lines if (match := SPOKEN.match(line.strip()))} - {ASSISTANT}


def _user(
    name: str, language: str, dialogues: list[Dialogue], archive: dict[str, Event], notes: list[str]
) -> tuple[Recording, GoldenSet]:
    memories = in_birth_order(
        Memory(f"{name}/archive#{key}", one.text, one.text, visible_from=0, created_at=one.day_ms)
        for key, one in sorted(archive.items(), key=lambda pair: pair[1].day_ms)
    )
    keys = {memory.key for memory in memories}
    clock = max(SCORED_ON_MS, *(memory.created_at + DAY_MS for memory in memories)) if memories else SCORED_ON_MS
    turns: list[Turn] = []
    probes = []
    unnamed = 0
    for number, dialogue in enumerate(dialogues, 1):
        session = f"d{number:03d}"
        asked: Turn | None = None
        role = "assistant"
        for place, line in enumerate(dialogue.lines):
            said = line.strip()
            if not said or said in MARKS:
                continue
            match = SPOKEN.match(said)
            if match:
                role = "assistant" if match[1] == ASSISTANT else "user"
            else:
                role = "user" if role == "assistant" else "assistant"
                unnamed += 1
            text = (match[2] if match else said).strip().strip('"“”').strip()
            if not text:
                continue
            key = f"{name}/{session}/{place}"
            turns.append(
                Turn(key, len(turns), session, role, text, clock + len(turns), speaker=match[1] if match else role)
            )
            if role == "user" and place < dialogue.probed:
                asked = turns[-1]
        dead = [one for one in dialogue.wanted if f"{name}/archive#{one}" not in keys]
        if dead:
            notes.append(f"{name}/{session}: relevant-id {dead} are no memories of this user")
        relevant = tuple(
            Judgement(f"{name}/archive#{one}") for one in dict.fromkeys(dialogue.wanted) if one not in dead
        )
        if asked is None or not relevant:
            notes.append(f"{name}/{session}: left out, {'nothing is wanted' if asked else 'no user turn is before it'}")
            continue
        probes.append(Probe(asked.key, name, asked.key, None, relevant, slices={"language": language}))
    if unnamed:
        notes.append(f"{name}: lines without a speaker, read as the other's: {unnamed}")
    recording = Recording(name, tuple(turns), memories, language=language, notes=tuple(notes))
    return recording, GoldenSet(tuple(probes), tuple(notes))


def _day_ms(text: str, where: str) -> int:
    """``2023-12-25`` as epoch milliseconds of that day's midnight, UTC."""
    try:
        return int(datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise UnusableInput(f"{where}: time {text!r} is not like '2023-12-25'") from None
