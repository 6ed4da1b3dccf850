"""Row order and zero vectors of a store matter under ``upstream`` but not under ``seed``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.replay.run import run_replay
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table

Row = dict[str, Any]
Answers = list[dict[str, Any]]
Replay = Callable[..., Answers]
HOUR = 3_600_000
START = 1_760_000_000_000
SAME = "The ferry leaves at nine"


def row(number: int, text: str = SAME, **changes: Any) -> Row:
    return {
        "id": f"0b0e9a3c-1111-4000-8000-{number:012}",
        "text": text,
        "category": "fact",
        "importance": 0.9,
        "importance_label": "must_remember",
        "scope": "global",
        "trust_tier": "user",
        "createdAt": float(START - HOUR),
    } | changes


def numbers(answer: dict[str, Any]) -> list[int]:
    """Return the injected rows in order."""
    return [int(key[-12:]) for key in answer["item_key"][: answer["injected"]]]


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """Replay prompts, an hour apart, over a store (a table of single-row fragments); return their answers."""
    made = iter(range(99))

    def run(
        rows: Sequence[Row], prompts: Sequence[str], profile: str, *, kept: bool = False, again: int = 1
    ) -> Answers:
        place = tmp_path / str(next(made))
        place.mkdir()
        with quiet_lance():
            records = [{"vector": [0.5] * 64} | row for row in rows]
            table = import_lancedb().connect(place / "db").create_table("memories", records[:1])
            for record in records[1:]:
                table.add([record])
        lines: list[dict[str, Any]] = [
            {"kind": "recording", "schema": "lab.recording.v1", "conversation": "c", "language": "en"},
            {"kind": "session", "session": "s", "time": "2025-10-09T08:53:20+00:00"},
        ]
        for at, prompt in enumerate(prompts):
            time = f"2025-10-09T{8 + at:02}:53:20+00:00"
            lines.append({"kind": "turn", "turn": f"t{at}", "role": "user", "text": prompt, "time": time})
        (place / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        request = ReplayRequest(
            str(place / "c.jsonl"),
            "lab",
            ("engine",),
            profile=profile,
            memories_from=str(place / "db"),
            scope="tags",
            recall_turns="user",
            max_items=3,
            embedder="hashing",
        )
        runs = [run_replay(request, place / f"run{time}", use_cache=kept).run for time in range(again)]
        assert len({run.receipts("c").read_bytes() for run in runs}) == 1
        return sorted(read_table(runs[0].receipts("c")).to_pylist(), key=lambda one: one["seq"])

    return run


@pytest.mark.parametrize("kept", [False, True])
def test_stored_order_upstream_breaks_ties_by_row(replay: Replay, kept: bool) -> None:
    for order in ([1, 2, 3, 4, 5], [4, 2, 5, 1, 3]):
        (answer,) = replay([row(one) for one in order], [f"{SAME}?"], "upstream", kept=kept, again=2)
        assert numbers(answer) == order[:3]
        assert [answer["item_fts_rank"][:3], answer["item_vec_rank"][:3]] == [[1, 2, 3], [1, 2, 3]]


def test_stored_order_seed_ignores_row_order(replay: Replay) -> None:
    rows = [row(one, f"{SAME} {'sharp' * (one % 2)}", createdAt=float(START - one * HOUR)) for one in range(1, 7)]
    result = [replay(some, [SAME, "sharp at nine"], "seed") for some in (rows, rows[::-1])]
    assert result[0] == result[1]
    assert all(numbers(answer) for answer in result[0])


def test_stored_order_upstream_keeps_table_order_of_visible_rows(replay: Replay) -> None:
    # The first row is stored an hour later than the others, and the fourth an hour after that.
    late = {1: START + HOUR, 4: START + 2 * HOUR}
    rows = [row(one, createdAt=float(late.get(one, START))) for one in (1, 4, 3, 2)]
    answers = replay(rows, [SAME] * 3, "upstream")
    assert [numbers(answer) for answer in answers] == [[3, 2], [1, 3, 2], [1, 4, 3]]


def test_stored_order_only_upstream_ranks_zero_vectors(replay: Replay) -> None:
    # No row contains a word of the prompt, and both are distant from it.
    rows = [row(1, "kiln"), row(2, "harbour", vector=[0.0] * 64)]
    (answer,) = replay(rows, ["violin orchard"], "upstream")
    first, second = json.loads(answer["receipt"])["vecTop"]
    assert (first["id"][-1], first["distance"], first["score"]) == ("2", 1, 0.5)
    assert (second["id"][-1], second["distance"]) == ("1", 2)
    (answer,) = replay(rows, ["violin orchard"], "seed")
    assert [one["distance"] for one in json.loads(answer["receipt"])["vecTop"]] == [2, 2]


def test_stored_order_rows_without_time_are_always_visible(replay: Replay) -> None:
    rows = [row(1, createdAt=None), row(2, createdAt=0.0), row(3)]
    for profile in ("upstream", "seed"):
        (answer,) = replay(rows[::-1], [SAME], profile)
        assert sorted(numbers(answer)) == [1, 2, 3]
