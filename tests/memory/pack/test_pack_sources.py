"""The arm ``pack`` with sources beside the memories of a recording: what it packs, pins and refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.memory.pack.sources import KEYS, Sources, read_sources
from lab.memory.pack.system import PackSystem
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.loop import RecallCall
from lab.systems.contract import Detail
from lab.systems.files.folder import read_documents
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec
from tests.memory.ledger.ledgers import NOW, filled
from tests.playing import keys_of, played

NOW_MS = int(NOW.timestamp() * 1000)


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, object]:
    """A ledger with observations before, at and after the recall, and a folder with one document."""
    rows = [
        {"summary": "The fair needs a permit."},
        {"ts": NOW.isoformat(), "summary": "The fair?"},
        {"ts": "2027-01-01T00:00:00Z", "summary": "The fair is over."},
    ]
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "plan.md").write_text("# Fair\nThe fair has nine stalls.\n")
    return {"ledgers": [str(filled(tmp_path / "l.sqlite", rows))], "documents": str(notes)}


def arm(sources: object) -> object:
    return make_arm(ArmSpec("mine", "pack", {"sources": sources}, where="mine.json"))


def test_arm_packs_sources_beside_memories(sources: dict[str, object]) -> None:
    first = Memory("c/s/0#0", "The fair opens at nine.", "The fair opens at nine.", 1, NOW_MS)
    turns = [Turn(f"c/s/{n}", n, "c/s", "user", text, NOW_MS) for n, text in enumerate(("Hello.", "The fair?"))]
    last = played(Recording("c", tuple(turns), (first,)), [arm(sources)])[-1]
    refs = {line.partition("]")[0] for line in last.recall.context.splitlines()}
    assert refs == {"- [mem:1", "- [obs:1", "- [doc:plan.md#L1-L2"}
    assert keys_of(last) == ["c/s/0#0"]
    assert [lane["lane"] for lane in last.recall.receipt["lanes"]] == ["memories", "ledger", "documents"]


def test_arm_names_its_sources_and_their_content(sources: dict[str, object]) -> None:
    before = arm(sources).describe()
    assert before.config["sources"] == sources
    assert set(before.inputs) == {"ledgers:l.sqlite", "documents:notes"}
    (Path(str(sources["documents"])) / "plan.md").write_text("The fair is cancelled.\n")
    after = arm(sources).describe()
    assert [before.inputs[name] == after.inputs[name] for name in sorted(before.inputs)] == [False, True]
    assert arm({}).describe().inputs == {}


def test_arm_pins_what_a_ledger_has_in_its_log(sources: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "l.sqlite-wal").write_bytes(b"")
    before = arm({"documents": sources["documents"]}).sources
    assert set(replace(before, ledgers=(tmp_path / "l.sqlite",)).digests()) == {"ledgers:l.sqlite", "documents:notes"}
    (tmp_path / "l.sqlite-wal").write_bytes(b"rows")
    assert "ledgers:l.sqlite-wal" in replace(before, ledgers=(tmp_path / "l.sqlite",)).digests()


def test_sources_are_read_back_as_described(tmp_path: Path) -> None:
    ledgers = [filled(tmp_path / name, [{"summary": "The fair."}]) for name in ("l.db", "m.db")]
    (tmp_path / "facts").touch()
    sources = Sources(tuple(ledgers), facts=tmp_path / "facts", facts_ledger=ledgers[1], facts_root=tmp_path)
    assert read_sources({"sources": sources.describe()}, "mine.json") == sources
    assert [lane.name for lane in sources.ledger_lanes()] == ["ledger l", "ledger m"]


def test_source_in_a_closed_folder_is_left_to_its_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Path.stat

    def stat(path: Path, **options: bool) -> object:
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return looked(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    path = tmp_path / "closed" / "x"
    assert Sources((path,), documents=path).checked(dict.fromkeys(KEYS, "")).documents == path
    assert read_documents(path) == ({}, 0)


def test_explanation_of_a_memory_ignores_a_source_with_its_key(tmp_path: Path) -> None:
    replaced = {"provenance": {"supersedes": ["obs:1"]}}
    # What is untrusted is decided last.
    old = {"summary": "The fair is on.", "detail": {"trust_tier": "untrusted"}}
    rows = [old, {"summary": "The fair is off.", "detail": replaced}]
    ledger = filled(tmp_path / "l.sqlite", rows)
    texts = ("The fair opens at nine.", "The fair has a gate.")
    known = tuple(Memory(f"obs:{n}", text, text, 1, NOW_MS) for n, text in enumerate(texts, 1))
    turns = [Turn(f"c/s/{n}", n, "c/s", "user", text, NOW_MS) for n, text in enumerate(("Hello.", "The fair?"))]
    arms = [make_arm(ArmSpec("mine", "pack", {"sources": {"ledgers": [str(ledger)]}, "limit": 1}))]
    calls: list[RecallCall] = []
    last = played(Recording("c", tuple(turns), known), arms, on_recall=calls.append)[-1]
    refs = [[ref, *said[-1:]] for ref, _, *said in last.recall.receipt["candidates"]]
    assert (["mem:1", "max_items_reached"] in refs, refs[-1]) == (True, ["obs:1", "superseded"])
    system = calls[-1].system
    assert isinstance(system, PackSystem)
    explained = system.explain(calls[-1].ask, None, last.recall, ["obs:1", "obs:2"], Detail())
    assert explained.causes == {"obs:1": "slot"}


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"ledger": "l"}, "mine.json: sources: unknown key 'ledger'"),
        ({"ledgers": "l"}, "mine.json: sources: ledgers: expected a list of texts, found 'l'"),
        ({"ledgers": ["no"]}, "mine.json: sources: ledgers: no: no such file; give the SQLite file of a ledger"),
        ({"facts": 3}, "mine.json: sources: facts: expected a path, found 3"),
        ({"graph": "no"}, "mine.json: sources: graph: no: no such file; give a file of lab memory graph export"),
        ({"documents": "no"}, "mine.json: sources: documents: no: no such folder"),
        ({"ledgers": ["a/l.db", "b/l.db"]}, "mine.json: sources: ledgers: two ledgers have one name"),
        ({"ledgers": ["a/l.db", "a/m.db"], "facts": "text"}, "mine.json: sources: facts: with several ledgers: name "),
        ({"ledgers": ["text"]}, "mine.json: sources: ledgers: text: is not an SQLite file"),
        ({"episodes": "text"}, "mine.json: sources: episodes: text: is not an SQLite file"),
        ({"facts": "text"}, "mine.json: sources: facts: text cannot be read"),
        ({"facts": "empty", "factsLedger": "text"}, "mine.json: sources: factsLedger: text: is not an SQLite file"),
        ({"factsRoot": "a"}, "mine.json: sources: factsRoot: needs facts"),
        ({"graph": "text"}, "mine.json: sources: graph: text cannot be read as a graph"),
        ({"documents": "none"}, "mine.json: sources: documents: none: no documents (.md, .markdown, .txt)"),
        ({"documents": "a" * 300}, "mine.json: sources: documents: " + "a" * 300 + ": no such folder"),
        ([], "mine.json: sources: expected an object, found a list"),
    ],
)
def test_unusable_source_is_refused(
    sources: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("none").mkdir()
    Path("empty").touch()
    Path("text").write_text("{}\n")
    for name in ("a/l.db", "b/l.db", "a/m.db"):
        Path(name).parent.mkdir(exist_ok=True)
        filled(Path(name), [{"summary": "The fair."}])
    with pytest.raises(UnusableInput) as raised:
        arm(sources)
    assert str(raised.value).startswith(message)
