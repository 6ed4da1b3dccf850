"""Reader of BEAM (mohammadtavakoli78, repository without a licence: research only): long chats with an assistant.

Each chat is a folder with ``chat.json`` and ``probing_questions.json``, the latter possibly in a folder of that name.
Ten of the 100K chats also have a truncated copy, ``chat_trunecated.json``, which the authors' evaluation uses. It
contains every source message of a question; name that file to read it. The questions test ten abilities and come
after the chat. Every message is a memory. The reader removes the marker ``->-> 1,22`` that the data generation left in
some messages. A batch is a session; its time is its first ``time_anchor``.

The ability of a question determines its judgements. ``abstention`` has no relevant memory. For ``knowledge_update``,
the latest message is relevant and the replaced one is forbidden, unless one message contains both; a message does not
replace another message completely, so ``supersedes`` stays empty. For ``contradiction_resolution``, both sides are
relevant, because the correct answer is that they disagree. Any other question without a source is dropped and noted.
The answer is in a field of another name for some abilities; two abilities have none, as an instruction or a preference
is to be followed, and that of ``abstention`` says that nothing is known.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json
from lab.base.regex import regex
from lab.base.shape import expect, field, optional
from lab.base.times import date_ms
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Chat, Recording

QUESTIONS = "probing_questions.json"
SIZE = regex(r"\d+[KM]")
ANSWERS = ("answer", "ideal_answer", "ideal_summary")
MARKER = regex(r" ?->-> ?\d+,(?:\d+|N/A)")
ABSTENTION = "abstention"
OLD, NEW = "original_info", "updated_info"


def questions_of(path: Path) -> tuple[Path, ...]:
    """Return the file of a chat's probing questions, or an empty tuple."""
    candidates = (path.with_name(QUESTIONS), path.parent / "probing_questions" / QUESTIONS)
    return tuple(candidate for candidate in candidates if candidate.is_file())[:1]


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one chat and its questions."""
    folder = path.absolute().parent
    name = f"{folder.parent.name}-{folder.name}" if SIZE.fullmatch(folder.parent.name) else folder.name
    chat = Chat(name)
    keys: dict[int, str] = {}
    notes: list[str] = []
    marked = 0
    for number, batch in enumerate(expect(read_json(path), list, str(path))):
        at = f"{path}: [{number}]"
        session = f"batch-{field(batch, 'batch_number', int, at)}"
        rounds = field(batch, "turns", list, at)
        messages = [
            (f"{at}.turns[{round_number}][{index}]", expect(raw, dict, f"{at}.turns[{round_number}][{index}]"))
            for round_number, exchange in enumerate(rounds)
            for index, raw in enumerate(expect(exchange, list, f"{at}.turns[{round_number}]"))
        ]
        dated = (batch, *(raw for _, raw in messages))
        anchor = next((message["time_anchor"] for message in dated if message.get("time_anchor")), None)
        start = None
        with suppress(UnusableInput):
            start = date_ms(anchor, "%B-%d-%Y", "")
        if start is None:
            notes.append(f"{name}: {session} has no date ({anchor!r}), so it continues from the previous session")
        for spot, raw in messages:
            identity, role = field(raw, "id", int, spot), field(raw, "role", str, spot)
            if identity in keys:
                raise UnusableInput(f"{spot}: message {identity} occurs twice")
            text, markers = MARKER.subn("", field(raw, "content", str, spot))
            marked += markers
            turn = chat.say(session, identity, role, text, start or 0)
            keys[identity] = chat.keep(f"{turn.key}#0", text, text)
    if marked:
        notes.append(f"{name}: markers of the form '->-> 1,22' removed: {marked}")
    beside = questions_of(path)
    if not beside:
        notes.append(f"{name}: no {QUESTIONS} beside the chat, so there are no probes")
    probes = _questions(name, beside[0], keys, notes) if beside else []
    golden = GoldenSet(tuple(probes), tuple(notes))
    return [(chat.recording(golden.notes), golden)]


def _questions(name: str, path: Path, keys: dict[int, str], notes: list[str]) -> list[Probe]:
    probes = []
    for ability, questions in expect(read_json(path), dict, str(path)).items():
        for index, raw in enumerate(expect(questions, list, f"{path}: {ability}")):
            at = f"{path}: {ability}[{index}]"
            identity = f"{name}/{ability}-{index + 1}"
            question = field(raw, "question", str, at)
            sources = raw.get("source_chat_ids")
            old: list[int] = []
            if ability == "knowledge_update" and isinstance(sources, dict) and NEW in sources:
                old = _ids(sources.get(OLD), f"{at}: {OLD}")
                sources = sources[NEW]
            relevant_ids = _ids(sources, f"{at}: source_chat_ids")
            unknown = sorted({identifier for identifier in (*relevant_ids, *old) if identifier not in keys})
            relevant = tuple(Judgement(keys[identifier]) for identifier in relevant_ids if identifier in keys)
            if unknown:
                notes.append(f"{identity}: sources {unknown} are not messages of this chat")
            if not relevant and ability != ABSTENTION:
                notes.append(f"{identity}: dropped, it names {'only the replaced message' if old else 'no source'}")
                continue
            forbidden = tuple(
                Judgement(keys[identifier], reason="replaced since")
                for identifier in old
                if identifier in keys and identifier not in relevant_ids
            )
            slices = {"ability": ability}
            if isinstance(raw.get("difficulty"), str):
                slices["difficulty"] = raw["difficulty"]
            answer = next((optional(raw, named, str, "", at) for named in ANSWERS if named in raw), "")
            answer = answer if ability != ABSTENTION else ""
            probes.append(Probe(identity, name, None, question, relevant, forbidden, slices=slices, answer=answer))
    return probes


def _ids(value: Any, at: str) -> list[int]:
    """Return the unique message ids in a number or in arbitrarily nested lists and objects."""
    if value is None:
        return []
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return list(dict.fromkeys(identifier for part in inner for identifier in _ids(part, at)))
    return [expect(value, int, at)]
