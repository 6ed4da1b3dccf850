"""The cache: stored values are read from disk, and every chunk is complete or absent."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import platformdirs
import pyarrow as pa
import pytest

from lab.base.errors import CannotMeasure
from lab.embedding import cache as cache_module
from lab.embedding.cache import CHUNK, WRONG_FOLDER, ChunkCache, cache_folder, text_key
from lab.embedding.embedder import HashingEmbedder, Role, SentenceTransformerEmbedder, embedder_key
from lab.embedding.housekeeping import check_file
from lab.embedding.vectors import Vectors

PROJECT = Path(__file__).resolve().parents[2]
TEXTS = ["dark mode", "深色模式", "", "lone \ud83d", "one\u2028two", "naïve", "naive"]


class _Lengths:
    """Computes the length of each text and records the texts of every call."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, part: list[str]) -> pa.Array:
        self.asked.append(part)
        return pa.array([len(text) for text in part], pa.int64())

    def texts(self) -> list[str]:
        """Return the texts of all calls."""
        return [text for part in self.asked for text in part]


def _silent(count: int) -> None:
    """Ignore progress."""


def _open(folder: Path) -> ChunkCache:
    return ChunkCache(folder, pa.int64())


def _fill(folder: Path, texts: Sequence[str]) -> _Lengths:
    cache, compute = _open(folder), _Lengths()
    cache.fill(cache.missing(texts), compute, _silent)
    return compute


def _values(cache: ChunkCache, texts: Sequence[str]) -> list[int]:
    return [cache.chunk(number)[row].as_py() for number, row in map(cache.place, texts)]


def _many(count: int) -> list[str]:
    return ["x" * (number % 50) + str(number) for number in range(count)]


def test_values_survive_reopening(tmp_path: Path) -> None:
    _fill(tmp_path, TEXTS)
    again = _open(tmp_path)
    assert len(again) == len(TEXTS)
    assert again.missing(TEXTS) == []
    assert _values(again, [*reversed(TEXTS), TEXTS[0]]) == [len(text) for text in [*reversed(TEXTS), TEXTS[0]]]


def test_cache_place_locates_a_value(tmp_path: Path) -> None:
    _fill(tmp_path, TEXTS[:3])
    _fill(tmp_path, TEXTS)
    cache = _open(tmp_path)
    for text in TEXTS:
        chunk, row = cache.place(text)
        assert cache.chunk(chunk)[row].as_py() == len(text)
    assert {cache.place(text)[0] for text in TEXTS} == {0, 1}


def test_cache_second_fill_changes_nothing(tmp_path: Path) -> None:
    first = _fill(tmp_path, TEXTS)
    assert sorted(first.texts()) == sorted(TEXTS)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert _fill(tmp_path, [*reversed(TEXTS), *TEXTS]).asked == []
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_cache_fill_computes_only_missing_texts(tmp_path: Path) -> None:
    _fill(tmp_path, TEXTS[:4])
    assert sorted(_fill(tmp_path, TEXTS).texts()) == sorted(TEXTS[4:])
    assert _values(_open(tmp_path), TEXTS) == [len(text) for text in TEXTS]


def test_cache_missing_texts_are_distinct_and_ordered_by_key(tmp_path: Path) -> None:
    cache = _open(tmp_path / "not there yet")
    missing = cache.missing(TEXTS)
    assert sorted(missing) == sorted(TEXTS)
    assert cache.missing([*reversed(TEXTS), *TEXTS]) == missing
    assert len(cache) == 0
    with pytest.raises(KeyError, match="1 texts were not prepared"):
        cache.place(TEXTS[0])


def test_cache_knows_newly_filled_texts(tmp_path: Path) -> None:
    cache = _open(tmp_path)
    cache.fill(TEXTS, _Lengths(), _silent)
    assert cache.missing([*TEXTS, "new"]) == ["new"]
    assert _values(cache, TEXTS) == [len(text) for text in TEXTS]


def test_cache_fill_reports_progress_by_chunk(tmp_path: Path) -> None:
    texts, compute, heard = _many(2 * CHUNK + 5), _Lengths(), []
    cache = _open(tmp_path)
    cache.fill(cache.missing(texts), compute, heard.append)
    assert heard == [CHUNK, CHUNK, 5]
    assert [len(part) for part in compute.asked] == heard
    assert len(list(tmp_path.glob("*.arrow"))) == 3
    assert _values(_open(tmp_path), texts) == [len(text) for text in texts]


