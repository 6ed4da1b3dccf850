"""Arms that differ in what they select share the index of a workspace, and answer as if each were alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory
from lab.replay.loop import Answered, replay
from lab.replay.plan import make_plan
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.runs.request import ReplayRequest
from lab.systems.contract import Ask
from lab.systems.files import system
from lab.systems.files.folder import Folder
from lab.systems.files.index import FileIndex
from lab.systems.kit import Kit
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec
from tests.playing import OPERATORS, arms_named, kit_for, tools_for

ARMS = tuple(f"{name}{budget}" for name in ("memory_core", "auto_recall") for budget in ("", "@64", "@256"))


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every index that is opened."""
    made: list[Any] = []
    before = FileIndex.__init__
    monkeypatch.setattr(FileIndex, "__init__", lambda self, *given: made.append(self) or before(self, *given))
    return made


def answers_of(arms: Sequence[str], source: str = "given") -> list[Answered]:
    request = ReplayRequest(
        str(OPERATORS / "harbor-release.jsonl"), "lab", tuple(arms), embedder="hashing", source=source
    )
    plan = make_plan(request)
    sources = prepared_sources(plan)
    sources.rehearsed.clear()
    recording = plan.recordings[0]
    return list(replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms, infos=plan.infos))


def test_operators_own_files_are_found_and_are_no_items(tmp_path: Path) -> None:
    """Seed 004: MEMORY.md, wiki pages and any other path of ``memorySearch.paths``."""
    (tmp_path / "wiki" / "deep").mkdir(parents=True)
    (tmp_path / "wiki" / "deep" / "harbor.md").write_text("# Harbor\n\nThe zeppelin of the harbor is amber.\n")
    (tmp_path / "wiki" / "notes.txt").write_text("The zeppelin is no Markdown.")
    (tmp_path / "MEMORY.md").write_text("- The zeppelin lands at noon.")
    paths = [str(tmp_path / "wiki"), str(tmp_path / "MEMORY.md")]
    ask = Ask("t", "what colour has the zeppelin of the harbor?", 0, session="s")
    for name, config in (
        ("memory_core", {"extraPaths": paths, "query": {"minScore": 0}}),
        ("memory_core", {"paths": paths, "query": {"minScore": 0}}),
        ("auto_recall", {"minScore": 0, "memorySearch": {"extraPaths": paths}}),
    ):
        arm = make_arm(ArmSpec(name, name, config, "c.json"))
        again = make_arm(ArmSpec(name, name, arm.describe().config, "c.json"))
        assert again.describe() == arm.describe()
        assert list(arm.describe().inputs) == ["extraPaths"]
        with closing(kit_for(arm, ask.text)) as kit, closing(arm.open(kit)) as memory:
            recall = memory.recall(ask)
        assert "zeppelin of the harbor is amber" in recall.context
        assert "lands at noon" in recall.context
        assert "no Markdown" not in recall.context
        assert (recall.items, recall.injected) == ((), 0)
    with pytest.raises(UnusableInput, match=r"c\.json: extraPaths: none: no Markdown"):
        make_arm(ArmSpec("memory_core", "memory_core", {"extraPaths": ["none"]}, "c.json"))


def without_times(answers: Sequence[Answered]) -> list[Any]:
    return [
        (
            one.point.key,
            one.recall.items,
            one.recall.injected,
            one.recall.context,
            one.recall.receipt,
            one.recall.status,
        )
        for one in answers
    ]


@pytest.mark.slow
def test_arms_that_share_an_index_answer_as_if_alone(opened: list[Any]) -> None:
    together = answers_of(ARMS)
    # One rehearsal and one replay of each release.
    assert len(opened) == 4
    for name in ARMS:
        mine = [answer for answer in together if answer.arm == name]
        assert without_times(mine) == without_times(answers_of([name])), name
    assert len({answer.recall.context for answer in together}) > 10


def test_every_arm_counts_the_shared_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    before = system.candidates

    def slowly(index: FileIndex, text: str, *given: Any) -> Any:
        searched.append(text)
        time.sleep(0.002)
        return before(index, text, *given)

    monkeypatch.setattr(system, "candidates", slowly)
    answers = answers_of(ARMS[:3])
    points = [answer.point.text for answer in answers if answer.arm == ARMS[0]]
    assert searched == points
    assert min(answer.recall.timings["search"] for answer in answers) >= 2_000_000
    synced = {(answer.point.key, answer.recall.timings["retrieve"]) for answer in answers}
    assert len(synced) == len(points)


def test_systems_that_capture_share_nothing(opened: list[Any]) -> None:
    answers_of(ARMS[:2], "captured")
    # One rehearsal, and two indexes in the replay.
    assert len(opened) == 3


def test_systems_that_search_transcripts_share_nothing(opened: list[Any]) -> None:
    config = {"memorySearch": {"sources": ["memory", "sessions"]}}
    tools = tools_for()
    for name in ("one", "two"):
        arm = make_arm(ArmSpec(name, "auto_recall", config))
        kit = Kit(tools, arm.name)
        arm.open(kit).close()
        kit.close()
    assert len(opened) == 2
    assert tools.shared == {}


def test_all_arms_fail_if_the_files_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = arms_named(*ARMS[:2], max_items=None)
    tools = tools_for()
    kits = [Kit(tools, arm.name) for arm in arms]
    first, second = (arm.open(kit) for arm, kit in zip(arms, kits, strict=True))

    def full(*_: Any) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Folder, "append", full)
    memory = Memory("c#0", "the harbour pilot", "", 0, 0)
    with pytest.raises(OSError, match="no space"):
        first.remember([memory])
    monkeypatch.undo()
    for one, kit in ((second, kits[1]), (first, kits[0])):
        with pytest.raises(OSError, match="no space"):
            one.remember([memory])
        with pytest.raises(OSError, match="no space"):
            one.recall(Ask("c/s/0", "harbour pilot", 0))
        one.close()
        kit.close()
