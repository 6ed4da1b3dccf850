"""Plugins as arms of a replay: admitted, fed, capturing, recorded. Ours needs Node, the others ``nox -s peers``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import CannotMeasure
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table

HERE = str(Path(__file__).parent)
PEBBLE = Path(__file__).parent / "pebble"
SAID = (
    ("user", "I prefer the short version of the second song, so please always remember to play that one at the end."),
    ("assistant", "The short version it is."),
    ("user", "Which version of the second song do I prefer, and when should it be played?"),
    ("assistant", "The short one, at the end."),
)
KEPT = ("I prefer the short version of the second song.", "My sister is called Ottilie.", "We decided on Friday.")


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    from needs import Missing, find_node

    try:
        find_node()
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Return a recording in which the user states something and asks for it, with three memories before."""
    lines: list[dict[str, Any]] = [
        {"kind": "recording", "schema": "lab.recording.v1", "conversation": "songs", "language": "en"},
        {"kind": "session", "session": "s", "time": "2026-01-05T09:00:00Z"},
    ]
    lines += [
        {"kind": "turn", "turn": f"t{at}", "role": role, "text": text, "time": f"2026-01-05T09:0{at}:00Z"}
        for at, (role, text) in enumerate(SAID)
    ]
    memories = [
        {"kind": "memory", "key": f"songs/m{at}", "text": text, "category": "preference"}
        for at, text in enumerate(KEPT)
    ]
    path = tmp_path / "songs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines[:2], *memories, *lines[2:]]), "utf-8")
    return str(path)


def replay(recording: str, out: Path, arm: dict[str, Any], source: str = "given", **options: Any) -> RunDirectory:
    file = out.with_suffix(".json")
    file.write_text(json.dumps({"lab": {"arm": "plugin"}} | arm), "utf-8")
    request = ReplayRequest(recording, "lab", (f"live={file}",), embedder="hashing", source=source, **options)  # type: ignore[arg-type]  # options by name
    return run_replay(request, out).run


def rows(run: RunDirectory) -> list[dict[str, Any]]:
    return sorted(read_table(run.receipts("songs")).to_pylist(), key=lambda row: row["seq"])


def proofs(run: RunDirectory) -> dict[str, Any]:
    (arm,) = json.loads((run.path / "admission.json").read_text("utf-8"))["arms"]
    return arm


def pebble(**host: Any) -> dict[str, Any]:
    return {
        "plugin": str(PEBBLE),
        "config": {"url": "{embedder.url}"},
        "host": {"needs": [], "claims": ["relevant", "hook:before_agent_start"], "probes": "same"} | host,
    }


def test_plugin_without_the_proofs_that_it_claims_is_refused(recording: str, tmp_path: Path) -> None:
    with pytest.raises(CannotMeasure, match="words"):
        replay(recording, tmp_path / "run", pebble(claims=["relevant", "words"]))


def test_plugin_of_ours_is_admitted_fed_and_recorded(recording: str, tmp_path: Path) -> None:
    run = replay(recording, tmp_path / "run", pebble())
    assert proofs(run)["passed"]
    last = rows(run)[-1]
    assert (last["status"], last["item_key"], last["injected"]) == ("ok", ["songs/m0"], 1)
    for answers in ("recorded", "live"):
        again = replay(recording, tmp_path / answers, pebble(), answers=answers)
        assert rows(again) == rows(run)


def test_plugin_of_ours_captures(recording: str, tmp_path: Path) -> None:
    run = replay(recording, tmp_path / "run", pebble(needs=["embedder"], claims=["relevant"]), "captured")
    assert proofs(run)["passed"]
    last = rows(run)[-1]
    assert (last["status"], last["injected"], last["visible"]) == ("ok", 1, 1)


@pytest.fixture
def installed(request: pytest.FixtureRequest) -> str:
    """Return the folder of an installed plugin."""
    from needs import Missing, find_installed

    try:
        return str(find_installed(request.param))
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("installed", ["memory-lancedb"], indirect=True)
@pytest.mark.parametrize("source", ["given", "captured"])
def test_memory_lancedb_is_admitted_and_recalls(installed: str, source: str, recording: str, tmp_path: Path) -> None:
    run = replay(recording, tmp_path / "run", {"plugin": installed}, source)
    assert proofs(run)["passed"]
    assert proofs(run)["needs"] == ["embedder"]
    last = rows(run)[-1]
    assert last["status"] == "ok"
    assert last["injected"] >= 1
    assert source == "captured" or last["item_key"][0] == "songs/m0"


@pytest.fixture
def model() -> Iterator[Any]:
    from model import StubModel

    model = StubModel(0.05)
    yield model
    model.close()


@pytest.mark.parametrize("installed", ["openclaw-mem0"], indirect=True)
@pytest.mark.parametrize("source", ["given", "captured"])
def test_mem0_is_admitted_with_a_stub_model(
    installed: str, source: str, model: Any, recording: str, tmp_path: Path
) -> None:
    stub = {"url": model.url, "name": "stub", "stub": True}
    run = replay(recording, tmp_path / "run", {"plugin": installed, "host": {"model": stub}}, source)
    assert proofs(run)["passed"]
    assert proofs(run)["needs"] == ["embedder", "model"]
    last = rows(run)[-1]
    assert (last["status"], last["injected"] >= 1) == ("ok", True)
    assert model.asked > 0