def test_cache_stored_chunk_survives_a_later_error(tmp_path: Path) -> None:
    texts = _many(CHUNK + 10)
    cache, lengths = _open(tmp_path), _Lengths()

    def second_fails(part: list[str]) -> pa.Array:
        if lengths.asked:
            raise MemoryError("no more")
        return lengths(part)

    missing = cache.missing(texts)
    with pytest.raises(MemoryError):
        cache.fill(missing, second_fails, _silent)
    assert _open(tmp_path).missing(texts) == missing[CHUNK:]
    assert _fill(tmp_path, texts).asked == [missing[CHUNK:]]


KILLED = """
import os, signal, sys
from pathlib import Path
import pyarrow as pa
import lab.base.files
from lab.embedding.cache import ChunkCache

where, count, moment = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
cache = ChunkCache(where, pa.int64())
rename, calls = os.replace, []

def stop():
    calls.append(moment)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

def compute(part):
    if moment == "computing":
        stop()
    return pa.array([len(text) for text in part], pa.int64())

def replace(source, target):
    if moment == "renaming":
        stop()
    rename(source, target)

lab.base.files.os.replace = replace
texts = ["x" * (number % 50) + str(number) for number in range(count)]
cache.fill(cache.missing(texts), compute, lambda count: None)
"""


@pytest.mark.process
@pytest.mark.parametrize("moment", ["computing", "renaming"])
def test_cache_killed_writer_leaves_only_complete_chunks(tmp_path: Path, moment: str) -> None:
    texts = _many(2 * CHUNK)
    missing = _open(tmp_path).missing(texts)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(len(texts)), moment], cwd=PROJECT, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.arrow"))) == 1
    assert _open(tmp_path).missing(texts) == missing[CHUNK:]
    assert _fill(tmp_path, texts).asked == [missing[CHUNK:]]
    assert _values(_open(tmp_path), texts) == [len(text) for text in texts]


def test_cache_two_writers_of_equal_texts_write_one_file(tmp_path: Path) -> None:
    first, second = _open(tmp_path), _open(tmp_path)
    first.fill(first.missing(TEXTS), _Lengths(), _silent)
    (written,) = tmp_path.iterdir()
    data = written.read_bytes()
    second.fill(second.missing(TEXTS[::-1]), _Lengths(), _silent)
    assert [path.name for path in tmp_path.iterdir()] == [written.name]
    assert written.read_bytes() == data
    for cache in (first, second, _open(tmp_path)):
        assert _values(cache, TEXTS) == [len(text) for text in TEXTS]


def test_cache_writers_of_overlapping_texts_share_a_mapping(tmp_path: Path) -> None:
    first, second = _open(tmp_path), _open(tmp_path)
    first.fill(first.missing(TEXTS[:5]), _Lengths(), _silent)
    second.fill(second.missing(TEXTS[2:]), _Lengths(), _silent)
    again = _open(tmp_path)
    assert len(again) == len(TEXTS)
    assert _values(again, TEXTS) == [len(text) for text in TEXTS]


@pytest.mark.process
def test_cache_concurrent_processes_leave_complete_chunks(tmp_path: Path) -> None:
    texts = _many(2 * CHUNK + 7)
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(len(texts)), "never"]
    writers = [subprocess.Popen(command, cwd=PROJECT) for _ in range(2)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert len(list(tmp_path.glob("*.arrow"))) == len(list(tmp_path.iterdir())) == 3
    assert _values(_open(tmp_path), texts) == [len(text) for text in texts]


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _other_columns(_: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"text": ["a"], "value": pa.array([1], pa.int64())})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:1],
        lambda data: data[:-1],
        _cut,
        lambda data: bytes(len(data)),
        lambda data: _cut(data) + bytes(len(data) - len(_cut(data))),
        lambda data: b"<html>not found</html>" * 50,
        _other_columns,
    ],
    ids=["empty", "one byte", "last byte lost", "cut", "zeros", "zeros at the end", "another file", "other columns"],
)
def test_cache_damaged_chunk_cannot_be_measured(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    _fill(tmp_path, TEXTS[:3])
    _fill(tmp_path, TEXTS)
    path = sorted(tmp_path.glob("*.arrow"))[1]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CannotMeasure) as caught:
        _open(tmp_path)
    assert str(caught.value).startswith(f"{path}: damaged cache file (")
    assert str(caught.value).endswith("); delete it and run again")
    path.unlink()
    assert len(_fill(tmp_path, TEXTS).asked) == 1
    assert _values(_open(tmp_path), TEXTS) == [len(text) for text in TEXTS]


