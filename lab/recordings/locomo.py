"""Reader of LoCoMo-10 (snap-research, CC BY-NC 4.0): two people chat for months; questions name their evidence turns.

Questions come after the last session. With ``turns``, every turn is a memory. With ``observations``, the memories
are the statements that the authors extracted from each session; they exist once the session has ended. The reader
repairs evidence strings: it splits joined ids and reads ``D:11:26`` and ``D30:05`` as ``D11:26`` and ``D30:5``. A
question is kept if every evidence id then names a turn; others are dropped and noted. The relevant memories of an
evidence turn are the turn itself or every observation that cites it; a question whose evidence no observation cites is
dropped as well. Adversarial questions have no answer, as nothing in the conversation answers them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.base.times import date_ms
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Chat, Recording

ADVERSARIAL = "adversarial"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
SESSION = regex(r"session_([1-9]\d{0,3})")
EVIDENCE = regex(r"D:?0*(\d+):0*(\d+)")


def read(path: Path, memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read every conversation of a LoCoMo file; ``memories`` is ``turns`` or ``observations``."""
    return [
        _conversation(sample, f"{path}: [{number}]", observed=memories == "observations")
        for number, sample in enumerate(expect(read_json(path), list, str(path)))
    ]


def _conversation(sample: Any, where: str, *, observed: bool) -> tuple[Recording, GoldenSet]:
    name = field(sample, "sample_id", str, where)
    conversation = field(sample, "conversation", dict, where)
    # The file has dates for sessions that do not exist; only sessions with turns count.
    numbers = sorted(int(match[1]) for key in conversation if (match := SESSION.fullmatch(key)) and conversation[key])
    chat = Chat(name)
    gold: dict[str, list[str]] = {}
    cited: list[tuple[str, list[str]]] = []
    observations = field(sample, "observation", dict, where) if observed else {}
    for number in numbers:
        session = f"session_{number}"
        at = f"{where}: {session}"
        date = field(conversation, f"{session}_date_time", str, where)
        wrong = f"{at}: date {date!r} is not like '1:56 pm on 8 May, 2023'"
        start = date_ms(date.strip(), "%I:%M %p on %d %B, %Y", wrong)
        for index, raw in enumerate(expect(conversation[session], list, at)):
            spot = f"{at}[{index}]"
            identity = field(raw, "dia_id", str, spot)
            speaker, text = field(raw, "speaker", str, spot), field(raw, "text", str, spot)
            caption = raw.get("blip_caption")
            statement = f'{speaker} said, "{text}"' + (f" and shared {caption}" if caption else "")
            dated = f"{date}\n{date} {statement}"
            turn = chat.say(session, identity, "user", text, start, speaker=speaker, said=statement, index_text=dated)
            kept = [] if observed else [chat.keep(f"{turn.key}#0", statement, dated, **pictures(raw))]
            gold[identity] = kept
        what = f"{session}_observation"
        for ordinal, (text, ids) in enumerate(_statements(observations.get(what, {}), f"{where}: {what}")):
            cited.append((chat.keep(f"{name}/{session}#{ordinal}", text, text), ids))
    notes = []
    for key, ids in cited:
        for dialogue_id in ids:
            if dialogue_id in gold:
                gold[dialogue_id].append(key)
            else:
                notes.append(f"{key}: cites {dialogue_id!r}, which is not a turn")
    golden = _questions(name, field(sample, "qa", list, where), gold, where)
    golden = replace(golden, notes=(*notes, *golden.notes))
    return chat.recording(golden.notes), golden


def pictures(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the media fields of the memory of a turn that shares pictures (E-99); empty if it shares none."""
    given = raw.get("img_url") or raw.get("img_file") or []
    listed = given if isinstance(given, list) else [given]
    refs = tuple(ref for ref in listed if isinstance(ref, str))
    return {"media_refs": refs, "media_kind": "image"} if refs or raw.get("blip_caption") else {}


def _statements(speakers: Any, at: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the observations of one session in order, each with the dialogue ids that it cites."""
    for speaker, statements in expect(speakers, dict, at).items():
        for index, pair in enumerate(expect(statements, list, f"{at}.{speaker}")):
            spot = f"{at}.{speaker}[{index}]"
            if len(expect(pair, list, spot)) != 2:
                raise UnusableInput(f"{spot}: expected a pair of a statement and the ids that it cites")
            cited = pair[1] if isinstance(pair[1], list) else [pair[1]]
            ids = [dialogue_id for text in cited for dialogue_id in split_evidence(expect(text, str, f"{spot}[1]"))]
            yield expect(pair[0], str, f"{spot}[0]"), ids


def _questions(name: str, raw_questions: list[Any], gold: dict[str, list[str]], where: str) -> GoldenSet:
    """Return the questions as probes; ``gold`` maps a dialogue id to the keys of its memories."""
    probes, notes = [], []
    uncited = partly = 0
    for index, raw in enumerate(raw_questions):
        at = f"{where}: qa[{index}]"
        identity = f"{name}/q{index + 1:03d}"
        evidence = field(raw, "evidence", list, at)
        ids = [dialogue_id for text in evidence for dialogue_id in split_evidence(expect(text, str, f"{at}: evidence"))]
        if ids != evidence:
            notes.append(f"{identity}: evidence {evidence} read as {ids}")
        if not ids or any(dialogue_id not in gold for dialogue_id in ids):
            reason = (
                "it names no evidence"
                if not ids
                else f"evidence {[dialogue_id for dialogue_id in ids if dialogue_id not in gold]} is no turn"
            )
            notes.append(f"{identity}: dropped, {reason}")
            continue
        relevant = tuple(
            Judgement(key) for key in dict.fromkeys(key for dialogue_id in ids for key in gold[dialogue_id])
        )
        if not relevant:
            uncited += 1
            notes.append(f"{identity}: dropped, no observation cites {ids}")
            continue
        partly += any(not gold[dialogue_id] for dialogue_id in ids)
        category = CATEGORIES.get(field(raw, "category", int, at), str(raw["category"]))
        answer = answer_of(raw, at) if category != ADVERSARIAL else ""
        question = field(raw, "question", str, at)
        probes.append(Probe(identity, name, None, question, relevant, slices={"category": category}, answer=answer))
    if uncited or partly:
        notes.append(
            f"{name}: {uncited} of {len(raw_questions)} questions dropped because no observation cites their "
            f"evidence; {partly} of the {len(probes)} kept are judged by the cited part of their evidence"
        )
    return GoldenSet(tuple(probes), tuple(notes))


def answer_of(raw: dict[str, Any], at: str) -> str:
    """Return the answer of a question, of which some are numbers; blank without one."""
    answer = raw.get("answer")
    return "" if answer is None else str(expect(answer, str | int | float, f"{at}: answer", "a string or a number"))


def split_evidence(text: str) -> list[str]:
    """Return the repaired evidence ids in a string. A part without an id is returned unchanged and fails to resolve."""
    parts = [part for part in re.split(r"[;,\s]+", text.strip()) if part]
    return [f"D{match[1]}:{match[2]}" if (match := EVIDENCE.fullmatch(part)) else part for part in parts]
