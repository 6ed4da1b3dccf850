"""The shipped Python host: any object behind it, fed or capturing; fresh instances for probes; the lab's embedder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.embedding.embedder import HashingEmbedder
from lab.golden.model import Probe
from lab.replay.loop import Answered, TurnWrites
from lab.systems.contract import Ask, Detail, Writes
from lab.systems.external import host
from lab.systems.external.arm import ExternalArm, ExternalSystem
from lab.systems.external.session import HostIds
from tests.playing import kit_for, played
from tests.systems.external.hosting import TEXTS, arm_of, reasons, talk

pytestmark = [pytest.mark.process, pytest.mark.slow]

Host = Callable[..., ExternalArm]
OBJECTS = '''
import itertools
import json
import os
import urllib.request


class Kept:
    """Remembers everything under ids of its own, and counts its queries: a query leaves a trace."""

    about = {"name": "kept", "version": "3", "cutoff": 2, "at_most": 2, "probes": "PROBES"}

    def __init__(self, hello):
        print("a line for stderr")
        self.captures, self.queries, self.kept = hello["captures"], 0, {}
        # As random ids would: they differ between processes.
        self.number = itertools.count(os.getpid() * 1000)

    def add(self, key, text):
        own = f"own-{next(self.number)}"
        self.kept[own] = (key, text)
        return own

    def remember(self, memories):
        return {"ids": {memory["key"]: self.add(memory["key"], memory["text"]) for memory in memories}}

    def forget(self, keys):
        self.kept = {own: (key, text) for own, (key, text) in self.kept.items() if key not in keys}

    def recall(self, request):
        self.queries += 1
        items = [{"id": own, "text": text} for own, (_, text) in list(self.kept.items())[::-1]][:2]
        context = "".join(item["text"] + chr(10) for item in items) + f"query {self.queries}"
        return {"items": items, "context": context, "receipt": {"queries": self.queries}}

    def prove(self):
        return {"stored": len(self.kept), "hooks": {"recall": self.queries}}


class Captures(Kept):
    """Also keeps what the user says."""

    def observe(self, turn):
        if not self.captures or turn["role"] != "user":
            return {}
        text = turn["text"] if "MOOD" == "steady" else f"{turn['text']} {os.getpid()}"
        return {"created": [{"id": self.add(turn["key"], text), "text": text, "sources": [turn["key"]]}]}


class Simple:
    """Returns a list of items, and raises where it is asked about butter."""

    def __init__(self, hello):
        self.kept = []

    def remember(self, memories):
        self.kept += memories

    def recall(self, request):
        if "2" in request["text"]:
            raise KeyError(request["text"])
        return [{"id": memory["key"], "text": memory["text"]} for memory in self.kept[1:]]


class Embeds:
    """Asks the lab's embedder for every query."""

    about = {"needs": ["embedder"], "probes": "same", "notes": ["asks the embedder"], "writes": False}

    def __init__(self, hello):
        self.embedder, self.seen = hello["embedder"], []

    def recall(self, request):
        body = json.dumps({"model": self.embedder["model"], "input": [request["text"]]}).encode()
        try:
            with urllib.request.urlopen(self.embedder["url"] + "/embeddings", body, 20) as answer:
                vector = json.load(answer)["data"][0]["embedding"]
        except urllib.error.HTTPError as error:
            return {"status": "degraded", "reason": f"embedder_{error.code}"}
        if len(vector) != self.embedder["dimension"]:
            raise ValueError(len(vector))
        return {"status": "skipped", "receipt": {"dimension": len(vector), "model": self.embedder["model"]}}
