"""Shards need nobody, and the run that is made of them is the one that was never parted, byte for byte."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.errors import Altered, CannotMeasure, Incomplete, NotARun, OtherArguments, UnusableInput
from lab.measures.score import score_run
from lab.replay.executors import size
from lab.replay.plan import make_plan
from lab.replay.run import run_replay
from lab.replay.shards import merge, parse_shard, shard_of
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
    """Every shard, replayed."""
    asked, folders = desk.asked(*arms, **changes), [desk.home / f"shard{number}" for number in range(1, of + 1)]
    for number, folder in enumerate(folders, 1):
        run_replay(asked, folder, shard=Shard(number, of))
    return folders


def untimed(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.startswith("latency/")}


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_merged_shards_are_the_bytes_of_a_run_in_one_piece(talk: Any, files_of: Files, of: int) -> None:
    whole = talk.run("vector", "oracle", out="whole")
    folders = shards(talk, of, "vector", "oracle")
    merged = merge(talk.home / "merged", folders[::-1])
    assert (merged.copied, merged.there, merged.notes) == (5, 0, ())
    found, expected = files_of(talk.home / "merged"), files_of(whole.run.path)
    # The digests of timings are in the manifest, and no two replays take the same time.
    manifests = [json.loads(files.pop("manifest.json")) for files in (found, expected)]
    for manifest in manifests:
        del manifest["sha256"]
        manifest["files"] = [name if name.startswith("latency/") else one for name, one in manifest["files"].items()]
    assert manifests[0] == manifests[1]
    assert untimed(found) == untimed(expected)
    timed = {name: data for folder in folders for name, data in files_of(folder).items() if name.startswith("latency/")}
    assert {name: data for name, data in found.items() if name.startswith("latency/")} == timed
    assert list(score_run(open_run(talk.home / "merged"))) == list(score_run(whole.run))


@pytest.mark.parametrize("of", [1, 2, 3, 4, 9])
def test_every_conversation_is_in_one_shard_and_shards_are_of_like_size(talk: Any, of: int) -> None:
    plan = make_plan(talk.asked())
    parts = [shard_of(plan, Shard(number, of)) for number in range(1, of + 1)]
    assert sorted(name for part in parts for name in part.conversations) == [f"talk{n}" for n in range(5)]
    sizes = {one.conversation: size(plan, one) for one in plan.recordings}
    totals = [sum(sizes[name] for name in part.conversations) for part in parts]
    assert max(totals) - min(totals) <= max(sizes.values())
    assert parts == [shard_of(make_plan(talk.asked()), Shard(number, of)) for number in range(1, of + 1)]


def test_a_shard_says_what_it_is_and_is_not_scored(talk: Any) -> None:
    first, *_ = shards(talk, 2)
    run = open_run(first)
    assert run.manifest.shard == Shard(1, 2, tuple(run.own))
    assert (run.manifest.status, str(run.shard)) == ("complete", "1/2")
    assert set(run.own) < set(run.conversations)
    with pytest.raises(UnusableInput, match=r"is shard 1/2 of a run, with . of its 5 conversations; `lab merge OUT"):
        score_run(run)
    assert not (first / "scores.parquet").exists()


def test_a_shard_is_resumed_by_the_same_shard_alone(talk: Any) -> None:
    first, *_ = shards(talk, 2)
    run = open_run(first)
    again = run_replay(talk.asked(), first, shard=Shard(1, 2))
    assert (again.done, list(again.skipped)) == ((), run.own)
    for other in (Shard(2, 2), Shard(1, 3), None):
        with pytest.raises(OtherArguments, match="was made with other shard;"):
            run_replay(talk.asked(), first, shard=other)
    talk.run(out="whole")
    with pytest.raises(OtherArguments, match="was made with other shard;"):
        run_replay(talk.asked(), talk.home / "whole", shard=Shard(1, 2))


def test_a_merge_is_done_again_without_a_change_and_finishes_what_is_missing(talk: Any, files_of: Files) -> None:
    folders, out = shards(talk), talk.home / "merged"
    merge(out, folders)
    before, stamps = files_of(out), {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = merge(out, folders)
    assert (again.copied, again.there) == (0, 5)
    assert files_of(out) == before
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == stamps
    open_run(out).receipts("talk3").unlink()
    assert (merge(out, folders).copied, files_of(out)) == (1, before)


def test_what_was_replayed_in_one_piece_and_not_finished_is_finished_by_a_merge(talk: Any, files_of: Files) -> None:
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
        ([0, 2], r"shards are missing: 2/3; name all 3"),
        ([1], r"shards are missing: 1/3, 3/3; name all 3"),
        ([0, 1, 2, 1], r"shard2: is shard 2/3, and so is .*shard2"),
    ],
)
def test_a_shard_that_is_missing_or_double_is_named(talk: Any, chosen: list[int], said: str) -> None:
    folders = shards(talk)
    with pytest.raises(UnusableInput, match=said):
        merge(talk.home / "merged", [folders[one] for one in chosen])
    assert not (talk.home / "merged").exists()


def test_what_is_no_shard_of_the_same_run_is_named(talk: Any) -> None:
    first, second, third = shards(talk)
    out = talk.home / "merged"
    talk.run(out="whole")
    with pytest.raises(UnusableInput, match="whole: is a whole run, not a shard of one"):
        merge(out, [first, talk.home / "whole"])
    with pytest.raises(NotARun, match="nothing: no such run directory"):
        merge(out, [first, talk.home / "nothing"])
    run_replay(talk.asked(depth=7), talk.home / "deep", shard=Shard(2, 3))
    with pytest.raises(UnusableInput, match=r"deep: is of another run than .*shard1: other depth"):
        merge(out, [first, talk.home / "deep", third])
    run_replay(talk.asked(), talk.home / "half", shard=Shard(2, 2))
    with pytest.raises(UnusableInput, match=r"half: is shard 2/2, but .*shard1 is shard 1/3"):
        merge(out, [first, talk.home / "half", third])
    with pytest.raises(OtherArguments, match="shard1: this run was made with other shard"):
        merge(first, [first, second, third])
    assert not out.exists()


def test_shards_that_part_the_conversations_otherwise_are_refused(talk: Any, resealed: Callable[..., Any]) -> None:
    folders = shards(talk, 2)
    first, second = (open_run(folder) for folder in folders)
    shutil.copy(first.receipts(first.own[0]), second.receipts(first.own[0]))
    others = [*first.own[:1], *second.own[1:]]
    resealed(folders[1], lambda manifest: manifest["shard"].update(conversations=others))
    with pytest.raises(UnusableInput, match="its shards do not hold each conversation once"):
        merge(talk.home / "merged", folders)


def test_the_order_of_the_recordings_decides_no_shard(talk: Any) -> None:
    for name in ("alike1", "alike2", "alike3"):
        talk.say(name, ("global", [("user", "pears", "a pear")]))
    plan = make_plan(talk.asked())
    turned = replace(plan, recordings=plan.recordings[::-1])
    for number in (1, 2, 3):
        parts = [shard_of(one, Shard(number, 3)).conversations for one in (plan, turned)]
        assert parts[0] == parts[1][::-1]


def test_a_shard_that_is_unfinished_damaged_or_changed_is_named(talk: Any, resealed: Callable[..., Any]) -> None:
    folders, out = shards(talk), talk.home / "merged"
    run = open_run(folders[1])
    receipts = run.receipts(run.own[0])
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
    with pytest.raises(UnusableInput, match=f"{receipts.name}: is there already and differs from the shard's"):
        merge(out, folders)
    golden = folders[2] / "golden.jsonl"
    golden.write_bytes(golden.read_bytes()[:-20])
    with pytest.raises(Altered, match=r"golden\.jsonl: damaged or altered"):
        merge(out, folders)
    resealed(folders[2])
    with pytest.raises(UnusableInput, match=r"golden\.jsonl is not that of"):
        merge(out, folders)


def test_shards_of_unlike_machines_are_merged_with_a_note(talk: Any, resealed: Callable[..., Any]) -> None:
    folders = shards(talk, 2)
    resealed(folders[1], lambda manifest: manifest["environment"].update(machine="m68k"))
    heard: list[str] = []
    merged = merge(talk.home / "merged", folders, heard.append)
    machine = open_run(folders[0]).manifest.environment.machine
    assert merged.notes == (f"{folders[1]}: was made elsewhere than {folders[0]}: machine {machine} -> m68k",)
    assert heard[0] == merged.notes[0]
    assert merged.run.manifest.environment == open_run(folders[0]).manifest.environment


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda environment: environment.update(code="0" * 64), "code .* -> 000000000000"),
        (lambda environment: environment["packages"].update(numpy="1.0"), "numpy .* -> 1.0"),
    ],
)
def test_shards_of_two_engines_are_no_one_run(
    talk: Any, resealed: Callable[..., Any], change: Callable[[Any], object], told: str
) -> None:
    folders = shards(talk, 2)
    resealed(folders[1], lambda manifest: change(manifest["environment"]))
    with pytest.raises(UnusableInput, match=f"shard2: was made on another {told} than .*replay one of them again"):
        merge(talk.home / "merged", folders)
    assert not (talk.home / "merged").exists()


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2", "1/2 ", "٢/٣"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="expected NUMBER/OF from 1/OF to OF/OF, such as 2/3"):
        parse_shard(text)


def test_a_shard_counts_from_one() -> None:
    assert parse_shard("2/3") == Shard(2, 3)
    assert str(parse_shard("10/10")) == "10/10"
