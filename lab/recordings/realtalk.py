"""REALTALK (danny911kr, no licence: research only): two real people chat for 21 days; questions name the turns.

One file a chat. Questions are asked from outside after the last session, every turn is a memory, as in LoCoMo. Evidence
strings are repaired: ``D12:3-D12:5`` is the turns from one to the other, ``D11:17; D16:1`` and ``D13:45:D20:19`` are
two ids, ``D5:3.`` is one. An id that no turn has is a *hole* where it lies within its session: a message of an image
alone, which was merged away. Its neighbour is not taken in its place; the notes count holes, ids past the end and what
cannot be read at all. A question is kept where any of its evidence names a turn, and its slice ``evidence`` says how:
``verbatim``, ``repaired`` (all of it, once repaired) or ``partial``.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.files import read_json
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn, in_birth_order
from lab.shape import expect, field, optional

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
SESSION = re.compile(r"session_([1-9]\d{0,3})")
# No chat has ten thousand turns; a range that says so is no range.
EVIDENCE = re.compile(r"D(\d{1,4}):(\d{1,4})(?!\d)(?:\s*-\s*D\1:(\d{1,4})(?!\d))?")


class Evidence(NamedTuple):
    """Ids that one evidence string names, in order, and what of it names none."""

    ids: list[str]
    unread: str


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one chat: every turn is a memory, the questions are probes from outside."""
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
            said = f"{speaker}: {text}" + (f" {caption}" if caption else "")
            # Searched under the date of its session, as in LoCoMo and in the published rankings of both.
            date = date or time
            dated = f"{date}\n{date} {said}"
            session = f"session_{number}"
            turns.append(
                Turn(key, len(turns), session, "user", text, clock, speaker=speaker, said=said, index_text=dated)
            )
            memories.append(Memory(f"{key}#0", said, dated, visible_from=len(turns), created_at=clock))
            gold[identity] = f"{key}#0"
            if match := EVIDENCE.fullmatch(identity):
                lengths[int(match[1])] = max(lengths.get(int(match[1]), 0), int(match[2]))
    golden = _questions(name, field(chat, "qa", list, where), gold, lengths, where)
    return [(Recording(name, tuple(turns), in_birth_order(memories), notes=golden.notes), golden)]


def _questions(
    name: str, raw_questions: list[Any], gold: dict[str, str], lengths: dict[int, int], where: str
) -> GoldenSet:
    probes, notes = [], []
    found: Counter[str] = Counter()
    for index, raw in enumerate(raw_questions):
        at = f"{where}: qa[{index}]"
        identity = f"{name}/q{index + 1:03d}"
        evidence = [expect(one, str, f"{at}: evidence") for one in field(raw, "evidence", list, at)]
        read_as = [split_evidence(text) for text in evidence]
        ids = list(dict.fromkeys(one for part in read_as for one in part.ids))
        dead = [one for one in ids if one not in gold]
        for one in dead:
            session, _, number = one[1:].partition(":")
            found["holes" if int(number) <= lengths.get(int(session), 0) else "past the end"] += 1
        unread = [text for text, part in zip(evidence, read_as, strict=True) if part.unread or not part.ids]
        found["unreadable"] += len(unread)
        changed = [
            f"{text!r} as {part.ids}"
            for text, part in zip(evidence, read_as, strict=True)
            if part.ids and part.ids != [text]
        ]
        if changed:
            notes.append(f"{identity}: evidence read: {', '.join(changed)}")
        relevant = tuple(Judgement(gold[one]) for one in ids if one in gold)
        if dead or unread or not evidence:
            what = f"evidence {[*dead, *unread]} names no turn" if evidence else "it names no evidence"
            notes.append(f"{identity}: {'judged by the rest' if relevant else 'left out'}, {what}")
        if not relevant:
            continue
        kind = "partial" if dead or unread else "repaired" if changed else "verbatim"
        category = field(raw, "category", int, at)
        slices = {"category": CATEGORIES.get(category, str(category)), "evidence": kind}
        probes.append(Probe(identity, name, None, field(raw, "question", str, at), relevant, slices=slices))
    if any(found.values()):
        counted = ", ".join(f"{count} {what}" for what, count in sorted(found.items()) if count)
        notes.append(f"{name}: evidence that names no turn: {counted}")
    return GoldenSet(tuple(probes), tuple(notes))


def split_evidence(text: str) -> Evidence:
    """The ids in one evidence string, ranges written out; ``unread`` is what is neither an id nor between two."""
    ids = [
        f"D{int(match[1])}:{number}"
        for match in EVIDENCE.finditer(text)
        for number in range(int(match[2]), int(match[3] or match[2]) + 1)
    ]
    return Evidence(ids, re.sub(r"[\s;,.:]+", " ", EVIDENCE.sub("", text)).strip())


def _time_ms(text: str, where: str) -> int:
    """``29.12.2023, 22:42:04`` as epoch milliseconds, read as UTC."""
    try:
        return int(datetime.strptime(text.strip(), "%d.%m.%Y, %H:%M:%S").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise UnusableInput(f"{where}: date_time {text!r} is not like '29.12.2023, 22:42:04'") from None