'''


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a function that hosts one of the objects above, by a copy of the shipped file alone."""
    shutil.copy(host.__file__, tmp_path / "host.py")
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))

    def make(name: str, probes: str = "fresh", mood: str = "steady", **config: Any) -> ExternalArm:
        (tmp_path / "objects.py").write_text(OBJECTS.replace("PROBES", probes).replace("MOOD", mood), "utf-8")
        # Isolated, so that it cannot import the lab.
        return arm_of({"exec": [sys.executable, "-I", str(tmp_path / "host.py"), f"objects:{name}"], **config})

    monkeypatch.chdir(tmp_path)
    return make


def contexts(answers: list[Answered]) -> list[list[str]]:
    return [answer.recall.context.splitlines() for answer in answers]


def test_the_host_is_short_and_needs_nothing() -> None:
    source = Path(host.__file__).read_text("utf-8")
    code = [line for line in source.partition('"""\n\n')[2].splitlines() if line.strip() and '"""' not in line]
    assert len(code) <= 50
    assert "import lab" not in source
    assert "from lab" not in source


def test_own_ids_stand_for_the_memories(hosted: Host) -> None:
    arm = hosted("Kept")
    answers = played(talk(), [arm])
    assert reasons(answers) == [None] * 4
    assert [[item.id for item in answer.recall.items] for answer in answers][2:] == [["c/s/2#0", "c/s/1#0"]] * 2
    assert contexts(answers)[0] == [TEXTS[0], "query 1"]
    info = arm.describe()
    assert (info.cutoff, info.at_most, info.writes, info.version.split()[:2]) == (2, 2, False, ["kept", "3"])
    assert set(arm.identity["sources"]) == {"objects.py"}


@pytest.mark.parametrize(("probes", "seen"), [("fresh", ["query 3", "query 4"]), ("same", ["query 3", "query 5"])])
def test_probe_of_a_fresh_instance_leaves_no_trace(probes: str, seen: list[str], hosted: Host) -> None:
    turn, after = Probe("p1", "c", "c/s/2", None, ()), Probe("p2", "c", None, "what bread?", ())
    answers = played(talk(), [hosted("Kept", probes)], [turn, after], recall_turns="user")
    assert reasons(answers) == [None] * 5
    # The turn with a judged query is a recall turn too, so it counts; the question after the end does not.
    assert contexts(answers)[2][-1] == "query 3"
    assert contexts(answers)[4][-1] == "query 5"
    again = played(talk(), [hosted("Kept", probes)], [turn, after], recall_turns="none")
    assert [context[-1] for context in contexts(again)] == (
        ["query 1"] * 2 if probes == "fresh" else ["query 1", "query 2"]
    )
    # A fresh instance was given the same memories, and its ids stand for the same ones.
    assert [item.id for item in again[1].recall.items] == ["c/s/2#0", "c/s/1#0"]


def test_captured_memories_of_a_fresh_instance_stand_for_the_first_ones(hosted: Host) -> None:
    wrote: list[TurnWrites] = []
    probe = Probe("p1", "c", None, "what?", ())
    answers = played(talk(), [hosted("Captures")], [probe], on_writes=wrote.append, source="captured")
    assert reasons(answers) == [None] * 5
    created = [stored for entry in wrote for stored in entry.writes.created]
    assert [(stored.text, stored.sources) for stored in created] == [
        (f"question {seq}", (f"c/s/{seq}",)) for seq in range(4)
    ]
    assert [item.id for item in answers[4].recall.items] == [created[3].id, created[2].id]
    assert answers[4].recall.items[0].sources == ("c/s/3",)


def test_fresh_instance_that_captures_otherwise_fails_the_probe_only(hosted: Host) -> None:
    probes = [Probe("p1", "c", None, "what?", ())]
    answers = played(talk(), [hosted("Captures", mood="moody")], probes, source="captured")
    assert reasons(answers) == [None, None, None, None, "not_repeatable in observe"]


def test_host_that_captures_is_not_asked_to_where_memories_are_given(hosted: Host) -> None:
    wrote: list[TurnWrites] = []
    answers = played(talk(), [hosted("Captures")], on_writes=wrote.append)
    assert (reasons(answers), wrote) == ([None] * 4, [])


def test_exception_of_an_object_fails_its_recall_without_its_text(hosted: Host) -> None:
    answers = played(talk(), [hosted("Simple")])
    assert reasons(answers) == [None, None, "host_error in recall at KeyError", None]
    assert [answer.recall.status for answer in answers] == ["skipped", "ok", "failed", "ok"]
    assert contexts(answers)[1] == [f"- {TEXTS[1]}"]


def test_embedder_is_served_to_a_host_that_needs_it(hosted: Host) -> None:
    arm = hosted("Embeds")
    answers = played(talk(), [arm])
    assert {answer.recall.status for answer in answers} == {"skipped"}
    assert {answer.recall.receipt["dimension"] for answer in answers} == {HashingEmbedder().dimension}
    offered = hosted("Embeds", embedder={"model": "text-embedding-3-small", "dimension": 1536})
    assert played(talk(), [offered])[0].recall.receipt == {"dimension": 1536, "model": "text-embedding-3-small"}
    assert (arm.describe().needs, arm.claims) == (("embedder",), ("relevant", "embedder"))


def test_embedder_of_another_dimension_is_refused(hosted: Host) -> None:
    where = r"arm \S+: embedder in its file: "
    with pytest.raises(UnusableInput, match=where + "dimension 16: the embedder's vectors have 64 numbers"):
        played(talk(), [hosted("Embeds", embedder={"dimension": 16})])


@pytest.fixture
def opened(hosted: Host) -> Iterator[Callable[[str], ExternalSystem]]:
    """Return a function that opens a system by the name of its object."""
    with ExitStack() as open_systems:

        def open_one(name: str) -> ExternalSystem:
            arm = hosted(name)
            kit = kit_for(arm, "what?")
            open_systems.callback(kit.close)
            system = arm.open(kit)
            open_systems.callback(system.close)
            return system

        yield open_one


def test_injected_fault_reaches_the_embedder_of_the_host(opened: Callable[[str], ExternalSystem]) -> None:
    system = opened("Embeds")
    down = system.recall(Ask("t", "what?", 1, faults=frozenset({"embedder_down"})))
    up = system.recall(Ask("u", "what?", 2))
    proof = system.prove()
    assert (down.status, down.receipt, up.status) == ("degraded", {"reason": "embedder_503"}, "skipped")
    assert proof["embedder_asked"] == 1


def test_counters_are_the_evidence_of_a_host(opened: Callable[[str], ExternalSystem]) -> None:
    system = opened("Kept")
    system.remember(talk().memories)
    system.recall(Ask("t", "what?", 1))
    assert system.prove() == {"stored": 3, "hooks": {"recall": 1}, "tools": {}, "lanes": {}}
    assert system.observe(talk().turns[0]) == Writes()
    system.forget(["c/s/2#0"])
    recall = system.recall(Ask("u", "what?", 2))
    assert [item.id for item in recall.items] == ["c/s/1#0", "c/s/0#0"]


def test_missed_memory_is_explained_by_its_rank(opened: Callable[[str], ExternalSystem]) -> None:
    system = opened("Kept")
    system.remember(talk().memories)
    ask = Ask("t", "what?", 1)
    recall = system.recall(ask)
    explained = system.explain(ask, None, recall, ["c/s/0#0", "c/s/2#0"], Detail())
    assert explained.about == "kept:3"
    assert (explained.reasons, explained.causes) == (
        {"c/s/0#0": "the host did not return it"},
        {"c/s/0#0": "depth"},
    )


def test_shared_id_stands_for_the_memory_whose_text_the_item_has() -> None:
    ids = HostIds()
    ids.remember({"old": "tea at four", "new": "tea at five"}, {"old": "row", "new": "row"})
    assert [ids.key_of("row", text) for text in ("tea at five", "tea at four", None)] == ["new", "old", "old"]
    ids.forget(["old"])
    assert [ids.key_of("row", text) for text in ("tea at four", None)] == ["new", "new"]
