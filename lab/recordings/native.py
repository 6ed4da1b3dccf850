"""Reader of the ``lab`` format: JSON Lines, one conversation per file, diffable line by line.

    {"kind": "recording", "schema": "lab.recording.v1", "conversation": NAME, "language": "en", "title": TEXT}
    {"kind": "session", "session": "s01", "time": "2026-03-02T09:10:00+08:00", "scope": "gateway"}
    {"kind": "turn", "turn": "t01", "role": "user", "text": TEXT}
    {"kind": "memory", "text": TEXT, "category": "decision", "importance_label": "must_remember", "scope": "gateway"}

A memory line belongs to the turn line above it. Its key is ``<conversation>/<session>/<turn>#<ordinal>``, and the next
turn is the first that can recall it. A memory line with an explicit ``key`` may appear anywhere; before the first turn,
it exists from the start. ``forgotten_after`` holds the key of the last turn that can recall the memory.

Files converted from other formats use more fields, which hand-written files rarely need: the ``origin`` of the
conversation in its first line (a person, unless it says otherwise), the time, speaker and scope of
a turn, its texts as a memory, the time of a memory, and the reader's notes.

The JSON Schema (2020-12) can check only one line at a time. Errors across lines (duplicate keys, times that run
backwards, unknown memories) are found by ``lab recordings validate`` and ``lab golden lint``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json_lines
from lab.base.shape import expect, field, optional
from lab.base.times import read_time
from lab.golden.files import FIELDS as PROBE_FIELDS
from lab.golden.files import HIGHEST
from lab.golden.model import GoldenSet
from lab.recordings.model import GLOBAL, LABELS, SOURCE_KINDS, Memory, Recording, Turn, in_birth_order
from lab.recordings.origins import ORIGINS, PERSON

SCHEMA = "lab.recording.v1"
CATEGORIES = ("preference", "fact", "decision", "entity", "todo", "other")
ROLES = ("user", "assistant", "tool", "system")


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one conversation. The golden set has no probes, because the ``lab`` format keeps them in separate files."""
    lines = read_json_lines(path)
    first = next(lines, None)
    if first is None:
        raise UnusableInput(f"{path}: is empty; its first line must be the recording header")
    number, header = first
    at = f"{path}:{number}"
    if header.get("kind") != "recording" or header.get("schema") != SCHEMA:
        raise UnusableInput(f'{at}: the first line must be {{"kind": "recording", "schema": "{SCHEMA}", …}}')
    name = _name(header, "conversation", at)
    noted = optional(header, "notes", list, [], at)
    notes = tuple(expect(note, str, f"{at}: field 'notes'") for note in noted)
    reader = _Lines(name)
    for number, line in lines:
        reader.take(line, f"{path}:{number}")
    reader.end()
    recording = Recording(
        name,
        tuple(reader.turns),
        in_birth_order(reader.memories),
        language=optional(header, "language", str, "en", at),
        notes=notes,
        origin=_one_of(header.get("origin", PERSON), ORIGINS, "origin", at),
    )
    return [(recording, GoldenSet(notes=notes))]


