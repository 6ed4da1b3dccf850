"""Tests of replays, draws and verdicts that take conversations by what started them (OR-4)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lab as public
from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.compare.paired import compare_arms
from lab.gate.outputs import notes, write_verdict
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.golden.pool import read_pool
from lab.measures.score import score_and_write
from lab.recordings.convert import convert
from lab.recordings.origins import Origins
from lab.recordings.readers import of_origins, read_library
from lab.replay.plan import make_plan, plan_of
from lab.replay.pool import Chosen, make_capture_pool, make_drawn_pool, material
from lab.replay.run import run_replay
from lab.report.build import build_report
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import manifest_schema
from lab.runs.request import ReplayRequest

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")
LEFT = "left out: 1 conversation of group, 3 of cron; --origin all takes them"
UNKNOWN = "1 conversation of unknown origin counts as a person's: nothing says what started it"


def _lines(name: str, origin: str | None, said: list[str]) -> str:
    head: dict[str, Any] = {"kind": "recording", "schema": "lab.recording.v1", "conversation": name}
    lines = [head | ({"origin": origin} if origin else {})]
    lines.append({"kind": "session", "session": "s1", "time": "2026-03-02T09:10:00+00:00"})
    for number, text in enumerate(said):
        lines.append({"kind": "turn", "turn": f"t{number}", "role": "user", "text": text})
        lines.append({"kind": "memory", "text": f"{text} number {number}"})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conversations of persons, one of unknown origin, three of a job and one of a group, each of ten turns."""
    folder = tmp_path_factory.mktemp("origins") / "set"
    folder.mkdir()
    kinds = {"ann": None, "bob": "person", "old": "unknown", "many": "group"} | {f"job{n}": "cron" for n in range(3)}
    things = ["rake", "hose", "ladder", "kettle", "stove", "bucket", "sickle", "trowel", "lantern", "barrow"]
    for place, (name, origin) in zip(
        ["mill", "shed", "attic", "fair", "choir", "dock", "loft"], kinds.items(), strict=True
    ):
        said = [
            f"{name} saw the {place} {thing} beside the {place} {number * 7} {place}"
            for number, thing in enumerate(things)
        ]
        (folder / f"{name}.jsonl").write_text(_lines(name, origin, said), "utf-8")
    return folder


@pytest.fixture(scope="module")
def request_(folder: Path) -> ReplayRequest:
    return ReplayRequest(str(folder), "lab", ARMS, embedder="hashing")


@pytest.fixture(scope="module")
def run(request_: ReplayRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return run_replay(request_, tmp_path_factory.mktemp("runs") / "run").run


def _names(request: ReplayRequest) -> list[str]:
    return [recording.conversation for recording in make_plan(request).recordings]


@pytest.mark.parametrize(
    ("origins", "expected"),
    [
        (("person",), ["ann", "bob", "old"]),
        (("unknown",), ["old"]),
        (("cron",), ["job0", "job1", "job2"]),
        (("group", "person"), ["ann", "bob", "many", "old"]),
        (("all",), ["ann", "bob", "job0", "job1", "job2", "many", "old"]),
        (("cron", "all"), ["ann", "bob", "job0", "job1", "job2", "many", "old"]),
    ],
)
def test_plan_takes_the_named_origins(request_: ReplayRequest, origins: tuple[str, ...], expected: list[str]) -> None:
    assert _names(replace(request_, origin=origins)) == expected


def test_plan_takes_persons_first_of_a_limit(request_: ReplayRequest) -> None:
    assert _names(replace(request_, limit=3)) == ["ann", "bob", "old"]
    assert _names(replace(request_, limit=3, origin=("group", "cron"))) == ["job0", "job1", "job2"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"origin": ("crom",)},
            "--origin: unknown origin 'crom'; did you mean 'cron'? known: person, group, cron, hook",
        ),
        ({"origin": ("Person",)}, "--origin: unknown origin 'Person'; did you mean 'person'? known: person"),
        ({"origin": ("zzzzzz",)}, "--origin: unknown origin 'zzzzzz'; known: person"),
        (
            {"origin": ("hook", "acp")},
            (
                "set: has no conversation of origin hook or acp, only 2 conversations of person, 1 of group, 3 of "
                "cron, 1 of unknown; use --origin person or --origin group or --origin cron or --origin unknown or "
                "--origin all"
            ),
        ),
        ({"conversation": ("job1",)}, "conversation 'job1': its origin is cron; add --origin cron"),
    ],
)
def test_plan_refuses_what_is_not_there_in_one_line(
    request_: ReplayRequest, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnusableInput) as caught:
        make_plan(replace(request_, **changes))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_recordings_without_a_person_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "job0.jsonl", tmp_path / "job0.jsonl")
    with pytest.raises(UnusableInput) as caught:
        make_plan(ReplayRequest(str(tmp_path), "lab", ARMS, embedder="hashing"))
    assert str(caught.value) == (
        f"{tmp_path}: has no conversation of origin person, only 1 conversation of cron; use --origin cron or "
        "--origin all"
    )