def _flipped(path: Path, found: bytes, at: int) -> None:
    """Flip the lowest bit of a byte, ``at`` bytes after the only place of ``found``."""
    data = bytearray(path.read_bytes())
    assert data.count(found) == 1
    data[data.index(found) + at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("row", [0, 3, 6])
def test_cache_chunk_with_a_flipped_bit_is_refused_once_it_is_used(tmp_path: Path, row: int) -> None:
    other = "another text, in a chunk of its own"
    _fill(tmp_path, [other])
    (sound,) = tmp_path.glob("*.arrow")
    _fill(tmp_path, TEXTS)
    (path,) = {*tmp_path.glob("*.arrow")} - {sound}
    values = np.asarray([len(text) for text in sorted(TEXTS, key=text_key)], np.int64).tobytes()
    _flipped(path, values, 8 * row)
    cache = _open(tmp_path)
    assert _values(cache, [other]) == [len(other)]
    with pytest.raises(CannotMeasure) as caught:
        _values(cache, TEXTS[:1])
    message = f"{path}: damaged cache file (it does not match its checksum); delete it and run again"
    assert str(caught.value) == message
    path.unlink()
    _fill(tmp_path, TEXTS)
    assert _values(_open(tmp_path), TEXTS) == [len(text) for text in TEXTS]


def test_cache_chunk_with_a_flipped_bit_in_a_key_gives_no_wrong_value(tmp_path: Path) -> None:
    _fill(tmp_path, TEXTS)
    (path,) = tmp_path.glob("*.arrow")
    _flipped(path, text_key(TEXTS[0]), 31)
    assert _open(tmp_path).missing(TEXTS) == [TEXTS[0]]
    with pytest.raises(CannotMeasure, match="does not match its checksum"):
        _values(_open(tmp_path), TEXTS[1:])


def test_cache_chunk_of_another_folder_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    _fill(tmp_path / "one", TEXTS)
    (path,) = (tmp_path / "one").glob("*.arrow")
    copy = tmp_path / "two" / path.name
    copy.write_bytes(path.read_bytes())
    assert _values(_open(tmp_path / "one"), TEXTS) == [len(text) for text in TEXTS]
    with pytest.raises(CannotMeasure, match="it was written into another folder"):
        _values(_open(tmp_path / "two"), TEXTS)
    checked = check_file(copy, "vectors")
    assert checked
    assert checked.problem == WRONG_FOLDER


def test_cache_chunk_without_a_checksum_is_read(tmp_path: Path) -> None:
    """Chunks of the first versions have none."""
    _fill(tmp_path, TEXTS)
    (path,) = tmp_path.glob("*.arrow")
    with pa.ipc.open_file(path.read_bytes()) as reader:
        table = reader.read_all()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema.remove_metadata()) as writer:
        writer.write_table(table)
    assert _values(_open(tmp_path), TEXTS) == [len(text) for text in TEXTS]


def test_vectors_of_a_chunk_with_a_flipped_bit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    vectors = Vectors(HashingEmbedder())
    vectors.prepare(TEXTS[:3])
    (path,) = tmp_path.rglob("*.arrow")
    data = bytearray(path.read_bytes())
    row = vectors.of(TEXTS[:1])[0].tobytes()
    data[data.index(row) + np.flatnonzero(np.frombuffer(row, np.uint8))[0]] ^= 1
    path.write_bytes(data)
    for texts in (TEXTS[:1], TEXTS[:3] * 20):
        with pytest.raises(CannotMeasure, match="does not match its checksum"):
            Vectors(HashingEmbedder()).of(texts)


@pytest.mark.parametrize(
    "wanted", [pa.int32(), pa.list_(pa.float32(), 64), pa.list_(pa.string())], ids=["int32", "a vector", "tokens"]
)
def test_cache_values_of_another_type_are_refused(tmp_path: Path, wanted: pa.DataType) -> None:
    _fill(tmp_path, TEXTS)
    (path,) = tmp_path.iterdir()
    with pytest.raises(CannotMeasure) as caught:
        ChunkCache(tmp_path, wanted)
    assert str(caught.value) == f"{path}: holds int64, expected {wanted}; delete it and run again"


