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
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.files import read_json
from lab.base.regex import regex
from lab.base.shape import expect, field, optional
from lab.base.times import date_ms
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.locomo import answer_of, pictures
from lab.recordings.model import Chat, Recording

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
SESSION = regex(r"session_([1-9]\d{0,3})")
# At most four digits: no chat has ten thousand turns, so longer numbers are not ids.
EVIDENCE = regex(r"D(\d{1,4}):(\d{1,4})(?!\d)(?:\s*-\s*D\1:(\d{1,4})(?!\d))?")


class Evidence(NamedTuple):
    """The ids in an evidence string, in order, and the rest of the string, which contains no id."""

    ids: list[str]
    unread: str


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one chat: every turn is a memory, and the questions come after the last session."""
    data = expect(read_json(path), dict, str(path))
    name, where = path.stem, str(path)
    numbers = sorted(int(match[1]) for key in data if (match := SESSION.fullmatch(key)) and data[key])
    chat = Chat(name)
    gold: dict[str, str] = {}
    lengths: dict[int, int] = {}
    for number in numbers:
        session = f"session_{number}"
        at = f"{where}: {session}"
        date = optional(data, f"{session}_date_time", str, "", where)
        for index, raw in enumerate(expect(data[session], list, at)):
            spot = f"{at}[{index}]"
            identity, speaker = field(raw, "dia_id", str, spot), field(raw, "speaker", str, spot)
            text, time = field(raw, "clean_text", str, spot), field(raw, "date_time", str, spot)
            caption = raw.get("blip_caption")
            statement = f"{speaker}: {text}" + (f" {caption}" if caption else "")
            # The indexed text includes the session's date, as in LoCoMo and in the published rankings of both sets.
            date = date or time
            dated = f"{date}\n{date} {statement}"
            wrong = f"{spot}: date_time {time!r} is not like '29.12.2023, 22:42:04'"
            now = date_ms(time.strip(), "%d.%m.%Y, %H:%M:%S", wrong)
            turn = chat.say(session, identity, "user", text, now, speaker=speaker, said=statement, index_text=dated)
            gold[identity] = chat.keep(f"{turn.key}#0", statement, dated, **pictures(raw))
            if match := EVIDENCE.fullmatch(identity):
                lengths[int(match[1])] = max(lengths.get(int(match[1]), 0), int(match[2]))
    golden = _questions(name, field(data, "qa", list, where), gold, lengths, where)
    return [(chat.recording(golden.notes), golden)]


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
        question, answer = field(raw, "question", str, at), answer_of(raw, at)
        probes.append(Probe(identity, name, None, question, relevant, slices=slices, answer=answer))
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
