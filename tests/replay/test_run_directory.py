"""Run directories: creation, resuming with equal arguments, refusal of others, and any conversation name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from lab.base.errors import Altered, Incomplete, LabError, NotARun, OtherArguments, UnusableInput
from lab.base.files import digest
from lab.measures.score import score_run
from lab.runs.directory import RunDirectory, open_run
from lab.runs.manifest import Manifest, Resolved, resolved_of
from lab.runs.resume import Fresh, create_or_resume, environment, keep

pytestmark = pytest.mark.slow

Files = Callable[[Path], dict[str, bytes]]
NAMES = (
    "plain",
    "Plain",
    "a/b",
    "a%2Fb",
    "a%252Fb",
    "a\\b",
    "a b",
    " a b",
    "a b ",
    "a+b",
    "a%20b",
    ".",
    "..",
    "...",
    "../up",
    "/root",
    ".hidden",
    "a.parquet",
    "a",
    "",
    " ",
    "  ",
    "%20",
    "%00",
    "\x00",
    "tab\there",
    "line\nbreak",
    "會議",
    "会议",
    "%E6%9C%83%E8%AD%B0",
    "caf\u00e9",
    "cafe\u0301",
    "~",
    "*?:|<>\"'",
)


def valid(*conversations: str, embedder: str = "one") -> Resolved:
    """Return what the request of a run of one arm resolved to."""
    return resolved_of(
        {
            **dict.fromkeys(
                ("format", "memories", "scope", "recall_turns", "categories", "lab", "store", "profile"), "x"
            ),
            "recordings": {},
            "golden": {},
            "conversations": conversations,
            "labels": {"mode": "recorded"},
            "hard_rules": {"drawn": 0},
            "arms": [{"name": "x", "system": "x", "depth": 1, "cutoff": 1, "config": {}}],
            "depth": 1,
            "embedder": {"model": embedder},
            "faults": [],
        }
    )


def created(path: Path, embedder: str = "one") -> RunDirectory:
    return create_or_resume(path, {}, valid("a", embedder=embedder), {}, (), lambda: Fresh(b"{}\n", {"a": 1}))


@pytest.fixture
def talk(desk: Any) -> Any:
    """Three short conversations, one of them judged."""
    for name in ("one", "two", "three"):
        desk.say(
            name, ("global", [("user", f"{name} likes pears", f"{name} likes pears"), ("user", "who likes pears")])
        )
    desk.judge("two/s1/t1#0", turn="two/s1/t2")
    return desk


def run_for(path: Path, *conversations: str) -> RunDirectory:
    manifest = Manifest("started", "", "", {}, valid(*conversations), environment(), dict.fromkeys(conversations, 1))
    return RunDirectory(path, manifest)


def test_run_holds_manifest_gold_and_a_file_per_conversation(talk: Any) -> None:
    outcome = talk.run("tier_first_v1", "oracle")
    assert sorted(str(path.relative_to(outcome.run.path)) for path in outcome.run.path.rglob("*")) == [
        "golden.jsonl",
        "latency",
        "latency/one.parquet",
        "latency/three.parquet",
        "latency/two.parquet",
        "manifest.json",
        "receipts",
        "receipts/one.parquet",
        "receipts/three.parquet",
        "receipts/two.parquet",
    ]
    assert (outcome.done, outcome.skipped, outcome.failures) == (("one", "three", "two"), (), ())
    run = open_run(outcome.run.path)
    assert run.manifest.status == "complete"
    assert (run.arms, run.conversations, run.cutoff) == (["tier_first_v1", "oracle"], ["one", "three", "two"], 6)
    assert run.manifest.environment.packages["lancedb"] == "0.40.0"


def test_resume_same_arguments_skips_done_and_changes_nothing(talk: Any, files_of: Files) -> None:
    first = talk.run()
    before = files_of(first.run.path)
    stamps = {path: path.stat().st_mtime_ns for path in first.run.path.rglob("*")}
    again = talk.run()
    assert (again.done, again.skipped, again.embedded) == ((), ("one", "three", "two"), 0)
    assert files_of(again.run.path) == before
    assert {path: path.stat().st_mtime_ns for path in again.run.path.rglob("*")} == stamps


def test_resume_missing_conversation_is_replayed_others_unchanged(talk: Any, files_of: Files) -> None:
    first = talk.run()
    before = files_of(first.run.path)
    first.run.receipts("three").unlink()
    stamp = first.run.receipts("one").stat().st_mtime_ns
    again = talk.run()
    assert (again.done, again.skipped) == (("three",), ("one", "two"))
    after = files_of(again.run.path)
    # The manifest has the digests of timings, which always differ.
    timed = ("latency", "manifest")
    assert {name: data for name, data in after.items() if not name.startswith(timed)} == {
        name: data for name, data in before.items() if not name.startswith(timed)
    }
    score_run(again.run)
    assert first.run.receipts("one").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"arms": ("tier_quota_v1",)}, r"arms \(tier_first_v1 removed; tier_quota_v1 added\)"),
        ({"scope": "recorded"}, "scope"),
        ({"store": "lancedb"}, "store"),
        ({"max_items": 3}, r"arms \(tier_first_v1: config.autoRecall.maxItems 6 -> 3, [^)]*\)"),
        ({"seed": 1}, "labels"),
        ({"must_share": 0.2, "depth": 7}, "depth, labels"),
        ({"limit": 2}, "conversations, equal_conversations"),
        ({"golden": None}, "golden"),
    ],
)
def test_resume_other_arguments_are_refused_with_differences(
    talk: Any, files_of: Files, changes: dict[str, Any], differs: str
) -> None:
    first = talk.run()
    before = files_of(first.run.path)
    with pytest.raises(OtherArguments, match=f"different arguments: {differs}; choose another --out, or `lab runs rm "):
        talk.run(**changes)
    assert files_of(first.run.path) == before


def test_resume_changed_recording_is_refused(talk: Any) -> None:
    talk.run()
    talk.say("four", ("global", [("user", "hello")]))
    with pytest.raises(OtherArguments, match="different arguments: conversations, recordings;"):
        talk.run()


@pytest.mark.parametrize("content", ["notes.txt", "deep/er.txt", ".hidden", "receipts/one.parquet"])
def test_replay_folder_with_other_content_is_refused(talk: Any, files_of: Files, content: str) -> None:
    path = talk.home / "run" / content
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(UnusableInput, match="exists and is not a run directory"):
        talk.run()
    assert files_of(talk.home / "run") == {content: b"mine"}


def test_replay_empty_folder_is_used(talk: Any) -> None:
    (talk.home / "run").mkdir()
    assert len(talk.run().done) == 3


@pytest.mark.parametrize("out", ["a-file", "a-file/run", "a-file/deeper/run"])
def test_replay_existing_file_as_out_is_refused(talk: Any, out: str) -> None:
    (talk.home / "a-file").write_text("mine")
    with pytest.raises(LabError, match="a-file"):
        talk.run(out=out)
    assert (talk.home / "a-file").read_text() == "mine"


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "has no manifest.json"),
        ("{}", "is not the manifest of a run"),
        ("[]", "is not the manifest of a run"),
        ('{"kind": "lab.other", "schema_version": 1}', "is not the manifest of a run"),
        ('{"kind": "lab.run", "schema_version": 2}', "schema_version 2, this version reads 4; run the replay again"),
        ('{"kind": "lab.run"}', "schema_version None"),
    ],
)
def test_open_run_folder_without_manifest_is_refused(tmp_path: Path, manifest: str | None, message: str) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
        with pytest.raises(NotARun, match=message):
            created(tmp_path)
    with pytest.raises(NotARun, match=message):
        open_run(tmp_path)


def test_open_run_path_without_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotARun, match="nothing: no such run directory"):
        open_run(tmp_path / "nothing")
    with pytest.raises(NotARun, match=r"file: is not a run directory .*; lab replay .*file --out DIR makes a run"):
        open_run(tmp_path / "file")


def test_open_run_damaged_manifest_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "lab.run",\n "schema')
    with pytest.raises(UnusableInput, match=r"manifest\.json:2: not JSON"):
        open_run(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda result: result.pop("environment"), "has no field 'environment'"),
        (lambda result: result.update(status={}), "field 'status': expected a string, found an object"),
        (lambda result: result["resolved"].update(arms=[]), "resolved: field 'arms': lists no arm"),
        (lambda result: result["resolved"].update(conversations=[7]), r"'conversations'\[0\]: expected a string"),
        (lambda result: result["resolved"]["arms"][0].pop("name"), r"'arms'\[0\]: has no field 'name'"),
        (
            lambda result: result["resolved"]["arms"][0].update(depth="x"),
            "field 'depth': expected a number, found a str",
        ),
        (lambda result: result["resolved"]["arms"][0].pop("cutoff"), "has no field 'cutoff'"),
        (lambda result: result["resolved"]["labels"].update(must_share="x"), "field 'must_share': expected a number"),
        (lambda result: result["resolved"]["labels"].pop("mode"), "'labels': has no field 'mode'"),
        (lambda result: result.update(shard={"number": 1}), "'shard': has no field 'of'"),
        (lambda result: result.update(recall_points={"two": 1}), "recall_points lacks conversation 'one'"),
        (lambda result: result.update(run_key="0" * 64), "run_key is not the hash of field 'resolved'"),
        (lambda result: result.update(colour="red"), "unknown key 'colour'"),
    ],
)
def test_open_run_inconsistent_manifest_names_the_field(
    talk: Any, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    path = talk.run().run.path / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"status": "incomplete"}))
    with pytest.raises(Altered, match=r"manifest\.json: has changed since it was written"):
        open_run(path.parent)
    change(manifest)
    manifest["sha256"] = digest({name: value for name, value in manifest.items() if name != "sha256"})
    path.write_text(json.dumps(manifest))
    with pytest.raises(NotARun, match=rf"manifest\.json: .*{message}.*; run the replay again into another --out"):
        open_run(path.parent)


def test_resume_killed_before_the_manifest_starts_again(talk: Any) -> None:
    """The folder then holds only a partial manifest."""
    (talk.home / "run").mkdir()
    (talk.home / "run" / ".manifest.json.k2j3h4.part").write_text('{"kind": "lab.r')
    assert talk.run().done == ("one", "three", "two")


def test_resume_partial_files_are_ignored(talk: Any) -> None:
    first = talk.run()
    name = first.run.receipts("two").name
    first.run.receipts("two").rename(first.run.path / "receipts" / f".{name}.k2j3h4.part")
    assert open_run(first.run.path).done() == ["one", "three"]
    with pytest.raises(Incomplete, match="1 of 3 conversations are missing; run the same replay again"):
        first.run.require_done()
    assert talk.run().done == ("two",)
    first.run.require_done()


def test_file_name_different_ids_do_not_collide(tmp_path: Path) -> None:
    run = run_for(tmp_path, *NAMES)
    for place in (run.receipts, run.latency):
        names: dict[Path, list[str]] = {}
        for name in NAMES:
            names.setdefault(place(name), []).append(name)
        assert [same for same in names.values() if len(same) > 1] == []
        assert {path.parent for path in names} == {tmp_path / place.__name__}


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_file_name_is_readable_and_stays_in_its_folder(name: str) -> None:
    path = run_for(Path("run"), name).receipts(name)
    assert path.parent == Path("run/receipts")
    assert unquote(path.name.removesuffix(".parquet")) == name
    assert not set(path.name) & set('/\\\x00\n:*?"<>|')
    # Some file systems drop leading or trailing spaces.
    assert path.stem == path.stem.strip()


def test_replay_any_conversation_name_can_be_resumed(desk: Any) -> None:
    # The lab's own format refuses names that cannot be part of keys.
    names = sorted(name for name in NAMES if name.strip() and "/" not in name and name != "\x00")
    for name in names:
        desk.say(name, ("global", [("user", f"this is {name!r}", f"about {name!r}"), ("user", "and now")]))
    outcome = desk.run("recency")
    assert (list(outcome.done), outcome.failures) == (names, ())
    receipts = outcome.run.path / "receipts"
    assert {path.name for path in receipts.iterdir()} == {outcome.run.receipts(name).name for name in names}
    assert [row["item_key"] for row in desk.rows(outcome)] == [
        items for name in names for items in ([], [f"{name}/s1/t1#0"])
    ]
    assert list(desk.run("recency").skipped) == names


@pytest.mark.parametrize("length", [20, 40, 60])
def test_replay_long_chinese_conversation_name_works(desk: Any, length: int) -> None:
    """Forty characters are 120 bytes, within the limit of file names; percent-escaped they would be 360."""
    name = ("每週產品會議記錄" * 8)[:length]
    desk.say(name, ("global", [("user", "大家好")]))
    outcome = desk.run("recency")
    assert (outcome.failures, outcome.done) == ((), (name,))


def test_gold_of_run_holds_keys_and_labels_but_no_text(desk: Any) -> None:
    secret = "the safe opens with 4711"
    desk.say(
        "c", ("global", [("user", "note this", (secret, {"importance_label": "must_remember"})), ("user", "safe?")])
    )
    desk.judge("c/s1/t1#0", turn="c/s1/t1")
    desk.judge("c/s1/t1#0", turn="c/s1/t2", type="standing_rule")
    desk.judge(id="c/later", conversation="c", query="nothing?")
    outcome = desk.run()
    text = (outcome.run.path / "golden.jsonl").read_text()
    relevant = {"memory": "c/s1/t1#0", "grade": 1, "label": "must_remember"}
    assert [json.loads(line) for line in text.splitlines()] == [
        {
            "probe": "c/s1/t1",
            "conversation": "c",
            "relevant": [{**relevant, "visible": False}],
            "forbidden": [],
            "slices": {},
        },
        {
            "probe": "c/s1/t2",
            "conversation": "c",
            "relevant": [{**relevant, "visible": True}],
            "forbidden": [],
            "slices": {"type": "standing_rule"},
        },
        {"probe": "c/later", "conversation": "c", "relevant": [], "forbidden": [], "slices": {}},
    ]
    assert secret not in text


def test_resume_failed_start_without_results_accepts_other_arguments(talk: Any) -> None:
    path = talk.home / "taken"
    created(path)
    again = created(path, "two")
    assert (again.manifest.resolved.embedder_model, (path / "golden.jsonl").read_bytes()) == ("two", b"{}\n")
    keep(again, "a", {again.latency("a"): b"timed", again.receipts("a"): b"measured"})
    with pytest.raises(OtherArguments, match="was made with different arguments: embedder"):
        created(path, "three")
