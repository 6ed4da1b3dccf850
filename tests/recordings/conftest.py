"""Fixtures that write a small invented data set of every public format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Sample = Callable[[str, Path], Path]


def _realtalk(folder: Path) -> None:
    def message(identity: str, text: str, minute: int, speaker: str = "Ada", **more: Any) -> dict[str, Any]:
        time = f"29.12.2023, 22:{minute:02}:00"
        return {"clean_text": text, "speaker": speaker, "date_time": time, "dia_id": identity, "img_file": [], **more}

    def question_of(question: str, *evidence: str, category: int = 1) -> dict[str, Any]:
        return {"question": question, "answer": "yes", "evidence": list(evidence), "category": category}

    chat = {
        "name": {"speaker_1": "Ada", "speaker_2": "Ben"},
        "session_1": [
            message("D1:1", "I glazed a bowl.", 1),
            message("D1:2", "Look!", 2, "Ben", blip_caption="a blue bowl"),
            message("D1:4", "The kiln is at 1220 degrees.", 3),
        ],
        "events_session_1": {},
        "session_1_date_time": "29.12.2023, 22:01:00",
        "session_2": [message("D2:1", "It cracked.", 0), message("D2:2", "Oh no.", 5, "Ben")],
        "qa": [
            question_of("What was glazed?", "D1:1"),
            question_of("Which things?", "D1:1-D1:4", "D2:1.", category=3),
            question_of("Both?", "D1:02:D2:2", category=2),
            question_of("And the image?", "D1:3", "D1:4"),
            question_of("Nothing?"),
            question_of("Dead?", "D1:3", "D9:1", "D17;39", ""),
        ],
    }
    (folder / "Chat_1_Ada_Ben.json").write_text(json.dumps(chat), "utf-8")


def _beam(folder: Path) -> None:
    def message(identity: int, content: str, **more: Any) -> dict[str, Any]:
        return {"id": identity, "role": "user" if identity % 2 == 0 else "assistant", "content": content, **more}

    chat = [
        {
            "batch_number": 1,
            "time_anchor": None,
            "turns": [
                [
                    message(0, "My kiln fires at 900 degrees. ->-> 1,1", time_anchor="March-15-2024"),
                    message(1, "Noted."),
                ],
                [message(2, "Always answer in Celsius, please. ->-> 1,2"), message(3, "I will.")],
            ],
        },
        {
            "batch_number": 2,
            "time_anchor": None,
            "turns": [[message(4, "The kiln now fires at 1100 degrees."), message(5, "Understood.")]],
        },
    ]
    questions = {
        "abstention": [{"question": "Who built the kiln?", "difficulty": "easy"}],
        "knowledge_update": [
            {"question": "How hot?", "source_chat_ids": {"original_info": [0], "updated_info": [4]}},
            {"question": "How hot, then?", "source_chat_ids": {"original_info": [4], "updated_info": [4, 77]}},
        ],
        "contradiction_resolution": [
            {"question": "Which?", "source_chat_ids": {"first_statement": [4], "second_statement": [0]}}
        ],
        "event_ordering": [{"question": "In what order?", "source_chat_ids": [0, [2, 4], 4]}],
        "summarization": [{"question": "Sum it up.", "source_chat_ids": []}],
    }
    chat_folder = folder / "100K" / "7"
    (chat_folder / "probing_questions").mkdir(parents=True)
    (chat_folder / "chat.json").write_text(json.dumps(chat), "utf-8")
    (chat_folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(questions), "utf-8")


def _ikat(folder: Path) -> None:
    def turn(identity: Any, utterance: str, needs: list[Any]) -> dict[str, Any]:
        return {"turn_id": identity, "utterance": utterance, "response": "I see.", "ptkb_provenance": needs}

    numbered = {
        "number": 3,
        "title": "Pots",
        "ptkb": {"1": "I own a kiln.", "2": "I live in Tainan."},
        "turns": [turn(1, "Where can I buy clay?", [2]), turn("2", "Thanks.", []), turn(3, "Which?", ["1", 1, 9])],
    }
    named = {
        "number": "1-1",
        "ptkb": ["I own a kiln.", "I live in  Tainan."],
        "responses": [
            {
                "turn_id": 1,
                "user_utterance": "Where can I buy clay?",
                "response": "",
                "relevant_ptkbs": ["i live in Tainan. "],
            }
        ],
    }
    (folder / "2024_test_topics.json").write_text(json.dumps([numbered]), "utf-8")
    (folder / "2025_test_topics.json").write_text(json.dumps([named]), "utf-8")


def _madial(folder: Path) -> None:
    dialogues = [
        {
            "dialogue": [
                "<BOD>\n",
                '<Ada>: "The kiln is cold again."\n',
                '"Shall I call somebody?"\n',
                '<Ada>: "What did we do last time?"\n',
                '<Assistant>: "You changed the fuse."\n',
                "<EOD>\n",
            ],
            "test-turn": [4, 5],
            "relevant-id": [2, 99],
            "user-id": 1,
        },
        {
            "dialogue": ["<BOD>\n", '<Ben>: "I want to sing."\n', '<Assistant>: "As in May?"\n', "<EOD>\n"],
            "test-turn": [2],
            "relevant-id": [7],
            "user-id": 2,
        },
    ]
    memories = {
        "2": {"time": "2024-07-02", "scene": "Home", "emotion": "Happy", "event": "Ada changed a fuse of the kiln."},
        "1": {"time": "2023-12-25", "scene": "Home", "emotion": "Sad", "event": "Ada broke a bowl."},
        "7": {"time": "2023-05-01", "scene": "Activity", "emotion": "Happy", "event": "A choir sang in the park."},
        "8": {"time": "2023-05-02", "scene": "Activity", "emotion": "Happy", "event": "It rained all day."},
    }
    lines = "".join(json.dumps(dialogue) + "\n" for dialogue in dialogues)
    (folder / "MADial-Bench-en-dialogue.json").write_text(lines, "utf-8")
    archive = "".join(json.dumps({key: memory}) + "\n" for key, memory in memories.items())
    (folder / "MADial-Bench-en-memory.json").write_text(archive, "utf-8")


AIDER = """
# aider chat started at 2024-08-05 19:33:02

