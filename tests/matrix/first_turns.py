"""The first turns of one conversation of each public format, in the files of the format itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

TURNS = 20
# RealMem asks nothing before its 24th turn.
ENOUGH = {"realmem": 80}
Data = Callable[..., Path]


def _write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    return path.parent


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _within(evidence: Any, known: set[Any]) -> bool:
    """Return whether all that a question refers to, in lists or by name, is in ``known``."""
    if isinstance(evidence, dict):
        return all(_within(value, known) for value in evidence.values())
    if isinstance(evidence, list):
        return all(_within(value, known) for value in evidence)
    return evidence in known


def locomo(data: Data, to: Path) -> Path:
    """One session of LoCoMo, and the questions about it."""
    one = _read(data("data", "locomo", "locomo5_dev.json"))[0]
    turns = one["conversation"]["session_1"][:TURNS]
    names = ("speaker_a", "speaker_b", "session_1_date_time")
    conversation = {name: one["conversation"][name] for name in names} | {"session_1": turns}
    known = {turn["dia_id"] for turn in turns}
    asked = [question for question in one["qa"] if question["evidence"] and _within(question["evidence"], known)]
    return _write(to / "locomo.json", [{"sample_id": one["sample_id"], "conversation": conversation, "qa": asked}])


def realtalk(data: Data, to: Path) -> Path:
    """One session of REALTALK; its questions come much later, so there is none."""
    one = _read(data("data", "realtalk", "Chat_1_Emi_Elise.json"))
    turns = one["session_1"][:TURNS]
    known = {turn["dia_id"] for turn in turns}
    asked = [question for question in one["qa"] if question["evidence"] and _within(question["evidence"], known)]
    kept = {"name": one["name"], "session_1": turns, "session_1_date_time": one.get("session_1_date_time")}
    return _write(to / "Chat_1_Emi_Elise.json", kept | {"qa": asked})


def realmem(data: Data, to: Path) -> Path:
    """Sessions of a persona of RealMem, with what they use of each other."""
    one = _read(data("data", "realmem", "Sophie_Dubois_dialogues_256k.json"))
    dialogues, left = [], ENOUGH["realmem"]
    for dialogue in one["dialogues"]:
        if left <= 0:
            break
        dialogues.append(dialogue | {"dialogue_turns": dialogue["dialogue_turns"][:left]})
        left -= len(dialogue["dialogue_turns"])
    known = {dialogue["session_uuid"] for dialogue in dialogues}
    for turn in (turn for dialogue in dialogues for turn in dialogue["dialogue_turns"]):
        if "memory_used" in turn:
            turn["memory_used"] = [used for used in turn["memory_used"] if used["session_uuid"] in known]
        if "memory_session_uuids" in turn:
            turn["memory_session_uuids"] = [name for name in turn["memory_session_uuids"] if name in known]
    return _write(to / "Sophie_Dubois_dialogues_256k.json", one | {"dialogues": dialogues})


def beam(data: Data, to: Path) -> Path:
    """The beginning of a chat of BEAM, and the questions about it or about nothing."""
    source = data("data", "beam", "100K", "1")
    batch = _read(source / "chat.json")[0]
    groups, left = [], TURNS
    for group in batch["turns"]:
        if left > 0:
            groups.append(group)
        left -= len(group)
    known = {turn["id"] for group in groups for turn in group}
    asked = {
        ability: [question for question in questions if _within(question.get("source_chat_ids", []), known)]
        for ability, questions in _read(source / "probing_questions.json").items()
    }
    _write(to / "1" / "chat.json", [batch | {"turns": groups}])
    _write(to / "1" / "probing_questions.json", asked)
    return to


def ikat(data: Data, to: Path) -> Path:
    """Two topics of iKAT: a threshold of silence is chosen on one and tried on the other."""
    return _write(to / "2023_train_topics.json", _read(data("data", "ikat", "2023_train_topics.json"))[:2])


def madial(data: Data, to: Path) -> Path:
    """Four dialogues of MADial-Bench."""
    source = data("data", "madial")
    to.mkdir(parents=True)
    lines = (source / "en-dialogue-user1.jsonl").read_text("utf-8").splitlines(keepends=True)[:4]
    (to / "en-dialogue-user1.jsonl").write_text("".join(lines), "utf-8")
    shutil.copy(source / "en-memory-user1.json", to)
    return to


def aider(data: Data, to: Path) -> Path:
    """The first messages of a developer's history of aider."""
    text = data("data", "transcripts", "aider-chat-history.md").read_text("utf-8")
    messages = text.split("\n#### ")
    to.mkdir(parents=True)
    (to / "history.md").write_text("\n#### ".join(messages[: TURNS + 1]), "utf-8")
    return to


def hermes(data: Data, to: Path) -> Path:
    """The first conversations of a day with a Hermes agent."""
    lines = data("data", "transcripts", "hermes-zh.jsonl").read_text("utf-8").splitlines(keepends=True)
    to.mkdir(parents=True)
    (to / "hermes-zh.jsonl").write_text("".join(lines[: TURNS // 2]), "utf-8")
    return to


def _sessions(version: str) -> Callable[[Data, Path], Path]:
    def copied(data: Data, to: Path) -> Path:
        return Path(shutil.copytree(data("live", f"sessions-{version}"), to))

    return copied


# By a name that begins with the format.
FORMATS: dict[str, Callable[[Data, Path], Path]] = {
    **{make.__name__: make for make in (aider, beam, hermes, ikat, locomo, madial, realmem, realtalk)},
    "openclaw 2026.6.11": _sessions("2026.6.11"),
    "openclaw 2026.9.6": _sessions("2026.9.6"),
}