def test_text_key_distinguishes_texts_and_surrogates() -> None:
    texts = [*TEXTS, "nai\u0308ve", "\ud83d", "\ude42", "\ud83d ", "🙂"]
    assert len({text_key(text) for text in texts}) == len(texts)
    assert text_key("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("LAB_CACHE_DIR", "")
    usual = Path(platformdirs.user_cache_dir("recall-lab"))
    assert cache_folder() == usual
    monkeypatch.delenv("LAB_CACHE_DIR")
    assert cache_folder() == usual


class _Counting(HashingEmbedder):
    """The hashing embedder, counting the texts that it embeds."""

    def __init__(self) -> None:
        self.embedded = 0

    def encode(self, texts: Sequence[str], role: Role = "document") -> np.ndarray:
        self.embedded += len(texts)
        return super().encode(texts, role)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder that is private to the test."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_vectors_are_embedded_once_and_returned_in_order(own_cache: Path) -> None:
    texts = _many(CHUNK + 30)
    embedder, heard = _Counting(), []
    vectors = Vectors(embedder)
    assert vectors.prepare([*texts, *texts[:9]], heard.append) == len(texts)
    assert heard[0] == "embedding 1054 texts"
    assert re.fullmatch(r"embedded 1024 of 1054 texts \(\d+ a second, \d+ s left\)", heard[1])
    assert re.fullmatch(r"embedded 1054 of 1054 texts in \d+ s \(\d+ a second\)", heard[2])
    asked = [texts[-1], *texts, texts[3]]
    expected = HashingEmbedder().encode(asked)
    assert vectors.of(asked).tobytes() == expected.tobytes()

    again, heard = Vectors(embedder), []
    assert again.prepare(texts, heard.append) == 0
    assert heard == []
    assert embedder.embedded == len(texts)
    assert again.of(asked).tobytes() == expected.tobytes()
    assert again.of([]).shape == (0, 64)


def test_vectors_of_texts_prepared_later_are_returned(own_cache: Path) -> None:
    vectors = Vectors(HashingEmbedder())
    vectors.prepare(TEXTS[:3])
    before = vectors.of(TEXTS[:3])
    assert vectors.prepare(TEXTS) == len(TEXTS) - 3
    assert vectors.of(TEXTS).tobytes() == HashingEmbedder().encode(TEXTS).tobytes()
    assert vectors.of(TEXTS[:3]).tobytes() == before.tobytes()


def test_vectors_of_each_embedder_have_a_separate_folder(own_cache: Path, model: SentenceTransformerEmbedder) -> None:
    for embedder in (HashingEmbedder(), model):
        vectors = Vectors(embedder)
        assert vectors.prepare(TEXTS) == len(TEXTS)
        assert vectors.of(TEXTS).tobytes() == embedder.encode(TEXTS).tobytes()
    folders = {path.name for path in (own_cache / "vectors").iterdir()}
    assert folders == {embedder_key(HashingEmbedder()), embedder_key(model)}


def test_keep_small_parts_fills_complete_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "WRITE_AFTER", 0.0)
    texts, lengths, stored = _many(CHUNK + 200), _Lengths(), 0
    parts = [texts[start : start + 40] for start in range(0, len(texts), 40)]

    def stored_by_now(count: int) -> None:
        nonlocal stored
        stored += count
        # A cache opened now has every value stored so far, once, and each chunk is filled before the next one begins.
        assert _open(tmp_path).missing(texts) == sorted(texts[stored:], key=text_key)
        assert len(list(tmp_path.iterdir())) == -(-stored // (CHUNK // 40 * 40))

    cache = _open(tmp_path)
    cache.keep(((part, lengths(part)) for part in parts), stored_by_now)
    assert stored == len(texts)
    for one in (cache, _open(tmp_path)):
        assert _values(one, texts) == [len(text) for text in texts]


def test_keep_writes_values_after_time_without_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "WRITE_AFTER", 0.05)
    on_disk: list[int] = []
    heard: list[int] = []

    def parts() -> Iterator[tuple[list[str], pa.Array]]:
        lengths = _Lengths()
        yield TEXTS[:2], lengths(TEXTS[:2])
        on_disk.append(len(_open(tmp_path)))
        for _ in range(2):
            time.sleep(0.1)
            yield [], lengths([])
            on_disk.append(len(_open(tmp_path)))
        yield TEXTS[2:], lengths(TEXTS[2:])

    _open(tmp_path).keep(parts(), heard.append)
    assert (on_disk, heard) == ([0, 2, 2], [2, 0, len(TEXTS) - 2])
    assert _values(_open(tmp_path), TEXTS) == [len(text) for text in TEXTS]
