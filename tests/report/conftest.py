"""Runs for reports, over small synthetic recordings in RealMem's format, whose topics and categories are slices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest

MakeRun = Callable[..., RunDirectory]
POLICIES = ("tier_first_v1", "tier_quota_v1")
# Words that occur only in texts: none may appear in a report.
TURN_WORD, MEMORY_WORD = "quokkaturn", "wombatmemory"


def _session(name: str, number: int, topic: str, category: str) -> dict[str, Any]:
    # Without words of their own, conversations would be copies of each other.
    own = " ".join(f"{name}{number}{letter}" for letter in "abcdefgh")
    memories = [{"content": f"{MEMORY_WORD} note {number} {part} of the session"} for part in range(4)]
    used = [{"session_uuid": f"s{number - 1}", "content": f"{MEMORY_WORD} note {number - 1} 1 of the session"}]
    spoken: list[dict[str, Any]] = [{"speaker": "User", "content": f"{TURN_WORD} hello {number}"}]
    spoken.append({"speaker": "Assistant", "content": f"{TURN_WORD} hello back {own}"})
    if number:
        spoken.append(
            {
                "speaker": "User",
                "content": f"{TURN_WORD} which note {number - 1} 1 was it?",
                "is_query": True,
                "topic": topic,
                "category_name": category,
            }
        )
        spoken.append({"speaker": "Assistant", "content": f"{TURN_WORD} that one {own}", "memory_used": used})
    return {
        "session_identifier": "Shop:S1",
        "session_uuid": f"s{number}",
        "current_time": f"2026-01-{number + 1:02} (Monday)",
        "dialogue_turns": spoken,
        "extracted_memory": memories,
    }


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Replay one synthetic conversation per name; every probe has this ``topic`` and ``category``."""

    def make(
        *names: str, arms: tuple[str, ...] = POLICIES, topic: str = "lamps", category: str = "fact", sessions: int = 6
    ) -> RunDirectory:
        folder = tmp_path_factory.mktemp("report")
        (folder / "set").mkdir()
        for place, name in enumerate(names):
            dialogues = [_session(name, number, topic, category) for number in range(sessions + place)]
            value = {"_metadata": {"person_name": name}, "dialogues": dialogues}
            (folder / "set" / f"{place}.json").write_text(json.dumps(value), "utf-8")
        request = ReplayRequest(
            str(folder / "set"), "realmem", arms, embedder="hashing", labels="sampled", must_share=0.4, nice_share=0.5
        )
        outcome = run_replay(request, folder / "run")
        assert outcome.failures == ()
        return outcome.run

    return make


@pytest.fixture(scope="session")
def secret_words() -> tuple[str, str]:
    """Words of turns and memories that no report may show."""
    return TURN_WORD, MEMORY_WORD


@pytest.fixture(scope="session")
def copy_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[RunDirectory], Path]:
    """Copy a run into a new folder."""
    import shutil

    def copy(run: RunDirectory) -> Path:
        return Path(shutil.copytree(run.path, tmp_path_factory.mktemp("copy") / "run"))

    return copy