> Aider v0.47.2-dev
> Models: some model

# aider chat started at 2024-08-06 09:00:00

> Added kiln.py to the chat.

#### rename `fire`
####
#### to `bake`, everywhere

Certainly! I will rename it:

```python
def bake(): ...
```

> Applied edit to kiln.py

#### /undo

> Removed: 1234567

# aider chat started at 2024-08-06 09:00:00

#### and now add a test
"""


def _aider(folder: Path) -> None:
    # aider ends every line of a user in two blanks.
    history = re.sub(r"^(####.*)$", r"\1  ", AIDER, flags=re.MULTILINE)
    (folder / "history.md").write_text(history, "utf-8")


def _hermes(folder: Path) -> None:
    def exchange(prompt: str, reply: str, minute: int) -> list[dict[str, str]]:
        time = f"2026-05-15T10:{minute:02}:42.314671+00:00"
        return [
            {"role": "user", "content": f"User: {prompt}", "timestamp": time},
            {"role": "assistant", "content": f"Assistant: {reply}", "timestamp": time},
        ]

    first, second = exchange("窯爐多少度", "九百度", 1), exchange("[System note: go on.]\n\n改成一千一百度", "好的", 3)
    other = exchange("[System note: the gateway restarted.]\n\n", "已重啟", 9)
    lines = [[first], [first, second], [other]]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "hermes_session.txt").write_text(text, "utf-8")


def _locomo(folder: Path) -> None:
    talk = [
        {"speaker": "Ada", "dia_id": "D1:1", "text": "I glazed a bowl."},
        {"speaker": "Ben", "dia_id": "D1:2", "text": "Which colour?", "blip_caption": "a bowl"},
    ]
    sample = {
        "sample_id": "conv-1",
        "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": talk},
        "observation": {"session_1_observation": {"Ada": [["Ada glazed a bowl.", "D1:1"]]}},
        "qa": [{"question": "What was glazed?", "answer": "a bowl", "evidence": ["D1:1"], "category": 4}],
    }
    (folder / "locomo.json").write_text(json.dumps([sample]), "utf-8")


def _realmem(folder: Path) -> None:
    def session(uuid: str, date: str, *turns: dict[str, Any], memories: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            "session_identifier": f"Pots_{uuid[-1]}:S1",
            "session_uuid": uuid,
            "current_time": date,
            "dialogue_turns": list(turns),
            "extracted_memory": [{"content": memory} for memory in memories],
        }

    query = {"speaker": "User", "content": "When do I fire?", "is_query": True, "topic": "Pots"}
    answer = {
        "speaker": "Assistant",
        "content": "At dawn.",
        "memory_used": [{"session_uuid": "u1", "content": "Fires"}],
    }
    statement = {"speaker": "User", "content": "I fire at dawn.", "is_query": False}
    persona = {
        "_metadata": {"person_name": "Ada"},
        "dialogues": [
            session("u1", "2025-12-23 (Tuesday)", statement, memories=("Fires", "Owns a kiln")),
            session("u2", "2025-12-20", query, answer),
        ],
    }
    (folder / "ada.json").write_text(json.dumps(persona), "utf-8")


def _openclaw(folder: Path) -> None:
    def entry(identity: str, parent: str | None, role: str, content: Any, second: int, **more: Any) -> dict[str, Any]:
        message = {"role": role, "content": content, **more}
        time = f"2026-03-02T09:10:{second:02}.500Z"
        return {"type": "message", "id": identity, "parentId": parent, "timestamp": time, "message": message}

    arguments = {"text": "The kiln fires at 900.", "importance": 0.9, "category": "fact", "scope": "pots"}
    call = {"type": "toolCall", "id": "call", "name": "memory_store", "arguments": arguments}
    lines = [
        {"type": "session", "version": 3, "id": "talk", "timestamp": "2026-03-02T09:10:00Z"},
        entry("a", None, "user", "The kiln fires at 900.", 1),
        entry("b", "a", "assistant", [{"type": "text", "text": "Stored."}, call], 2),
        entry("c", "b", "toolResult", "ok", 3, toolCallId="call", details={"action": "created"}),
        {"type": "reset", "id": "d", "parentId": "c", "timestamp": "2026-03-02T09:20:00Z"},
        entry("e", "d", "user", "How hot does it fire?", 40),
    ]
    (folder / "talk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


SAMPLES: dict[str, Callable[[Path], None]] = {
    "aider": _aider,
    "beam": _beam,
    "hermes": _hermes,
    "ikat": _ikat,
    "locomo": _locomo,
    "madial": _madial,
    "openclaw": _openclaw,
    "realmem": _realmem,
    "realtalk": _realtalk,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the argument ``sampled_format`` for each format that has a sample."""
    if "sampled_format" in metafunc.fixturenames:
        metafunc.parametrize("sampled_format", sorted(SAMPLES))


@pytest.fixture(scope="session")
def sampled_formats() -> list[str]:
    """The formats that have a sample."""
    return sorted(SAMPLES)


@pytest.fixture(scope="session")
def sample() -> Sample:
    """Return a function that writes the sample of a format into a folder and returns the folder."""

    def write(format_name: str, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        SAMPLES[format_name](folder)
        return folder

    return write
