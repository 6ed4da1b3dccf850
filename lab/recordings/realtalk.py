"""Reader of REALTALK (danny911kr, no licence: research only): two real people chat for 21 days.

One file per chat. As in LoCoMo, questions come after the last session and every turn is a memory. The reader
repairs evidence strings: ``D12:3-D12:5`` is a range of turns, ``D11:17; D16:1`` and ``D13:45:D20:19`` are two ids each,
and ``D5:3.`` is one. An unknown id within the range of its session is a *hole*: an image-only message that the authors
merged away. No neighbouring turn replaces it; the notes count holes, ids past the end of the session, and unreadable
evidence. A question is kept if any of its evidence names a turn. Its slice ``evidence`` is ``verbatim``, ``repaired``
(complete after repair) or ``partial``.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import read_json
from lab.base.shape import expect, field, optional
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.locomo import pictures
from lab.recordings.model import Memory, Recording, Turn, in_birth_order

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
SESSION = re.compile(r"session_([1-9]\d{0,3})")
# At most four digits: no chat has ten thousand turns, so longer numbers are not ids.
EVIDENCE = re.compile(r"D(\d{1,4}):(\d{1,4})(?!\d)(?:\s*-\s*D\1:(\d{1,4})(?!\d))?")


class Evidence(NamedTuple):
    """The ids in an evidence string, in order, and the rest of the string, which contains no id."""

    ids: list[str]
    unread: str


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one chat: every turn is a memory, and the questions come after the last session."""
    chat = expect(read_json(path), dict, str(path))
    name, where = path.stem, str(path)
    numbers = sorted(int(match[1]) for key in chat if (match := SESSION.fullmatch(key)) and chat[key])
    turns: list[Turn] = []
    memories: list[Memory] = []
    gold: dict[str, str] = {}
    lengths: dict[int, int] = {}
    clock = 0
    for number in numbers:
        at = f"{where}: session_{number}"
        date = optional(chat, f"session_{number}_date_time", str, "", where)
        for index, raw in enumerate(expect(chat[f"session_{number}"], list, at)):
            spot = f"{at}[{index}]"
            identity, speaker = field(raw, "dia_id", str, spot), field(raw, "speaker", str, spot)
            text, time = field(raw, "clean_text", str, spot), field(raw, "date_time", str, spot)
            caption = raw.get("blip_caption")
            clock = max(clock + 1, _time_ms(time, spot))
            key = f"{name}/session_{number}/{identity}"
            statement = f"{speaker}: {text}" + (f" {caption}" if caption else "")
            # The indexed text includes the session's date, as in LoCoMo and in the published rankings of both sets.
            date = date or time
            dated = f"{date}\n{date} {statement}"
            session = f"session_{number}"
            turns.append(
                Turn(
                    key,
                    len(turns),
                    session,
                    "user",
                    text,
                    clock,
                    speaker=speaker,
                    said=statement,
                    index_text=dated,
                )
            )
            memories.append(Memory(f"{key}#0", statement, dated, len(turns), clock, **pictures(raw)))
            gold[identity] = f"{key}#0"
            if match := EVIDENCE.fullmatch(identity):
                lengths[int(match[1])] = max(lengths.get(int(match[1]), 0), int(match[2]))
    golden = _questions(name, field(chat, "qa", list, where), gold, lengths, where)
    return [(Recording(name, tuple(turns), in_birth_order(memories), notes=golden.notes), golden)]


def _questions(
    name: str, raw_questions: list[Any], gold: dict[str, str], lengths: dict[int, int], where: str
) -> GoldenSet:
    probes, notes = [], []
    unresolved: Counter[str] = Counter()
    for index, raw in enumerate(raw_questions):
        at = f"{where}: qa[{index}]"
        identity = f"{name}/q{index + 1:03d}"
        evidence = [expect(evidence_text, str, f"{at}: evidence") for evidence_text in field(raw, "evidence", list, at)]
        parsed = [split_evidence(text) for text in evidence]
        ids = list(dict.fromkeys(dialogue_id for part in parsed for dialogue_id in part.ids))
        unknown = [dialogue_id for dialogue_id in ids if dialogue_id not in gold]
        for dialogue_id in unknown:
            session, _, number = dialogue_id[1:].partition(":")
            unresolved["holes" if int(number) <= lengths.get(int(session), 0) else "past the end"] += 1
        unread = [text for text, part in zip(evidence, parsed, strict=True) if part.unread or not part.ids]
        unresolved["unreadable"] += len(unread)
        changed = [
            f"{text!r} as {part.ids}"
            for text, part in zip(evidence, parsed, strict=True)
            if part.ids and part.ids != [text]
        ]
        if changed:
            notes.append(f"{identity}: evidence read: {', '.join(changed)}")
        relevant = tuple(Judgement(gold[dialogue_id]) for dialogue_id in ids if dialogue_id in gold)
        if unknown or unread or not evidence:
            what = f"evidence {[*unknown, *unread]} names no turn" if evidence else "it names no evidence"
            notes.append(f"{identity}: {'judged by the rest' if relevant else 'dropped'}, {what}")
        if not relevant:
            continue
        kind = "partial" if unknown or unread else "repaired" if changed else "verbatim"
        category = field(raw, "category", int, at)
        slices = {"category": CATEGORIES.get(category, str(category)), "evidence": kind}
        probes.append(Probe(identity, name, None, field(raw, "question", str, at), relevant, slices=slices))
    if any(unresolved.values()):
        counted = ", ".join(f"{count} {what}" for what, count in sorted(unresolved.items()) if count)
        notes.append(f"{name}: evidence that names no turn: {counted}")
    return GoldenSet(tuple(probes), tuple(notes))


def split_evidence(text: str) -> Evidence:
    """Parse an evidence string and expand its ranges; ``unread`` is the text that is neither an id nor a separator."""
    ids = [
        f"D{int(match[1])}:{number}"
        for match in EVIDENCE.finditer(text)
        for number in range(int(match[2]), int(match[3] or match[2]) + 1)
    ]
    return Evidence(ids, re.sub(r"[\s;,.:]+", " ", EVIDENCE.sub("", text)).strip())


def _time_ms(text: str, where: str) -> int:
    """Return ``29.12.2023, 22:42:04`` as epoch milliseconds, read as UTC."""
    try:
        return int(datetime.strptime(text.strip(), "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise UnusableInput(f"{where}: date_time {text!r} is not like '29.12.2023, 22:42:04'") from None
