"""Chunks of the cache: lookup by sorted keys, checksums, and merging without loss."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import CannotMeasure
from lab.embedding import housekeeping
from lab.embedding.cache import Chunk, ChunkCache, chunk_name, matrix, read_chunk, text_key, write_chunk
from lab.embedding.embedder import HashingEmbedder, SentenceTransformerEmbedder, embedder_key
from lab.embedding.housekeeping import Freed, Merge, check, collect, describe, parts
from lab.embedding.vectors import Recomputed, Vectors

PROJECT = Path(__file__).resolve().parents[2]
KEY = embedder_key(HashingEmbedder())
NO_MODELS: dict[str, set[str]] = {}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder that is private to the test."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    return tmp_path


def _run(*texts: str) -> Vectors:
    """Prepare texts as a small run does: those that are not cached are embedded into a new chunk."""
    vectors = Vectors(HashingEmbedder())
    vectors.prepare(texts)
    return vectors


def _expected(texts: Sequence[str]) -> bytes:
    return HashingEmbedder().encode(texts).tobytes()


def _chunks(root: Path) -> list[Path]:
    return sorted((root / "vectors" / KEY).glob("*.arrow"))


def _merge(root: Path) -> Freed:
    return collect(root, NO_MODELS, other_models=False, damaged=False)


def _problems(root: Path) -> dict[str, str]:
    return {
        one.path.name: one.problem
        for part in parts(root)
        for one in check(part.files, part.kind)
        if one.problem is not None
    }


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=5), st.lists(st.integers(0, 60), min_size=1))
def test_cache_lookup_matches_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, fills: list[list[int]], asked: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    stored: dict[str, int] = {}
    writer = ChunkCache(folder, pa.int64())

    def compute(part: list[str]) -> pa.Array:
        return pa.array([len(text) for text in part], pa.int64())

    for fill in fills:
        missing = writer.missing([str(number) * number for number in fill])
        assert set(missing) == {str(number) * number for number in fill} - stored.keys()
        writer.fill(missing, compute, lambda _: None)
        stored |= {text: len(text) for text in missing}
    texts = [str(number) * number for number in asked]
    for cache in (writer, ChunkCache(folder, pa.int64())):
        assert cache.missing(texts) == sorted(set(texts) - stored.keys(), key=text_key)
        have = [text for text in texts if text in stored]
        assert [cache.chunk(number)[row].as_py() for number, row in map(cache.place, have)] == [len(t) for t in have]
        found = np.full(len(have), -1)
        for number, positions, rows in cache.places(have):
            found[positions] = np.asarray(cache.chunk(number))[rows]
        assert found.tolist() == [len(text) for text in have]
        assert len(cache) == len(stored)


@pytest.mark.parametrize("last", [0, 1, 255])
def test_chunk_keys_compare_trailing_zero_bytes(tmp_path: Path, last: int) -> None:
    keys = [bytes(32), bytes(31) + b"\x01", b"\x01" + bytes(31), bytes([255] * 31 + [last])]
    path = write_chunk(tmp_path, b"".join(sorted(keys)), pa.array([1, 2, 3, 4], pa.int64()))
    chunk = read_chunk(path)
    assert chunk.keys.tobytes() == b"".join(sorted(keys))
    wanted = np.frombuffer(b"".join(keys), "S32")
    assert sorted(np.searchsorted(chunk.keys, wanted).tolist()) == [0, 1, 2, 3]
    assert bool((chunk.keys[:-1] < chunk.keys[1:]).all())


def test_chunk_vectors_are_mapped_without_a_copy(root: Path) -> None:
    _run("one", "two")
    chunk = read_chunk(_chunks(root)[0])
    rows = matrix(chunk.values)
    assert rows.shape == (2, 64)
    assert not rows.flags.writeable
    assert rows.__array_interface__["data"][0] == chunk.values.flatten().buffers()[1].address
    found = Vectors(HashingEmbedder()).of(["one"])
    found[:] = 0
    assert _run("one").of(["one"]).tobytes() == _expected(["one"]), "what was handed out is the asker's own"


def test_chunks_keep_no_files_open(root: Path) -> None:
    folder = root / "many"
    for number in range(300):
        text = str(number)
        write_chunk(folder, text_key(text), pa.array([number], pa.int64()))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, hard))
    try:
        cache = ChunkCache(folder, pa.int64())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(cache) == 300
    assert [cache.chunk(number)[row].as_py() for number, row in [cache.place("217")]] == [217]


def test_cache_sees_chunks_of_other_processes_first(root: Path) -> None:
    early = _run("one")
    _run("one", "two")
    before = _chunks(root)
    assert early.prepare(["two"]) == 0
    assert early.of(["two", "one"]).tobytes() == _expected(["two", "one"])
    assert _chunks(root) == before


def test_chunk_has_its_producer_and_a_checksum(root: Path) -> None:
    _run("one")
    assert (root / "vectors" / KEY / "about.json").read_text("utf-8").startswith('{\n  "kind": "hashing"')
    (path,) = _chunks(root)
    with pa.ipc.open_file(str(path)) as reader:
        metadata = reader.schema.metadata
    assert metadata[b"kind"] == b"recall-lab chunk"
    assert len(metadata[b"sha256"]) == 64
    assert path.name == chunk_name(text_key("one"))


def _old_chunk(folder: Path, texts: Sequence[str]) -> Path:
    """Write a chunk without a checksum, as earlier versions did."""
    ordered = sorted(texts, key=text_key)
    keys = [text_key(text) for text in ordered]
    rows = pa.FixedSizeListArray.from_arrays(pa.array(HashingEmbedder().encode(ordered).ravel()), 64)
    table = pa.table({"key": pa.array(keys, pa.binary(32)), "value": rows})
    path = folder / chunk_name(b"".join(keys))
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def test_chunks_without_checksum_get_one_when_merged(root: Path) -> None:
    old = _old_chunk(root / "vectors" / KEY, ["one", "two", "three"])
    assert Vectors(HashingEmbedder()).prepare(["two", "three"]) == 0
    assert [one.stamped for one in check([old], "vectors")] == [False]
    freed = _merge(root)
    assert [one[1:] for one in freed.merged] == [(1, 1)]
    assert [one.stamped for one in check(_chunks(root), "vectors")] == [True]
    assert Vectors(HashingEmbedder()).prepare(["one", "two", "three"]) == 0
    assert _merge(root).merged == []


def test_collect_merges_small_chunks_without_loss(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "MERGED", 8)
    texts = [f"text {number}" for number in range(21)]
    for start in range(0, 21, 3):
        _run(*texts[start : start + 3])
    reader = _run(*texts)
    # Concurrent runs may store a text twice, in different chunks.
    _old_chunk(root / "vectors" / KEY, ["text 0", "text 20"])
    before = sum(path.stat().st_size for path in _chunks(root))
    dry = collect(root, NO_MODELS, other_models=False, damaged=False, dry_run=True)
    assert len(_chunks(root)) == 8
    freed = _merge(root)
    assert freed.merged == dry.merged == [Merge(root / "vectors" / KEY, 8, 3)]
    assert [len(read_chunk(path).keys) for path in _chunks(root)].count(8) == 2
    assert freed.bytes == before - sum(path.stat().st_size for path in _chunks(root))
    assert _problems(root) == {}
    for vectors in (reader, Vectors(HashingEmbedder())):
        assert vectors.prepare(texts) == 0
        assert vectors.of(texts).tobytes() == _expected(texts)
    assert _merge(root) == Freed([], [], [], [], 0)


def test_collect_does_not_disturb_existing_readers(root: Path) -> None:
    _run("one")
    _run("two")
    reader = Vectors(HashingEmbedder())
    assert reader.prepare(["one"]) == 0  # both chunks are mapped, and the second has not been read
    _merge(root)
    assert len(_chunks(root)) == 1
    assert reader.prepare(["two", "three"]) == 1
    assert reader.of(["one", "two", "three"]).tobytes() == _expected(["one", "two", "three"])


def test_cache_finds_chunks_merged_while_listing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run("one")
    _run("two")
    from lab.embedding import cache

    real, read = cache.read_chunk, []

    def late(path: Path, value_type: pa.DataType) -> Chunk:
        read.append(path)
        if len(read) == 1:
            _merge(root)
        return real(path, value_type)

    monkeypatch.setattr(cache, "read_chunk", late)
    vectors = Vectors(HashingEmbedder())
    assert vectors.prepare(["one", "two"]) == 0
    assert vectors.of(["one", "two"]).tobytes() == _expected(["one", "two"])


def test_cache_broken_link_does_not_loop_forever(root: Path) -> None:
    (root / "nothing.arrow").symlink_to(root / "gone")
    with pytest.raises(CannotMeasure, match=r"run the command again$"):
        ChunkCache(root, pa.int64())


WORK = """
import sys
from lab.embedding.embedder import HashingEmbedder
from lab.embedding.vectors import Recomputed, Vectors
for number in range(int(sys.argv[1]), 120, 2):
    vectors, texts = Vectors(HashingEmbedder()), [f"text {one}" for one in range(max(0, number - 9), number + 1)]
    vectors.prepare(texts)
    assert vectors.of(texts).tobytes() == HashingEmbedder().encode(texts).tobytes(), number
