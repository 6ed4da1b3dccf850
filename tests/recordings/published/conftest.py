"""Samples of every public format, exactly as published: paths, keys, types, line layout and encoding.

The words are this project's own. ``test_shapes.py`` compares each file with the published ones where they are at hand.
The samples in ``../conftest.py`` hold faults and other layouts instead, to show how a reader repairs or refuses them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Sample = Callable[[str, Path], Path]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8", newline="\n")


def _value(path: Path, value: Any, *, indent: int, ascii_only: bool = False, end: str = "") -> None:
    """Write one JSON value, indented."""
    _write(path, json.dumps(value, indent=indent, ensure_ascii=ascii_only) + end)


def _lines(path: Path, values: list[Any], *, end: str = "\n") -> None:
    """Write a JSON value per line."""
    _write(path, "\n".join(json.dumps(value, ensure_ascii=False) for value in values) + end)


def _realmem(root: Path) -> None:
    def turn(speaker: str, content: str, query: str | None = None, **more: Any) -> dict[str, Any]:
        return {"speaker": speaker, "is_query": query is not None, "content": content, "query_id": query, **more}

    def memory(content: Any, ordinal: int) -> dict[str, Any]:
        return {
            "index": f"Pottery_1-DM-S1_01-{ordinal:02}",
            "type": "Dynamic",
            "content": content,
            "source_turn": 0,
            "source_content_snapshot": "I fire at dawn.",
            "source_role_snapshot": "User",
            "session_uuid": "5a5a0001",
        }

    def session(identity: str, uuid: str, *turns: dict[str, Any], memories: tuple[Any, ...] = ()) -> dict[str, Any]:
        return {
            "session_identifier": identity,
            "session_uuid": uuid,
            "current_time": "2025-12-19 (Friday)",
            "dialogue_turns": list(turns),
            "extracted_memory": [memory(one, ordinal) for ordinal, one in enumerate(memories, 1)],
        }

    # One answer of the published set lacks a field.
    answer = {"speaker": "Assistant", "content": "It is.", "query_id": None}
    used = [{"session_uuid": "5a5a0001", "content": "Ada fires her kiln at dawn – twice a week."}]
    dialogues = [
        session(
            "Pottery_1:S1_01",
            "5a5a0001",
            turn("User", "I fire at dawn."),
            turn("Assistant", "Noted – at dawn."),
            # One memory of the published set is an object.
            memories=(
                "Ada fires her kiln at dawn – twice a week.",
                {"trip_name": "To the clay pit", "duration_days": 2},
            ),
        ),
        session("Enhanced:S10001", "5a5a0002", turn("User", "Nice weather."), answer),
        session(
            "Pottery_1:S1_02",
            "5a5a0003",
            turn(
                "User",
                "When do I fire?",
                "Q-0001",
                topic="Pottery",
                category_name="Dynamic Incremental",
                session_type="single",
            ),
            turn("Assistant", "At dawn.", memory_used=used, memory_session_uuids=["5a5a0001"]),
        ),
    ]
    metadata = {"person_name": "Ada_Clay", "total_sessions": 3, "total_tokens": 120}
    persona = {"_metadata": metadata, "dialogues": dialogues}
    _value(root / "dataset" / "Ada_Clay_dialogues_256k.json", persona, indent=2)
    # A file in the same folder that does not belong to the set.
    _value(root / "dataset" / "all_persona_topic" / "persona_all.json", {"Ada_Clay": {}}, indent=2)


def _locomo(root: Path) -> None:
    picture = {
        "img_url": ["https://pictures.example/bowl.jpg"],
        "blip_caption": "a photo of a blue bowl",
        "query": "blue bowl",
        "re-download": True,
    }
    sample = {
        "qa": [
            {"question": "What was glazed?", "answer": "a bowl – blue", "evidence": ["D1:1"], "category": 4},
            {"question": "When did it crack?", "answer": 2023, "evidence": ["D2:1", "D1:2"], "category": 2},
            {"question": "Is Ada patient?", "answer": "likely", "evidence": [], "category": 3},
            {"question": "What did Ben glaze?", "evidence": ["D1:1"], "category": 5, "adversarial_answer": "a bowl"},
        ],
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", **picture, "dia_id": "D1:1", "text": "I glazed a bowl."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Which colour?"},
            ],
            "session_2_date_time": "9:05 am on 12 May, 2023",
            "session_2": [{"speaker": "Ada", "dia_id": "D2:1", "text": "It cracked today."}],
            # Dates beyond the last session.
            "session_3_date_time": "10:00 am on 13 May, 2023",
        },
        "event_summary": {
            "events_session_1": {"Ada": ["Ada glazes a bowl."], "Ben": [], "date": "8 May, 2023"},
            "events_session_2": {"Ada": [], "Ben": [], "date": "12 May, 2023"},
        },
        "observation": {
            "session_1_observation": {
                "Ada": [["Ada glazed a bowl.", "D1:1"]],
                "Ben": [["Ben asks.", ["D1:2", "D1:1"]]],
            },
            "session_2_observation": {"Ada": [["Ada's bowl cracked.", "D2:1, D1:1"]], "Ben": []},
        },
        "session_summary": {"session_1_summary": "A bowl is glazed.", "session_2_summary": "It cracks."},
        "sample_id": "conv-1",
    }
    _value(root / "data" / "locomo10.json", [sample], indent=2, ascii_only=True)


def _realtalk(root: Path) -> None:
    def said(identity: str, text: str, minute: int, speaker: str = "Ada", **more: Any) -> dict[str, Any]:
        time = f"29.12.2023, 22:{minute:02}:00"
        none: dict[str, Any] = {"img_file": [], "img_url": []}
        return {"clean_text": text, "speaker": speaker, "date_time": time, **(none | more), "dia_id": identity}

    def events(*happened: str) -> dict[str, Any]:
        listed = [{"sub-event": one, "date": "", "id": "E", "caused_by": []} for one in happened]
        return {"agent_a": listed, "agent_b": list(reversed(listed))}

    picture = {"img_file": ["00000012-PHOTO.jpg"], "img_url": ["https://pictures.example/1"], "blip_caption": "a bowl"}
    chat = {
        "name": {"speaker_1": "Ada", "speaker_2": "Ben"},
        "session_1": [said("D1:1", "I glazed a bowl… 🏺", 1), said("D1:2", "Look!", 2, "Ben", **picture)],
        "events_session_1": events("Ada glazes a bowl."),
        "session_2": [said("D2:1", "It cracked.", 9)],
        "events_session_2": events(),
        "session_1_date_time": "29.12.2023, 22:01:00",
        "session_2_date_time": "29.12.2023, 22:09:00",
        "qa": [
            {"question": "What was glazed?", "answer": "a bowl", "evidence": ["D1:1"], "category": 1},
            {"question": "Does Ada sing?", "answer": "no", "evidence": [], "category": 3},
        ],
    }
    _value(root / "data" / "Chat_1_Ada_Ben.json", chat, indent=4)
    # Another set's chats in a folder below.
    _value(root / "data" / "locomo" / "Chat_1_Cleo_Dan.json", {"qa": [], "conversation": {}}, indent=4)


# Fields of a question about a chat, beside question, difficulty and rubric: "[]" is a list, "#" a number.
BEAM = {
    "abstention": "ideal_response abstention_type why_unanswerable plan_reference",
    "contradiction_resolution": "ideal_answer contradiction_type topic_questioned conversation_references[] tests_for",
    "event_ordering": "answer ordering_type total_mentions# conversation_references[] ordering_tested[]",
    "information_extraction": "answer question_type conversation_reference key_facts_tested[]",
    "instruction_following": "instruction_being_tested instruction_type expected_compliance compliance_indicators[] "
    "non_compliance_signs[]",
    "knowledge_update": "answer update_type conversation_references[] potential_confusion tests_retention_of",
    "multi_session_reasoning": "answer reasoning_type sessions_required# conversation_references[] reasoning_steps[]",
    "preference_following": "preference_being_tested preference_type expected_compliance compliance_indicators[] "
    "non_compliance_signs[]",
    "summarization": "ideal_summary summarization_type bullet_points_covered# key_elements_tested[] synthesis_required",
    "temporal_reasoning": "answer temporal_type time_points[] conversation_references[] calculation_required",
}
# What the questions of each ability add, sources among it: two in the first chat, two in the second.
STATED = {"source_chat_ids": {"first_statement": [0], "second_statement": [4]}}
EVENTS = {"source_chat_ids": {"first_event": [0], "second_event": [4]}}
UPDATED = {"source_chat_ids": {"original_info": [0], "updated_info": [4]}}
BEAM_MORE: dict[str, tuple[dict[str, Any], ...]] = {
    "abstention": ({}, {}, {}, {}),
    "contradiction_resolution": (STATED, STATED, STATED, STATED),
    "event_ordering": (
        {"source_chat_ids": [0, [2, 4]], "conversation_references": [1], "complexity_factors": ["length"]},
        *({"source_chat_ids": [0, 4]},) * 3,
    ),
    "information_extraction": (
        {"source_chat_ids": [0], "extraction_challenge": "one number"},
        *({"source_chat_ids": [2]},) * 3,
    ),
    "instruction_following": ({"source_chat_ids": [2]},) * 4,
    "knowledge_update": (UPDATED, UPDATED, {}, {"source_chat_ids": {"original_info": [0], "updated_info": []}}),
    "multi_session_reasoning": ({"source_chat_ids": [0, 4]},) * 4,
    "preference_following": ({"source_chat_ids": []}, *({"source_chat_ids": [2]},) * 3),
    "summarization": (
        {"source_chat_ids": [0, 4], "conversation_sessions": [1, 2]},
        {"source_chat_ids": []},
        *({"source_chat_ids": [0, 4], "conversation_sessions": 2},) * 2,
    ),
    "temporal_reasoning": (EVENTS, EVENTS, EVENTS, EVENTS | {"complexity_factors": ["two dates"]}),
}


def _beam(root: Path) -> None:
    def asked(ability: str, place: int) -> dict[str, Any]:
        filled: dict[str, Any] = {"question": f"What of the kiln – {ability}, {place}?"}
        for name in ("difficulty", *BEAM[ability].split(), "rubric[]"):
            bare = name.strip("[]#")
            filled[bare] = [bare] if "[]" in name else 2 if "#" in name else bare
        return filled | BEAM_MORE[ability][place]

    def message(identity: int, content: str, **more: Any) -> dict[str, Any]:
        return {"role": "assistant" if identity % 2 else "user", "id": identity, **more, "content": content}

    first = {"time_anchor": "March-15-2024", "index": "1,1", "question_type": "main_question"}
    chat = [
        {
            "batch_number": 1,
            "turns": [
                [message(0, "My kiln fires at 900 °C. ->-> 1,1", **first), message(1, "Noted.")],
                [message(2, "Answer in Celsius. ->-> 1,2", question_type="followup_question"), message(3, "I will.")],
            ],
            "time_anchor": None,
        },
        {
            "batch_number": 2,
            "turns": [[message(4, "It now fires at 1100 °C. ->-> 2,1", **first), message(5, "Understood.")]],
            "time_anchor": None,
        },
    ]
    for first_question, place in ((0, root / "chats" / "100K" / "7"), (2, root / "chats" / "500K" / "8")):
        _value(place / "chat.json", chat, indent=2, ascii_only=True)
        questions = {ability: [asked(ability, first_question + one) for one in (0, 1)] for ability in BEAM}
        _value(place / "probing_questions" / "probing_questions.json", questions, indent=4, ascii_only=True)
        _value(place / "topic.json", {"title": "A kiln"}, indent=4)
    # Ten of the chats of 100K were cut to length.
    _value(root / "chats" / "100K" / "7" / "chat_trunecated.json", chat[:1], indent=4, ascii_only=True)


def _ikat(root: Path) -> None:
    def topic(number: str | int) -> dict[str, Any]:
        turns = [
            {
                "turn_id": place,
                "utterance": said,
                "resolved_utterance": f"{said} In Tainan.",
                "response": "I see.",
                "ptkb_provenance": needs,
                "response_provenance": pages,
            }
            for place, (said, needs, pages) in enumerate(
                (("Where can I buy clay?", [2, 1], ["clueweb22-en0000-00-00000:0"]), ("Thanks.", [], [])), 1
            )
        ]
        return {
            "number": number,
            "title": "Pots",
            "ptkb": {"1": "I own a kiln.", "2": "I live in Tainan."},
            "turns": turns,
        }

    responses = [
        {
            "turn_id": place,
            "user_utterance": said,
            "resolved_utterance": said,
            "response": "I see.",
            "relevant_ptkbs": needs,
            "citations": pages,
        }
        for place, (said, needs, pages) in enumerate(
            (("Where can I buy clay?", ["I live in Tainan."], ["clueweb22-en0000-00-00000"]), ("Thanks.", [], [])), 1
        )
    ]
    newest = {"number": "1-1", "title": "Pots", "ptkb": ["I own a kiln.", "I live in Tainan."], "responses": responses}
    _value(root / "2023" / "data" / "2023_test_topics.json", [topic("9-1")], indent=4, end="\n")
    _lines(root / "2023" / "data" / "2023_test_topics_psg_text.jsonl", [{"id": "clueweb22-en0000-00-00000"}])
    _value(root / "2024" / "data" / "2024_test_topics.json", [topic(0)], indent=4, end="\n")
    _value(root / "2025" / "data" / "2025_test_topics.json", [newest], indent=4)


def _madial(root: Path) -> None:
    def dialogue(user: int, wanted: list[int], test: list[int], *said: str) -> dict[str, Any]:
        lines = ["<BOD>\n", *(f"{one}\n" for one in said), "<EOD>\n"]
        return {"dialogue": lines, "test-turn": test, "relevant-id": wanted, "user-id": user}

    english = [
        dialogue(1, [3, 1], [2, 4], '<Ada>: "Cold kiln…"', '<Assistant>: "Oh?"', '<Ada>: "Yes."', '"Call Bo."'),
        dialogue(2, [9], [2], '<Ben>: "I want to sing."', '<Assistant>: "As in May?"'),
    ]
    chinese = [
        dialogue(
            1, [3, 1], [2, 4], '<Ada>:"窯又冷了。"', '<Assistant>:"是嗎？"', '<Ada>:"對。"', '<Assistant>:"找阿波。"'
        ),
        dialogue(2, [9], [2], '<Ben>:"我想唱歌。"', '<Assistant>:"像五月那樣？"'),
    ]
    archive = [
        (1, 1, "Ada’s kiln broke.", "Ada的窯壞了。"),
        (3, 1, "Ada called Bo.", "Ada打電話給阿波。"),
        (9, 2, "Ben sang in May.", "Ben五月唱了歌。"),
    ]
    told = {"time": "2023-12-25", "scene": "Home", "emotion": "Happy"}
    english_memories = [{str(key): told | {"event": event}} for key, _, event, _ in archive]
    chinese_memories = [
        {str(key): told | {"event": event, "user-id": user, "id": str(key)}} for key, user, _, event in archive
    ]
    _lines(root / "data" / "en" / "MADial-Bench-en-dialogue.json", english)
    _lines(root / "data" / "en" / "MADial-Bench-en-memory.json", english_memories)
    numbered = [one | {"id": number} for number, one in enumerate(chinese)]
    _lines(root / "data" / "ch" / "MADial-Bench-zh-dialogue.json", numbered)
    _lines(root / "data" / "ch" / "MADial-Bench-zh-memory.json", chinese_memories)
    _lines(root / "data" / "ch" / "MADial-Bench-zh-dialogue-setting2.json", [one | {"prompt": ""} for one in numbered])


AIDER = """-*- mode: fundamental -*-
>{0}
> - hook id: some check{0}
> Aider v0.47.2-dev

