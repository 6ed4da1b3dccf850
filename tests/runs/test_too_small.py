"""A set with no more memories than every arm can inject is said at once: by the replay, a score, and the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.runs.directory import MANIFEST
from lab.runs.manifest import read_manifest
from lab.runs.request import ReplayRequest
from tests.commands import without_charts

if TYPE_CHECKING:
    from tests.runs.conftest import Lab

SAID = (
    "too small to choose from: 1 of 2 conversations has no more memories than the 6 items that every arm can inject "
    "(few: 5 memories)"
)


TEXTS = {
    "few": ["Lamps hang upstairs.", "Keys lie below a stone.", "Tea is green.", "Trains leave at nine.", "Ola sings."],
    "many": [
        *("Rent falls due on Friday.", "Nadia swims.", "Printers jam in winter.", "Ships carry grain to Oslo."),
        *("Passwords change monthly.", "Dogs bark at couriers.", "Maps hang in the cellar."),
    ],
}


def _write(folder: Path, name: str) -> None:
    rows: list[dict[str, object]] = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": name, "language": "en", "title": name},
        {"kind": "session", "session": "s01", "time": "2026-07-06T11:00:00+08:00"},
        {"kind": "turn", "turn": "t01", "role": "user", "text": "where did we put all of the things this time"},
        *({"kind": "memory", "text": text} for text in TEXTS[name]),
        {"kind": "turn", "turn": "t02", "role": "assistant", "text": "In the rooms."},
        {"kind": "turn", "turn": "t03", "role": "user", "text": "and what else is there that we have to know"},
        # No turn can recall it any more, so it does not count.
        {"kind": "memory", "text": "Everything was sold."},
    ]
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_too_small_a_set_is_said_by_replay_score_and_report(tmp_path: Path, lab: Lab) -> None:
    for name in TEXTS:
        _write(tmp_path / "set", name)
    told: list[str] = []
    arms = ("tier_first_v1", "tier_quota_v1")
    request = ReplayRequest(str(tmp_path / "set"), "lab", arms, embedder="hashing", haystack=0)
    run = run_replay(request, tmp_path / "run", announce=told.append).run
    assert told.count(SAID) == 1
    assert read_manifest(run.path / MANIFEST).scarce == {"few": 5}
    assert " ".join(lab("score", run.path).out.split()).count(SAID) == 1
    with without_charts():
        assert build_report(run)[0].read_text("utf-8").count(SAID) == 1
    assert SAID in judge(replace(read_policy("nightly"), candidate=arms[1]), run).embedder

    # Memories of the other conversation are enough to choose from, and nothing is said.
    filled = run_replay(replace(request, haystack=4), tmp_path / "filled", announce=told.append).run
    assert filled.manifest.scarce is None
    assert "scarce" not in json.loads((filled.path / MANIFEST).read_text("utf-8"))
    assert told.count(SAID) == 1
    # Fewer slots leave a choice.
    fewer = run_replay(replace(request, max_items=4), tmp_path / "fewer").run
    assert fewer.manifest.notes == ()
