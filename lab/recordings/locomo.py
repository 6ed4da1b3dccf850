"""LoCoMo-10 (snap-research, CC BY-NC 4.0): two people talk over months; questions name the turns that answer them.

Questions are asked from outside after the last session. Every turn is a memory; or, as ``observations``, the statements
that the set's authors drew from each session, which exist once it has ended. Evidence strings are repaired: joined
ids are split, ``D:11:26`` and ``D30:05`` are read as ``D11:26`` and ``D30:5``. A question is kept where every
evidence id then names a turn; the rest are left out and noted. The gold of an evidence turn is its own memory, or every
observation that cites it; a question whose evidence no observation cites is left out, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import read_json
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn, in_birth_order
from lab.shape import expect, field

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
SESSION = re.compile(r"session_([1-9]\d{0,3})")
EVIDENCE = re.compile(r"D:?0*(\d+):0*(\d+)")


def read(path: Path, memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read every conversation of a LoCoMo file; ``memories`` are its ``turns`` or its ``observations``."""
    return [
        _conversation(sample, f"{path}: [{number}]", observed=memories == "observations")
        for number, sample in enumerate(expect(read_json(path), list, str(path)))
    ]


def _conversation(sample: Any, where: str, *, observed: bool) -> tuple[Recording, GoldenSet]:
    name = field(sample, "sample_id", str, where)
    conversation = field(sample, "conversation", dict, where)
    # The file holds dates of sessions that were never spoken; only sessions with turns count.
    numbers = sorted(int(match[1]) for key in conversation if (match := SESSION.fullmatch(key)) and conversation[key])
    turns: list[Turn] = []
    memories: list[Memory] = []
    gold: dict[str, list[str]] = {}
    cited: list[tuple[str, list[str]]] = []
    observations = field(sample, "observation", dict, where) if observed else {}
    clock = 0
    for number in numbers:
        at = f"{where}: session_{number}"
        date = field(conversation, f"session_{number}_date_time", str, where)
        start = _date_ms(date, at)
        for index, raw in enumerate(expect(conversation[f"session_{number}"], list, at)):
            spot = f"{at}[{index}]"
            identity = field(raw, "dia_id", str, spot)
            speaker, text = field(raw, "speaker", str, spot), field(raw, "text", str, spot)
            caption = raw.get("blip_caption")
            said = f'{speaker} said, "{text}"' + (f" and shared {caption}" if caption else "")
            dated = f"{date}\n{date} {said}"
            clock = max(clock + 1, start)
            turn = Turn(
                f"{name}/session_{number}/{identity}",
                len(turns),
                f"session_{number}",
                "user",
                text,
                clock,
                speaker=speaker,
                said=said,
                index_text=dated,
            )
            turns.append(turn)
            gold[identity] = []
            if not observed:
                key = f"{turn.key}#0"
                memories.append(Memory(key, said, dated, visible_from=len(turns), created_at=clock))
                gold[identity].append(key)
        what = f"session_{number}_observation"
        for ordinal, (text, ids) in enumerate(_statements(observations.get(what, {}), f"{where}: {what}")):
            key = f"{name}/session_{number}#{ordinal}"
            memories.append(Memory(key, text, text, visible_from=len(turns), created_at=clock))
            cited.append((key, ids))
    notes = []
    for key, ids in cited:
        for one in ids:
            if one in gold:
                gold[one].append(key)
            else:
                notes.append(f"{key}: cites {one!r}, which is no turn")
    golden = _questions(name, field(sample, "qa", list, where), gold, where)
    golden = replace(golden, notes=(*notes, *golden.notes))
    return Recording(name, tuple(turns), in_birth_order(memories), notes=golden.notes), golden


def _statements(speakers: Any, at: str) -> Iterator[tuple[str, list[str]]]:
    """The observations of one session in their order, each with the dialogue ids that it cites."""
    for speaker, statements in expect(speakers, dict, at).items():
        for index, pair in enumerate(expect(statements, list, f"{at}.{speaker}")):
            spot = f"{at}.{speaker}[{index}]"
            if len(expect(pair, list, spot)) != 2:
                raise UnusableInput(f"{spot}: expected a statement and the ids that it cites")
            cited = pair[1] if isinstance(pair[1], list) else [pair[1]]
            ids = [one for text in cited for one in split_evidence(expect(text, str, f"{spot}[1]"))]
            yield expect(pair[0], str, f"{spot}[0]"), ids


def _questions(name: str, raw_questions: list[Any], gold: dict[str, list[str]], where: str) -> GoldenSet:
    """Probes of the questions; ``gold`` gives the memories that hold each turn."""
    probes, notes = [], []
    uncited = partly = 0
    for index, raw in enumerate(raw_questions):
        at = f"{where}: qa[{index}]"
        identity = f"{name}/q{index + 1:03d}"
        evidence = field(raw, "evidence", list, at)
        ids = [one for text in evidence for one in split_evidence(expect(text, str, f"{at}: evidence"))]
        if ids != evidence:
            notes.append(f"{identity}: evidence {evidence} read as {ids}")
        if not ids or any(one not in gold for one in ids):
            reason = (
                "it names no evidence" if not ids else f"evidence {[one for one in ids if one not in gold]} is no turn"
            )
            notes.append(f"{identity}: left out, {reason}")
            continue
        relevant = tuple(Judgement(key) for key in dict.fromkeys(key for one in ids for key in gold[one]))
        if not relevant:
            uncited += 1
            notes.append(f"{identity}: left out, no observation cites {ids}")
            continue
        partly += any(not gold[one] for one in ids)
        category = field(raw, "category", int, at)
        probes.append(
            Probe(
                identity,
                name,
                None,
                field(raw, "question", str, at),
                relevant,
                slices={"category": CATEGORIES.get(category, str(category))},
            )
        )
    if uncited or partly:
        notes.append(
            f"{name}: {uncited} of {len(raw_questions)} questions are left out because no observation cites their "
            f"evidence; {partly} of the {len(probes)} kept are judged by the part that is cited"
        )
    return GoldenSet(tuple(probes), tuple(notes))


def split_evidence(text: str) -> list[str]:
    """Evidence ids in one string, repaired. What has no id in it stays as it is, so that it is seen not to resolve."""
    parts = [part for part in re.split(r"[;,\s]+", text.strip()) if part]
    return [f"D{match[1]}:{match[2]}" if (match := EVIDENCE.fullmatch(part)) else part for part in parts]


def _date_ms(text: str, where: str) -> int:
    """``1:56 pm on 8 May, 2023`` as epoch milliseconds, read as UTC."""
    try:
        return int(datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        raise UnusableInput(f"{where}: date {text!r} is not like '1:56 pm on 8 May, 2023'") from None