# aider chat started at 2024-08-05 19:33:02

> Models: some model{0}

# aider chat started at 2024-08-06 09:00:00

#### rename `fire` …{0}
####{0}
#### to `bake`, everywhere{0}

Certainly! I will rename it:
{0}
kiln.py
```python
<<<<<<< SEARCH
def fire(): ...
=======
def bake(): ...
>>>>>>> REPLACE
```

#### What changed

> Applied edit to kiln.py{0}

#### /undo{0}

> Removed: 1234567{0}
"""


def _aider(root: Path) -> None:
    _write(root / "tests" / "fixtures" / "chat-history.md", AIDER.replace("{0}", "  ").replace("####  ", "####   "))


def _hermes(root: Path) -> None:
    def exchange(asked: str, answered: str, minute: int) -> list[dict[str, str]]:
        time = f"2026-05-15T10:{minute:02}:42.314671+00:00"
        return [
            {"role": "user", "content": f"User: {asked}", "timestamp": time},
            {"role": "assistant", "content": f"Assistant: {answered}", "timestamp": time},
        ]

    folder = root / "hindsight-dev" / "benchmarks" / "obs" / "datasets"
    first, second = exchange("窯爐多少度", "九百度", 1), exchange("[System note: go on.]\n\n改成一千一百度", "好的", 3)
    _lines(folder / "hermes_session_2026-05-15.txt", [[first], [first, second], [exchange("早安", "早", 9)]])
    hot, hotter = exchange("How hot…", "900", 1), exchange("[System note: go on.]\n\nMake it 1100", "Fine", 3)
    _lines(folder / "hermes_session_2026-05-15_en.txt", [[hot], [hot, hotter], [exchange("Hello", "Hi", 9)]], end="")
    _write(folder / "herb_garden.txt", "Basil grows by the kiln.\n")


SAMPLES: dict[str, Callable[[Path], None]] = {
    "aider": _aider,
    "beam": _beam,
    "hermes": _hermes,
    "ikat": _ikat,
    "locomo": _locomo,
    "madial": _madial,
    "realmem": _realmem,
    "realtalk": _realtalk,
}


@pytest.fixture(scope="session")
def clone_sample() -> Sample:
    """Write the sample of a format into a folder with the layout of a clone of its authors' repository."""

    def write(format_name: str, folder: Path) -> Path:
        SAMPLES[format_name](folder)
        return folder

    return write