def test_run_says_what_was_left_out(request_: ReplayRequest, run: RunDirectory, tmp_path: Path) -> None:
    said: list[str] = []
    run_replay(request_, tmp_path / "again", announce=said.append)
    assert [line for line in said if "left out" in line or "unknown origin" in line] == [LEFT, UNKNOWN]
    manifest = open_run(run.path).manifest
    assert manifest.origins == Origins({"person": 2, "unknown": 1}, {"group": 1, "cron": 3})
    assert manifest.notes == (LEFT, UNKNOWN)
    assert manifest.asked["origin"] == ["person"]
    written = json.loads((run.path / "manifest.json").read_text("utf-8"))
    assert written["origins"]["left_out"] == {"group": 1, "cron": 3}
    properties = manifest_schema()["properties"]
    assert isinstance(properties, dict)
    assert "origins" in properties


def test_run_of_persons_alone_says_nothing(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    asked = ReplayRequest(str(folder / "ann.jsonl"), "lab", ARMS, embedder="hashing")
    run = run_replay(asked, tmp_path / "run", announce=said.append).run
    assert "origins" not in json.loads((run.path / "manifest.json").read_text("utf-8"))
    assert not [line for line in said if "left out" in line or "origin" in line]


def test_run_of_all_has_the_receipts_of_each_conversation(
    request_: ReplayRequest, run: RunDirectory, tmp_path: Path
) -> None:
    everything = run_replay(replace(request_, origin=("all",)), tmp_path / "all").run
    assert everything.manifest.notes == (
        "origins: 2 conversations of person, 1 of group, 3 of cron",
        UNKNOWN,
    )
    # The memories of a conversation are its own, so leaving out another one changes no receipt.
    for name in run.conversations:
        assert everything.receipts(name).read_bytes() == run.receipts(name).read_bytes()


def test_run_without_origins_is_planned_again_as_it_was(request_: ReplayRequest, tmp_path: Path) -> None:
    run = run_replay(replace(request_, origin=("all",)), tmp_path / "run").run
    del run.manifest.asked["origin"]  # type: ignore[attr-defined]  # a dict, as it was read
    (run.path / "manifest.json").write_bytes(dump_json(run.manifest.as_json()))
    assert len(plan_of(open_run(run.path)).recordings) == 7


@pytest.mark.process
def test_scores_comparison_verdict_and_report_say_what_was_left_out(
    request_: ReplayRequest, folder: Path, tmp_path: Path
) -> None:
    golden = [
        {"kind": "probe", "turn": f"{name}/s1/t9", "relevant": [{"memory": f"{name}/s1/t1#0"}], "type": "recall"}
        for name in ("ann", "bob", "old", "job0", "job1")
    ]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in golden), "utf-8")
    said: list[str] = []
    asked = replace(request_, golden=str(tmp_path / "golden.jsonl"))
    run = run_replay(asked, tmp_path / "run", announce=said.append).run
    assert "2 judged turns of left-out conversations are not used" in said
    assert run.manifest.recall_points == {"ann": 10, "bob": 10, "old": 10}
    score_and_write(run)
    assert compare_arms(run, *ARMS[:2]).embedder[:2] == (LEFT, UNKNOWN)
    verdict = judge(read_policy("rollout"), run)
    assert [note for note in notes(verdict) if note in (LEFT, UNKNOWN)] == [LEFT, UNKNOWN]
    write_verdict(verdict, tmp_path / "verdict")
    assert LEFT in (tmp_path / "verdict" / "verdict.json").read_text("utf-8")
    page, *_ = build_report(run, *ARMS[:2])
    assert "1 conversation of group, 3 of cron" in page.read_text("utf-8")
    # A misspelt turn of a conversation that does not exist is still an error.
    golden[0]["turn"] = "nobody/s1/t9"
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in golden), "utf-8")
    with pytest.raises(UnusableInput, match="nobody"):
        make_plan(asked)


