"""Shards are independent, and merging them gives the bytes of an unsharded run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import Altered, CannotMeasure, Incomplete, NotARun, OtherArguments, UnusableInput
from lab.measures.score import score_run
from lab.replay.executors import size
from lab.replay.plan import make_plan
from lab.replay.run import merge, parse_shard, run_replay, shard_of
from lab.runs.directory import open_run
from lab.runs.manifest import Shard
from lab.runs.tables import read_table, table_bytes

pytestmark = pytest.mark.slow

Files = Callable[[Path], dict[str, bytes]]
LENGTHS = (2, 6, 3, 5, 4)


@pytest.fixture
def talk(desk: Any) -> Any:
    """Five conversations of unequal length, each judged once."""
    for number, length in enumerate(LENGTHS):
        said = [("user", f"pears and plums in crate {n}", f"crate {n} holds plums") for n in range(length)]
        desk.say(f"talk{number}", ("global", said))
        desk.judge(f"talk{number}/s1/t1#0", turn=f"talk{number}/s1/t{length}")
    return desk


def shards(desk: Any, of: int = 3, *arms: str, **changes: Any) -> list[Path]:
    """Replay every shard."""
    request, folders = desk.request(*arms, **changes), [desk.home / f"shard{number}" for number in range(1, of + 1)]
    for number, folder in enumerate(folders, 1):
        run_replay(request, folder, shard=Shard(number, of))
    return folders


def untimed(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.startswith("latency/")}


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_merge_gives_the_bytes_of_an_unsharded_run(talk: Any, files_of: Files, of: int) -> None:
    whole = talk.run("vector", "oracle", out="whole")
    folders = shards(talk, of, "vector", "oracle")
    merged = merge(talk.home / "merged", folders[::-1])
    assert (merged.copied, merged.there, merged.notes) == (5, 0, ())
    result, expected = files_of(talk.home / "merged"), files_of(whole.run.path)
    # The manifest has the digests of timings, which always differ.
    manifests = [json.loads(files.pop("manifest.json")) for files in (result, expected)]
    for manifest in manifests:
        del manifest["sha256"]
        manifest["files"] = [name if name.startswith("latency/") else one for name, one in manifest["files"].items()]
    assert manifests[0] == manifests[1]
    assert untimed(result) == untimed(expected)
    timed = {name: data for folder in folders for name, data in files_of(folder).items() if name.startswith("latency/")}
    assert {name: data for name, data in result.items() if name.startswith("latency/")} == timed
    assert list(score_run(open_run(talk.home / "merged"))) == list(score_run(whole.run))


@pytest.mark.parametrize("of", [1, 2, 3, 4, 9])
def test_shard_of_splits_conversations_evenly(talk: Any, of: int) -> None:
    plan = make_plan(talk.request())
    parts = [shard_of(plan, Shard(number, of)) for number in range(1, of + 1)]
    assert sorted(name for part in parts for name in part.conversations) == [f"talk{n}" for n in range(5)]
    sizes = {recording.conversation: size(plan, recording) for recording in plan.recordings}
    totals = [sum(sizes[name] for name in part.conversations) for part in parts]
    assert max(totals) - min(totals) <= max(sizes.values())
    assert parts == [shard_of(make_plan(talk.request()), Shard(number, of)) for number in range(1, of + 1)]


def test_shard_names_itself_and_is_not_scored(talk: Any) -> None:
    first, *_ = shards(talk, 2)
    run = open_run(first)
    assert run.manifest.shard == Shard(1, 2, tuple(run.assigned))
    assert (run.manifest.status, str(run.shard)) == ("complete", "1/2")
    assert set(run.assigned) < set(run.conversations)
    with pytest.raises(UnusableInput, match=r"is shard 1/2 of a run, with . of its 5 conversations; merge all shards"):
        score_run(run)
    assert not (first / "scores.parquet").exists()


def test_shard_is_resumed_only_by_the_same_shard(talk: Any) -> None:
    first, *_ = shards(talk, 2)
    run = open_run(first)
    again = run_replay(talk.request(), first, shard=Shard(1, 2))
    assert (again.done, list(again.skipped)) == ((), run.assigned)
    for other in (Shard(2, 2), Shard(1, 3), None):
        with pytest.raises(OtherArguments, match="was made with different arguments: shard;"):
            run_replay(talk.request(), first, shard=other)
    talk.run(out="whole")
    with pytest.raises(OtherArguments, match="was made with different arguments: shard;"):
        run_replay(talk.request(), talk.home / "whole", shard=Shard(1, 2))


def test_merge_repeated_restores_only_missing_conversations(talk: Any, files_of: Files) -> None:
    folders, out = shards(talk), talk.home / "merged"
    merge(out, folders)
    before, stamps = files_of(out), {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = merge(out, folders)
    assert (again.copied, again.there) == (0, 5)
    assert files_of(out) == before
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == stamps
    open_run(out).receipts("talk3").unlink()
    assert (merge(out, folders).copied, files_of(out)) == (1, before)


def test_merge_finishes_an_unfinished_unsharded_run(talk: Any, files_of: Files) -> None:
    whole = talk.run(out="whole")
    before = untimed(files_of(whole.run.path))
    whole.run.receipts("talk0").unlink()
    merged = merge(whole.run.path, shards(talk))
    assert merged.copied == 1
    after = untimed(files_of(whole.run.path))
    assert before.pop("manifest.json") != after.pop("manifest.json")
    assert after == before
    score_run(merged.run)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([0, 2], r"shards are missing: 2/3; give all 3"),
        ([1], r"shards are missing: 1/3, 3/3; give all 3"),
        ([0, 1, 2, 1], r"shard2: is shard 2/3, and so is .*shard2"),
    ],
)
def test_merge_missing_or_repeated_shard_is_named(talk: Any, chosen: list[int], said: str) -> None:
    folders = shards(talk)
    with pytest.raises(UnusableInput, match=said):
        merge(talk.home / "merged", [folders[one] for one in chosen])
    assert not (talk.home / "merged").exists()


def test_merge_folder_of_another_run_is_named(talk: Any) -> None:
    first, second, third = shards(talk)
    out = talk.home / "merged"
    talk.run(out="whole")
    with pytest.raises(UnusableInput, match="whole: is a complete run, not a shard"):
        merge(out, [first, talk.home / "whole"])
    with pytest.raises(NotARun, match="nothing: no such run directory"):
        merge(out, [first, talk.home / "nothing"])
    run_replay(talk.request(depth=7), talk.home / "deep", shard=Shard(2, 3))
    with pytest.raises(UnusableInput, match=r"deep: belongs to another run than .*shard1: other depth"):
        merge(out, [first, talk.home / "deep", third])
    run_replay(talk.request(), talk.home / "half", shard=Shard(2, 2))
    with pytest.raises(UnusableInput, match=r"half: is shard 2/2, but .*shard1 is shard 1/3"):
        merge(out, [first, talk.home / "half", third])
    with pytest.raises(OtherArguments, match="shard1: this run was made with different arguments: shard"):
        merge(first, [first, second, third])
    assert not out.exists()


def test_merge_shards_with_other_splits_are_refused(talk: Any, resealed: Callable[..., Any]) -> None:
    folders = shards(talk, 2)
    first, second = (open_run(folder) for folder in folders)
    shutil.copy(first.receipts(first.assigned[0]), second.receipts(first.assigned[0]))
    others = [*first.assigned[:1], *second.assigned[1:]]
    resealed(folders[1], lambda manifest: manifest["shard"].update(conversations=others))
    with pytest.raises(UnusableInput, match="the shards do not hold each conversation exactly once"):
        merge(talk.home / "merged", folders)


def test_shard_of_does_not_depend_on_recording_order(talk: Any) -> None:
    for name in ("alike1", "alike2", "alike3"):
        talk.say(name, ("global", [("user", "pears", "a pear")]))
    plan = make_plan(talk.request())
    turned = replace(plan, recordings=plan.recordings[::-1])
    for number in (1, 2, 3):
        parts = [shard_of(one, Shard(number, 3)).conversations for one in (plan, turned)]
        assert parts[0] == parts[1][::-1]


def test_merge_unfinished_or_damaged_shard_is_named(talk: Any, resealed: Callable[..., Any]) -> None:
    folders, out = shards(talk), talk.home / "merged"
    run = open_run(folders[1])
    receipts = run.receipts(run.assigned[0])
    data = receipts.read_bytes()
    receipts.unlink()
    with pytest.raises(Incomplete, match=r"shard2: 1 of \d conversations are missing; run the same replay again"):
        merge(out, folders)
    receipts.write_bytes(data[:-9])
    with pytest.raises(CannotMeasure, match=f"{receipts.name}: damaged"):
        merge(out, folders)
    receipts.write_bytes(data)
    merge(out, folders)
    table = read_table(receipts)
    receipts.write_bytes(table_bytes(table.replace_schema_metadata({"kind": "another"})))
    resealed(folders[1])
    with pytest.raises(UnusableInput, match=f"{receipts.name}: exists already and differs from the shard's"):
        merge(out, folders)
    golden = folders[2] / "golden.jsonl"
    golden.write_bytes(golden.read_bytes()[:-20])
    with pytest.raises(Altered, match=r"golden\.jsonl: damaged or altered"):
        merge(out, folders)
    resealed(folders[2])
    with pytest.raises(UnusableInput, match=r"golden\.jsonl differs from that of"):
        merge(out, folders)


def test_merge_shards_of_other_machines_gives_a_note(talk: Any, resealed: Callable[..., Any]) -> None:
    folders = shards(talk, 2)
    resealed(folders[1], lambda manifest: manifest["environment"].update(machine="m68k"))
    messages: list[str] = []
    merged = merge(talk.home / "merged", folders, messages.append)
    machine = open_run(folders[0]).manifest.environment.machine
    assert merged.notes == (
        f"{folders[1]}: was made in another environment than {folders[0]}: machine {machine} -> m68k",
    )
    assert messages[0] == merged.notes[0]
    assert merged.run.manifest.environment == open_run(folders[0]).manifest.environment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda environment: environment.update(code="0" * 64), "code .* -> 000000000000"),
        (lambda environment: environment["packages"].update(numpy="1.0"), "numpy .* -> 1.0"),
    ],
)
def test_merge_shards_of_other_code_are_refused(
    talk: Any, resealed: Callable[..., Any], change: Callable[[Any], object], message: str
) -> None:
    folders = shards(talk, 2)
    resealed(folders[1], lambda manifest: change(manifest["environment"]))
    with pytest.raises(UnusableInput, match=f"shard2: was made with another {message} than .*replay one of them again"):
        merge(talk.home / "merged", folders)
    assert not (talk.home / "merged").exists()


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2", "1/2 ", "٢/٣"])
def test_parse_shard_bad_text_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="expected NUMBER/OF from 1/OF to OF/OF, such as 2/3"):
        parse_shard(text)


def test_parse_shard_counts_from_one() -> None:
    assert parse_shard("2/3") == Shard(2, 3)
    assert str(parse_shard("10/10")) == "10/10"
