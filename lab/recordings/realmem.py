"""Reader of RealMem (AvatarMemory/RealMemBench, Apache-2.0): gold on natural user turns inside the sessions.

One file per persona. The gold of a query (``memory_used``: session and content) is on the assistant turn after it,
where the official scorer reads it as well. The memories are the ``extracted_memory`` of each session; they become
visible when the session has ended. A memory's ``index`` is not unique, so its key is its ordinal within the session.
The prefix of ``session_identifier`` is the project, which is the scope.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.base.files import read_json
from lab.base.shape import expect, field, optional
from lab.base.times import date_ms
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Chat, Recording, Turn

ROLES = {"User": "user", "Assistant": "assistant"}
SLICES = ("category_name", "session_type", "topic")


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read the recording and the probes of one persona."""
    value = read_json(path)
    where = str(path)
    name = field(field(value, "_metadata", dict, where), "person_name", str, where)
    dialogues = field(value, "dialogues", list, where)

    chat = Chat(name)
    keys: dict[tuple[str, str], str] = {}
    queries: list[tuple[Turn, dict[str, Any], list[Any]]] = []
    for number, session in enumerate(dialogues):
        at = f"{where}: dialogues[{number}]"
        uuid = field(session, "session_uuid", str, at)
        scope = field(session, "session_identifier", str, at).split(":")[0].lower()
        time = field(session, "current_time", str, at)
        day = date_ms(time[:10], "%Y-%m-%d", f"{at}: current_time {time!r} does not begin with YYYY-MM-DD")
        spoken = field(session, "dialogue_turns", list, at)
        for index, raw in enumerate(spoken):
            spot = f"{at}.dialogue_turns[{index}]"
            speaker = field(raw, "speaker", str, spot)
            role, content = ROLES.get(speaker, speaker.lower()), field(raw, "content", str, spot)
            turn = chat.say(uuid, index, role, content, day, scope=scope, speaker=speaker)
            if raw.get("is_query"):
                answer = expect(spoken[index + 1], dict, f"{spot}: the answer") if index + 1 < len(spoken) else {}
                queries.append((turn, raw, optional(answer, "memory_used", list, [], f"{spot}: the answer")))
        for ordinal, raw in enumerate(field(session, "extracted_memory", list, at)):
            text = _as_text(field(raw, "content", object, f"{at}.extracted_memory[{ordinal}]"))
            keys.setdefault((uuid, text), chat.keep(f"{name}/{uuid}#{ordinal}", text, text, scope=scope))

    probes, notes = [], []
    for turn, raw, used in queries:
        at = f"{where}: memory_used of {turn.key}"
        references = [
            (field(reference, "session_uuid", str, at), _as_text(field(reference, "content", object, at)))
            for reference in used
        ]
        missing = [pair for pair in references if pair not in keys]
        if not references or missing:
            notes.append(
                f"{turn.key}: dropped, {len(missing)} of {len(references)} references of its gold do not resolve"
            )
            continue
        relevant = tuple(Judgement(key) for key in dict.fromkeys(keys[pair] for pair in references))
        slices = {name: str(raw[name]) for name in SLICES if raw.get(name)}
        probes.append(Probe(turn.key, name, turn.key, None, relevant, slices=slices))
    return [(chat.recording(notes), GoldenSet(tuple(probes), tuple(notes)))]


def _as_text(content: Any) -> str:
    """Return the content as text; the single memory in the set that is an object becomes JSON."""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, sort_keys=True)