class _Lines:
    """Parser of one file's lines; keeps the session and turn to which the next line belongs."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.turns: list[Turn] = []
        self.memories: list[Memory] = []
        self.keys: set[str] = set()
        self.session: dict[str, Any] | None = None
        self.start_ms = -1
        self.ordinal = 0
        # Index of a memory -> the key of its last turn, and the line that says so.
        self.forgotten: dict[int, tuple[str, str]] = {}

    def take(self, line: dict[str, Any], at: str) -> None:
        kind = line.get("kind")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise UnusableInput(f"{at}: kind {kind!r} is none of {', '.join(FIELDS)}")
        unknown = set(line) - FIELDS[kind]
        if unknown:
            raise UnusableInput(f"{at}: a {kind} line has no field {sorted(unknown)[0]!r}")
        {"session": self.take_session, "turn": self.take_turn, "memory": self.take_memory}[kind](line, at)

    def take_session(self, line: dict[str, Any], at: str) -> None:
        # '#' is allowed: a session that continued after a reset is called a#2.
        key = f"{self.conversation}/{_name(line, 'session', at, forbidden='/')}"
        self._register(key, at)
        optional(line, "scope", str, GLOBAL, at)
        start = _time_ms(field(line, "time", str, at), at)
        if start <= self.start_ms:
            raise UnusableInput(f"{at}: session {line['session']!r} does not begin after the previous session")
        self.session, self.start_ms = line, start

    def take_turn(self, line: dict[str, Any], at: str) -> None:
        if self.session is None:
            raise UnusableInput(f"{at}: this turn comes before the first session line")
        key = f"{self.conversation}/{self.session['session']}/{_name(line, 'turn', at)}"
        self._register(key, at)
        role = _one_of(field(line, "role", str, at), ROLES, "role", at)
        earliest = max(self.turns[-1].time_ms + 1 if self.turns else 0, self.start_ms)
        time_ms = _time_ms(field(line, "time", str, at), at) if "time" in line else earliest
        if time_ms < earliest:
            raise UnusableInput(
                f"{at}: turn {line['turn']!r} is not later than the previous turn, or is earlier than its session"
            )
        scope = optional(self.session, "scope", str, GLOBAL, at)
        self.turns.append(
            Turn(
                key,
                len(self.turns),
                self.session["session"],
                role,
                field(line, "text", str, at),
                time_ms,
                scope=optional(line, "scope", str, scope, at),
                speaker=optional(line, "speaker", str, role, at),
                said=optional(line, "said", str, "", at),
                index_text=optional(line, "index_text", str, "", at),
            )
        )
        self.ordinal = 0

    def take_memory(self, line: dict[str, Any], at: str) -> None:
        turn = self.turns[-1] if self.turns else None
        if "key" in line:
            key = field(line, "key", str, at)
            if not key.startswith(f"{self.conversation}/"):
                raise UnusableInput(f"{at}: key {key!r} does not begin with {self.conversation}/")
        else:
            if turn is None or self.session is None or turn.session != self.session["session"]:
                raise UnusableInput(
                    f"{at}: this memory comes before the first turn of its session; move it, or give it a key"
                )
            key = f"{turn.key}#{self.ordinal}"
            self.ordinal += 1
        self._register(key, at)
        born = turn.time_ms if turn else 0
        text = field(line, "text", str, at)
        label = line.get("importance_label")
        supersedes = tuple(expect(line.get("supersedes", []), list, f"{at}: field 'supersedes'"))
        for older in supersedes:
            if expect(older, str, f"{at}: field 'supersedes'") not in {memory.key for memory in self.memories}:
                raise UnusableInput(f"{at}: supersedes {older!r}, which is not an earlier memory")
        if "forgotten_after" in line:
            self.forgotten[len(self.memories)] = (field(line, "forgotten_after", str, at), at)
        refs: list[object] = optional(line, "media_refs", list, [], at)
        self.memories.append(
            Memory(
                key,
                text,
                optional(line, "index_text", str, text, at),
                visible_from=len(self.turns),
                created_at=_time_ms(field(line, "time", str, at), at) if "time" in line else born,
                category=_one_of(line.get("category", "fact"), CATEGORIES, "category", at),
                scope=optional(line, "scope", str, turn.scope if turn else GLOBAL, at),
                label=None if label is None else _one_of(label, LABELS, "importance_label", at),
                supersedes=supersedes,
                trust=optional(line, "trust", str, "user", at),
                hard_rule=optional(line, "hard_rule", bool, False, at),
                source_kind=_one_of(line.get("source_kind", ""), ("", *SOURCE_KINDS), "source_kind", at),
                source_ref=optional(line, "source_ref", str, "", at),
                lang=optional(line, "lang", str, "", at),
                due_at=_time_ms(field(line, "due_at", str, at), at) if "due_at" in line else None,
                media_refs=tuple(expect(ref, str, f"{at}: media_refs") for ref in refs),
                media_kind=optional(line, "media_kind", str, "", at),
            )
        )

    def end(self) -> None:
        """Resolve ``forgotten_after``, which may name a turn further down the file."""
        seqs = {turn.key: turn.seq for turn in self.turns}
        for index, (turn, at) in self.forgotten.items():
            memory = self.memories[index]
            if turn not in seqs:
                raise UnusableInput(f"{at}: forgotten_after {turn!r} is not a turn of this recording")
            if seqs[turn] + 1 < memory.visible_from:
                raise UnusableInput(f"{at}: forgotten_after {turn!r} comes before the memory exists")
            self.memories[index] = replace(memory, visible_until=seqs[turn] + 1)

    def _register(self, key: str, at: str) -> None:
        if key in self.keys:
            raise UnusableInput(f"{at}: {key!r} occurs twice")
        self.keys.add(key)


def _time_ms(time: str, at: str) -> int:
    """Return a time with a time zone as epoch milliseconds (TI-2)."""
    read = read_time(time)
    if read is None:
        raise UnusableInput(f"{at}: time {time!r} is not ISO 8601")
    if not read.zoned:
        raise UnusableInput(f"{at}: time {time!r} has no time zone; write, for example, 2026-03-02T09:10:00+08:00")
    if read.ms < 0:
        raise UnusableInput(f"{at}: time {time!r} is before 1970")
    return read.ms


def _name(line: dict[str, Any], what: str, at: str, *, forbidden: str = "/#") -> str:
    """Return a name that can be part of a key; ``forbidden`` characters separate the parts of a key."""
    name: str = field(line, what, str, at)
    if not name.strip() or any(character in name for character in forbidden):
        raise UnusableInput(f"{at}: {what} {name!r} is blank or contains / or #, which separate the parts of a key")
    return name


def _one_of(value: Any, allowed: tuple[str, ...], what: str, at: str) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise UnusableInput(f"{at}: {what} {value!r} is none of {', '.join(allowed)}")
    return value


DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_NAME = {"type": "string", "pattern": r"^(?=.*\S)[^/#]+$"}
_TIME = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$",
    "description": "ISO 8601 with a time zone",
}
_JUDGEMENTS = {"type": "array", "items": {"$ref": "#/$defs/judgement"}}
_KNOWN: dict[str, dict[str, Any]] = {
    "session": {
        "session": {"type": "string", "pattern": r"^(?=.*\S)[^/]+$"},
        "time": _TIME,
        "scope": _TEXT,
    },
    "turn": {
        "turn": _NAME,
        "role": {"enum": list(ROLES)},
        "text": _TEXT,
        "time": _TIME,
        "speaker": _TEXT,
        "scope": _TEXT,
        "said": _TEXT,
        "index_text": _TEXT,
    },
    "memory": {
        "key": {"type": "string", "pattern": "^[^/#]+/"},
        "time": _TIME,
        "text": _TEXT,
        "index_text": _TEXT,
        "category": {"enum": list(CATEGORIES)},
        "importance_label": {"enum": [*LABELS, None]},
        "scope": _TEXT,
        "supersedes": {"type": "array", "items": _TEXT},
        "trust": _TEXT,
        "hard_rule": {"type": "boolean"},
        "source_kind": {"enum": ["", *SOURCE_KINDS]},
        "source_ref": _TEXT,
        "lang": _TEXT,
        "due_at": _TIME,
        "media_refs": {"type": "array", "items": _TEXT},
        "media_kind": _TEXT,
        "forgotten_after": {"type": "string", "pattern": "^[^/]+/[^/]+/."},
    },
    "probe": {
        "turn": {"type": ["string", "null"], "pattern": "^[^/]+/[^/]+/."},
        "id": _TEXT,
        "conversation": _TEXT,
        "query": {"type": ["string", "null"]},
        "type": _TEXT,
        "condition": _TEXT,
        "slices": {"type": "object", "additionalProperties": _TEXT},
        "answer": _TEXT,
        "reason": _TEXT,
        "relevant": _JUDGEMENTS,
        "forbidden": _JUDGEMENTS,
        "irrelevant": {"type": "array", "items": _TEXT, "uniqueItems": True},
    },
}
FIELDS = {kind: {"kind", *_KNOWN[kind]} for kind in ("session", "turn", "memory")}
_NEEDED = {"session": ["session", "time"], "turn": ["turn", "role", "text"], "memory": ["text"], "probe": []}


def line_schema() -> dict[str, Any]:
    """Return the schema of a line, with one branch per ``kind``.

    Each kind has its own ``if``, so that a validator reports the wrong field instead of every kind that did not match.
    """
    kinds: dict[str, Any] = {
        kind: {
            "type": "object",
            "properties": {"kind": {"const": kind}} | {name: _KNOWN[kind].get(name, {}) for name in sorted(fields)},
            "required": ["kind", *_NEEDED[kind]],
            "additionalProperties": False,
        }
        # The reader's list of fields is authoritative: a field of a probe without a schema above may hold any value.
        for kind, fields in (_KNOWN | {"probe": PROBE_FIELDS - {"kind"}}).items()
    }
    # A probe names a turn or has its own query, never both.
    kinds["probe"] |= {
        "if": {"required": ["turn"], "properties": {"turn": {"not": {"type": "null"}}}},
        "then": {"properties": {"query": {"type": "null"}}},
        "else": {"required": ["id", "conversation", "query"], "properties": {"query": {"type": "string"}}},
    }
    recording = {
        "type": "object",
        "description": "the first line of a recording; other fields, such as a title, are allowed",
        "properties": {
            "kind": {"const": "recording"},
            "schema": {"const": SCHEMA},
            "conversation": _NAME,
            "language": _TEXT,
            "origin": {"enum": list(ORIGINS)},
            "notes": {"type": "array", "items": _TEXT},
        },
        "required": ["kind", "schema", "conversation"],
    }
    judgement = {
        "type": "object",
        "properties": {
            "memory": _TEXT,
            "grade": {"type": "integer", "minimum": 1, "maximum": HIGHEST},
            "reason": _TEXT,
        },
        "required": ["memory"],
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:{SCHEMA}",
        "title": "One line of a recording or of a golden set",
        "type": "object",
        "properties": {"kind": {"enum": ["recording", *kinds]}},
        "required": ["kind"],
        "allOf": [
            {
                "if": {"required": ["kind"], "properties": {"kind": {"const": kind}}},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in ("recording", *kinds)
        ],
        "$defs": {"recording": recording, **kinds, "judgement": judgement},
    }