"""


@pytest.mark.process
def test_collect_concurrent_with_writers_loses_nothing(root: Path) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", WORK, str(start)], cwd=PROJECT) for start in (0, 1)]
    while any(worker.poll() is None for worker in workers):
        _merge(root)
        time.sleep(0.01)
    assert [worker.returncode for worker in workers] == [0, 0]
    _merge(root)
    assert (_problems(root), len(_chunks(root))) == ({}, 1)
    texts = [f"text {number}" for number in range(120)]
    again = Vectors(HashingEmbedder())
    assert again.prepare(texts) == 0
    assert again.of(texts).tobytes() == _expected(texts)


KILLED = """
import os, signal, sys
from pathlib import Path
from lab.embedding import housekeeping

unlink, left = Path.unlink, [int(sys.argv[2])]

def stop(path, missing_ok=False):
    if path.suffix == ".arrow":
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    unlink(path, missing_ok)

Path.unlink = stop
housekeeping.collect(Path(sys.argv[1]), {}, other_models=False, damaged=False)
"""


@pytest.mark.process
@pytest.mark.parametrize("unlinked", [0, 2])
def test_collect_after_a_killed_merge_completes_it(root: Path, unlinked: int) -> None:
    texts = [f"text {number}" for number in range(4)]
    for text in texts:
        _run(text)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(root), str(unlinked)], cwd=PROJECT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(_chunks(root)) == 5 - unlinked
    assert _run(*texts).of(texts).tobytes() == _expected(texts)
    _merge(root)
    assert (len(_chunks(root)), _problems(root)) == (1, {})


def _flip(at: Callable[[bytes], int]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at(bytes(data))] ^= 1
        path.write_bytes(data)

    return damage


def _write_rows(path: Path, rows: np.ndarray) -> None:
    """Replace the vectors of a chunk and give it a matching checksum."""
    keys = read_chunk(path).keys.tobytes()
    write_chunk(path.parent, keys, pa.FixedSizeListArray.from_arrays(pa.array(rows.astype(np.float32).ravel()), 64))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            _flip(lambda data: data.index(HashingEmbedder().encode(["one"]).tobytes()) + 4),
            "does not match its checksum",
        ),
        (_flip(lambda data: data.index(text_key("one")) + 31), "does not match its checksum"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), "is not a complete Arrow file"),
        (lambda path: path.rename(path.with_name("0" * 24 + ".arrow")), "its name is not the hash of its keys"),
        (lambda path: _write_rows(path, np.full((2, 64), np.nan)), "2 of 2 vectors are not finite"),
        (lambda path: _write_rows(path, np.eye(2, 64) * [[1], [1.001]]), "1 of 2 vectors are not finite"),
        (lambda path: write_chunk(path.parent, read_chunk(path).keys.tobytes(), pa.array([1, 2])), "holds int64"),
    ],
    ids=["a bit of a vector", "a bit of a key", "cut", "renamed", "not a number", "too long", "another type"],
)
def test_damage_is_listed_and_removed_only_on_request(root: Path, damage: Callable[[Path], None], problem: str) -> None:
    _run("one", "two")
    _run("three")
    sound = _chunks(root)
    (wrong,) = (path for path in sound if len(read_chunk(path).keys) == 2)
    sound.remove(wrong)
    damage(wrong)
    found = _problems(root)
    assert list(found) == [path.name for path in _chunks(root) if path not in sound]
    assert problem in next(iter(found.values()))
    assert _merge(root).merged == [], "what is damaged is merged into nothing"
    assert len(_chunks(root)) == 2
    freed = collect(root, NO_MODELS, other_models=False, damaged=True)
    assert [path.name for path in freed.damaged] == list(found)
    assert _chunks(root) == sound
    assert _run("one", "two", "three").of(["one", "two"]).tobytes() == _expected(["one", "two"])


def test_check_two_values_of_a_text_are_both_problems(root: Path) -> None:
    _run("one")
    _run("one", "two")
    other = _old_chunk(root / "vectors" / KEY, ["one", "three"])
    rows = matrix(read_chunk(other).values)
    _write_rows(other, rows[::-1])
    first = chunk_name(text_key("one"))
    assert _problems(root) == dict.fromkeys((first, other.name), "another chunk has another value for the same text")


def test_recompute_real_model_gives_equal_bits(root: Path, model: SentenceTransformerEmbedder) -> None:
    texts = [
        "",
        "Which port is the gateway bound to?",
        "她喜歡深色模式",
        *(f"fact {number} " * number for number in range(1, 10)),
    ]
    Vectors(model).prepare(texts)
    again = Vectors(model)
    assert again.recompute([*texts[::-1], "never seen"], 10) == Recomputed(10, 1, {})
    assert [describe(model.identity()).name, *(part.kind for part in parts(root))] == ["all-MiniLM-L6-v2", "vectors"]
    # Flip the last bit of one number and write a matching checksum.
    (path,) = (root / "vectors").rglob("*.arrow")
    chunk = read_chunk(path)
    rows = matrix(chunk.values).copy()
    rows.view(np.uint32)[3, 5] ^= 1
    write_chunk(path.parent, chunk.keys.tobytes(), pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 384))
    assert _problems(root) == {}
    assert Vectors(model).recompute(texts) == Recomputed(len(texts), 0, {path: 1})
