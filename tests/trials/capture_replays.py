"""The replays behind tests/trials/capture_table.py: sets, arms, and what the arms captured."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.api import open_run, replay
from lab.measures.score import score_and_write
from lab.runs.directory import RunDirectory
from lab.runs.scores import Scores
from lab.runs.tables import read_table
from tests.trials.public_tables import SAMPLED

POLICIES = ("tier_first_v1", "tier_quota_v1")
# The plainest baseline stores every user turn; "todo" is the engine with TODOs captured.
FILES = {
    "verbatim": {"roles": ["user"]},
    "todo": {"autoCapture": {"captureTodo": True}, "lab": {"arm": "engine"}},
}
COLUMNS = ("arm", "what", "sources", "memory", "keep", "gold", "echo", "again", "derived")


class Set(NamedTuple):
    """A set: its path in DATA and its ``--format``.

    ``slice`` is the slice of the golden set by which the table of what is kept is split; it is None without probes.
    ``part`` is the start of the names of its conversations.
    """

    path: str
    format: str
    slice: str | None = None
    part: str = ""
    recall_turns: str | None = None


SETS = {
    "REALTALK": Set("realtalk", "realtalk", "category", recall_turns="all"),
    "LoCoMo": Set("locomo", "locomo", "category", recall_turns="all"),
    "RealMem": Set("realmem", "realmem", "category_name"),
    "MADial, English": Set("madial", "madial", "", "en"),
    "MADial, Chinese": Set("madial", "madial", "", "zh"),
    "Hermes": Set("transcripts/hermes-zh.jsonl", "hermes"),
    "aider": Set("transcripts/aider-chat-history.md", "aider"),
    "shipped:capture": Set("shipped:capture", "lab"),
}


class Replayed(NamedTuple):
    """One replay: its run directory, its scores, and the start of the names of the conversations to report."""

    run: RunDirectory
    scores: Scores
    part: str

    def mean(self, arm: str, measure: str) -> float | None:
        """Return the mean of a measure, or None without values."""
        values = self.scores.of_arm(arm).get(measure)
        pairs = zip(values.conversation, values.value, strict=True) if values else ()
        chosen = [value for conversation, value in pairs if conversation.startswith(self.part)]
        return math.fsum(chosen) / len(chosen) if chosen else None

    def created(self, arm: str) -> list[dict[str, Any]]:
        """Return the memories that an arm captured, as rows of the files of writes."""
        names = [name for name in self.run.conversations if name.startswith(self.part)]
        paths = [path for path in map(self.run.writes, names) if self.run.name_of(path) in self.run.digests]
        rows = [row for path in paths for row in read_table(path, COLUMNS).to_pylist()]
        return [row for row in rows if (row["arm"], row["what"], row["derived"]) == (arm, "created", False)]


def runs_of(one: Set, data: Path, out: Path, jobs: int) -> dict[str, Replayed]:
    """Replay one set with the memories that each profile captures and, if it has probes, with its own."""
    out.mkdir(parents=True, exist_ok=True)
    for name, config in FILES.items():
        (out / f"{name}.json").write_text(json.dumps(config), encoding="utf-8")
    files = {name: f"{name}={out / name}.json" for name in FILES}
    options: dict[str, Any] = {"recall_turns": one.recall_turns} if one.recall_turns else {}
    plans: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
        "seed": (("engine", *POLICIES, files["todo"], files["verbatim"]), {"source": "captured"}),
        "upstream": (("engine", files["todo"]), {"source": "captured", "profile": "upstream", "max_items": 5}),
        "given": ((*POLICIES, "hybrid"), SAMPLED),
    }
    if one.slice is None:
        del plans["given"]
    path = one.path if one.path.startswith("shipped:") else data / one.path
    runs = {}
    for kind, (arms, more) in plans.items():
        folder = out / f"{one.path.partition(':')[2] or one.format}-{kind}"
        sys.stderr.write(f"{folder}\n")
        replay(path, arms=arms, out=folder, format=one.format, jobs=jobs, **options, **more)
        run = open_run(folder).directory
        runs[kind] = Replayed(run, score_and_write(run), one.part)
    return runs


def user_sources(folder: Path) -> Iterable[tuple[str, str]]:
    """Yield the memories of RealMem that name a user's turn as their source, with that turn.

    The authors count turns from 1, and copy the start of the turn. Where both do not agree, no turn is known.
    """
    for path in sorted(folder.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        for session in value["dialogues"]:
            start = f"{value['_metadata']['person_name']}/{session['session_uuid']}"
            turns = session["dialogue_turns"]
            for ordinal, memory in enumerate(session["extracted_memory"]):
                index, copied = memory["source_turn"] - 1, str(memory["source_content_snapshot"])
                turn = turns[index] if 0 <= index < len(turns) else {}
                if turn.get("speaker") == "User" and turn["content"].strip()[:60] == copied.strip()[:60]:
                    yield f"{start}#{ordinal}", f"{start}/{index}"