def test_draw_and_power_are_over_persons(request_: ReplayRequest, tmp_path: Path) -> None:
    pool, drawn = make_drawn_pool(replace(request_, arms=()), 2, Chosen(number=60))
    assert sorted(drawn.sizes()) == ["ann", "bob", "old"]
    assert {turn.turn.split("/")[0] for turn in pool.turns} == {"ann", "bob", "old"}
    (tmp_path / "pool.jsonl").write_bytes(pool.as_bytes())
    assert read_pool(tmp_path / "pool.jsonl").origin == ("person",)
    assert sorted(material(read_pool(tmp_path / "pool.jsonl"))) == ["ann", "bob", "old"]
    _, everybody = make_drawn_pool(replace(request_, arms=(), origin=("all",)), 2, Chosen(number=60))
    assert len(everybody.sizes()) == 7


def test_pool_with_a_haystack_finds_its_memories_again(request_: ReplayRequest) -> None:
    pool, _ = make_drawn_pool(replace(request_, arms=(), haystack=5), 2, Chosen(number=4))
    known = {memory.key for recording in material(pool).values() for memory in recording.memories}
    assert {key for turn in pool.turns for key in turn.keys} <= known
    assert not [key for key in known if "job" in key]


def test_capture_pool_takes_persons(request_: ReplayRequest) -> None:
    pool = make_capture_pool(replace(request_, arms=()))
    assert {turn.turn.split("/")[0] for turn in pool.turns} == {"ann", "bob", "old"}


def test_notes_on_conversations_left_out_are_not_said(folder: Path, tmp_path: Path) -> None:
    for name in ("ann", "job0"):
        text = (folder / f"{name}.jsonl").read_text("utf-8")
        noted = text.replace('"conversation"', f'"notes": ["{name}: odd"], "conversation"', 1)
        (tmp_path / f"{name}.jsonl").write_text(noted, "utf-8")
    library = of_origins(read_library(tmp_path, "lab"), ("person",))
    assert library.golden.notes == ("left out: 1 conversation of cron; --origin all takes them", "ann: odd")


def test_own_format_keeps_the_origin(folder: Path, tmp_path: Path) -> None:
    convert(folder, "lab", tmp_path / "out", name="mine")
    again = read_library(tmp_path / "out/datasets/mine", "lab").recordings
    assert [(recording.conversation, recording.origin) for recording in again] == [
        (recording.conversation, recording.origin) for recording in read_library(folder, "lab").recordings
    ]
    assert '"origin"' not in (tmp_path / "out/datasets/mine/ann.jsonl").read_text("utf-8")
    assert '"origin":"cron"' in (tmp_path / "out/datasets/mine/job0.jsonl").read_text("utf-8").replace(" ", "")


def test_own_format_refuses_an_unknown_origin(folder: Path, tmp_path: Path) -> None:
    text = (folder / "job0.jsonl").read_text("utf-8").replace('"cron"', '"robot"')
    (tmp_path / "a.jsonl").write_text(text, "utf-8")
    with pytest.raises(UnusableInput, match=r"a\.jsonl:1: origin 'robot' is none of person, group, cron"):
        read_library(tmp_path, "lab")


def test_api_takes_origins(folder: Path, tmp_path: Path) -> None:
    taken: Callable[..., Any] = public.replay
    run = taken(folder, arms=("none",), out=tmp_path / "run", embedder="hashing", origin=("cron",))
    assert run.manifest.resolved.conversations == ("job0", "job1", "job2")
