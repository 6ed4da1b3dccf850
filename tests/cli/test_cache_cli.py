"""``lab cache stat``, ``gc`` and ``verify``."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.embedding.embedder import HashingEmbedder, embedder_key
from lab.embedding.vectors import Vectors

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
HASHING = embedder_key(HashingEmbedder())


@pytest.fixture
def cache(tmp_path: Path, place: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that a small replay and somebody else have filled, with a kind of thing that nobody knows."""
    folder = tmp_path / "cache"
    arguments = ("replay", "datasets/tiny", "--format", "lab", "--arm", "hybrid", "--embedder", "hashing")
    done = lab(*arguments, "--out", tmp_path / "run", cwd=place, LAB_CACHE_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    (folder / "novelties").mkdir()
    (folder / "novelties" / "one.bin").write_bytes(b"12345")
    monkeypatch.setenv("LAB_CACHE_DIR", str(folder))
    Vectors(HashingEmbedder()).prepare(["something else"])
    return folder


def _json(lab: Lab, cwd: Path, *arguments: str, code: int = 0) -> dict[str, object]:
    done = lab("cache", *arguments, "--json", cwd=cwd)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_stat_lists_every_kind_with_its_maker(cache: Path, place: Path, lab: Lab) -> None:
    result = _json(lab, place, "stat", "--embedder", "hashing")
    held = {one["kind"]: one for one in result["parts"]}
    assert set(held) >= {"vectors", "tokens", "candidates", "novelties"}
    vectors = held["vectors"]
    assert (vectors["key"], vectors["made_by"], vectors["present"]) == (HASHING, "hashing (for tests alone)", True)
    assert (vectors["files"], vectors["entries"]) == (2, len(_texts(place)) + 1)
    assert held["novelties"] | {"used": ""} == {
        "kind": "novelties",
        "key": "",
        "made_by": None,
        "version": None,
        "present": None,
        "entries": None,
        "files": 1,
        "bytes": 5,
        "used": "",
    }
    assert result["bytes"] == sum(one["bytes"] for one in result["parts"])
    shown = lab("cache", "stat", cwd=place).stdout
    assert max(map(len, shown.splitlines()[1:])) <= 80
    assert "not in use" in shown, "the default model is another"


def _texts(place: Path) -> set[str]:
    from lab.recordings.readers import read_library

    recordings = read_library(place / "datasets" / "tiny", "lab").recordings
    turns = {turn.text for one in recordings for turn in one.turns if turn.role == "user"}
    return turns | {memory.index_text for one in recordings for memory in one.memories}


def test_gc_merges_chunks_removes_leftovers_and_reports_both(cache: Path, place: Path, lab: Lab) -> None:
    dead = cache / "vectors" / HASHING / ".x.arrow.999999999.abc.part"
    dead.write_bytes(b"x" * 1000)
    before = sorted(path for path in cache.rglob("*") if path.is_file())
    dry = lab("cache", "gc", cwd=place)
    assert "would be removed: 1 file of killed processes" in dry.stdout
    assert f"would be merged: 2 chunks of vectors/{HASHING} into 1" in dry.stdout
    assert sorted(path for path in cache.rglob("*") if path.is_file()) == before
    done = lab("cache", "gc", "--write", cwd=place)
    *lines, _, end = dry.stdout.splitlines()
    assert end == "Nothing was written; add --write to do it."
    assert done.stdout.splitlines()[:-1] == [line.removeprefix("would be ") for line in lines]
    assert not dead.exists()
    assert lab("cache", "gc", cwd=place).stdout == "nothing to do\n"
    assert Vectors(HashingEmbedder()).prepare(sorted(_texts(place))) == 0
    assert lab("cache", "verify", cwd=place).returncode == 0


def test_gc_other_models_keeps_named_ones(cache: Path, place: Path, lab: Lab) -> None:
    folder = cache / "vectors" / HASHING
    docs = cache / "docs" / "0123456789abcdef-fedcba9876543210.sqlite"
    docs.parent.mkdir()
    sqlite3.connect(docs).close()
    lab("cache", "gc", "--write", cwd=place)
    assert folder.is_dir()
    kept = _json(lab, place, "gc", "--other-models", "--embedder", "hashing", "--write")
    assert kept["others"] == [str(docs)]
    assert folder.is_dir()
    gone = _json(lab, place, "gc", "--other-models", "--write")
    assert [Path(path).parent for path in gone["others"]] == [folder]
    assert not folder.exists()
    assert (cache / "novelties" / "one.bin").exists()
    assert list((cache / "tokens").rglob("*.arrow")), "words of the LanceDB that is installed stay"


def test_verify_names_damaged_files_and_the_remedy(cache: Path, place: Path, lab: Lab) -> None:
    result = _json(lab, place, "verify")
    assert (result["damaged"], result["without_checksum"]) == ([], 0)
    path = sorted((cache / "vectors" / HASHING).glob("*.arrow"))[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 64
    path.write_bytes(data)
    (cache / "candidates" / "broken.arrow").write_bytes(b"ARROW1")
    (cache / "docs").mkdir()
    (cache / "docs" / "a-b.sqlite").write_bytes(b"SQLite format 3\0 and no more" * 40)
    done = lab("cache", "verify", cwd=place)
    assert done.returncode == 1
    named = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("damaged")]
    assert sorted(named) == sorted(
        map(str, (path, cache / "candidates" / "broken.arrow", cache / "docs" / "a-b.sqlite"))
    )
    assert "lab cache gc --damaged" in done.stderr
    assert _json(lab, place, "gc", "--damaged", "--write")["damaged"] == [
        str(cache / "candidates" / "broken.arrow"),
        *map(str, [cache / "docs" / "a-b.sqlite", path]),
    ]
    assert lab("cache", "verify", cwd=place).returncode == 0


def test_verify_with_recording_embeds_its_texts_again(cache: Path, place: Path, lab: Lab) -> None:
    recording = ("--recording", "datasets/tiny", "--embedder", "hashing")
    result = _json(lab, place, "verify", *recording)
    assert result["recomputed"] == {"compared": len(_texts(place)), "lacking": 0}
    assert _json(lab, place, "verify", *recording, "--sample", "3")["recomputed"]["compared"] == 3
    # A sound chunk of another embedder's vectors: nothing in the file itself is wrong.
    shutil.rmtree(cache / "vectors")
    vectors = Vectors(HashingEmbedder())
    vectors.embedder.encode = lambda texts, role: -HashingEmbedder().encode(texts)
    vectors.prepare(sorted(_texts(place))[:5])
    assert _json(lab, place, "verify")["damaged"] == []
    wrong = _json(lab, place, "verify", *recording, code=1)
    assert wrong["recomputed"] == {"compared": 5, "lacking": len(_texts(place)) - 5}
    assert [one["problem"] for one in wrong["damaged"]] == ["5 of its vectors differ from those computed again"]


def test_empty_cache_is_no_error(tmp_path: Path, place: Path, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "none"))
    assert lab("cache", "stat", cwd=place).stdout == f"{tmp_path / 'none'}: 0.0 MB\n"
    assert lab("cache", "gc", cwd=place).stdout == "nothing to do\n"
    assert lab("cache", "verify", cwd=place).returncode == 0
