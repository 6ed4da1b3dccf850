"""Embedding in a team of threads: equal bits for any number of threads and under load, and no loss when killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from lab.embedding import cache
from lab.embedding import embedder as embedders
from lab.embedding.embedder import BATCH, LENGTH_STEP, TICK, SentenceTransformerEmbedder, each_done
from lab.embedding.vectors import Recomputed, Vectors
from tests.embedding.conftest import PROJECT

pytestmark = pytest.mark.slow

# Texts of several lengths, so that batches of different shapes are computed at once; the short ones fill several.
TEXTS = [
    *(f"short fact number {number}" for number in range(3 * BATCH)),
    *(f"note {number} of {words} words: " + "build " * words for words in (20, 45) for number in range(3)),
    "one word after another " * 30,
    "她喜歡深色模式和等寬字體",
    "",
]


def _in_one_thread_after_another(model: SentenceTransformerEmbedder, texts: Sequence[str]) -> np.ndarray:
    """Return the vectors as version 0.1 computed them: one batch at a time, each with all of torch's threads."""
    import torch

    loaded = model._load()
    cap = int(loaded.max_seq_length)
    counts = [len(ids) for ids in loaded.tokenizer(list(texts), truncation=True, max_length=cap)["input_ids"]]
    buckets: dict[int, list[int]] = {}
    for row, count in enumerate(counts):
        buckets.setdefault(min(cap, -(-count // LENGTH_STEP) * LENGTH_STEP), []).append(row)
    vectors = np.zeros((len(texts), model.dimension), np.float32)
    for length, rows in sorted(buckets.items()):
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            batch = [texts[row] for row in part] + [""] * (BATCH - len(part))
            features = loaded.tokenizer(
                batch, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
            )
            with torch.inference_mode():
                vectors[part] = loaded(dict(features))["sentence_embedding"].numpy()[: len(part)]
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    unit: np.ndarray = (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
    return unit


@pytest.fixture(scope="module")
def expected(model: SentenceTransformerEmbedder) -> np.ndarray:
    """Return the vectors of the texts as version 0.1 computed them."""
    return _in_one_thread_after_another(model, TEXTS)


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep four other processes busy during the test."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.parametrize("threads", [1, 4])
def test_encode_any_team_gives_the_bits_of_version_0_1(
    model: SentenceTransformerEmbedder, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(embedders, "team_size", lambda: threads)
    assert model.encode(TEXTS).tobytes() == expected.tobytes()
    assert model.encode(TEXTS[:5]).tobytes() == expected[:5].tobytes()


@pytest.mark.usefixtures("busy")
def test_encode_beside_other_load_gives_the_same_bits(model: SentenceTransformerEmbedder, expected: np.ndarray) -> None:
    assert model.encode(TEXTS).tobytes() == expected.tobytes()


def test_encode_in_a_team_pads_each_batch_to_its_own_length(
    model: SentenceTransformerEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    loaded = model._load()

    class Shape:
        """Returns unit vectors whose axis is the padded length of the batch."""

        tokenizer, max_seq_length = loaded.tokenizer, loaded.max_seq_length

        def __call__(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            rows, length = features["input_ids"].shape
            return {"sentence_embedding": torch.eye(model.dimension)[length].expand(rows, -1)}

    class Shaped(SentenceTransformerEmbedder):
        """Uses :class:`Shape` in place of the model."""

        def _load(self) -> Shape:
            return Shape()

    monkeypatch.setattr(embedders, "team_size", lambda: 8)
    # With its first and last token, each text is one token shorter than the padded length.
    lengths = list(range(LENGTH_STEP, 256, LENGTH_STEP))
    texts = ["build " * (length - 3) for length in lengths]
    for _ in range(30):
        assert Shaped().encode(texts).argmax(axis=1).tolist() == lengths


def test_encode_restores_the_number_of_torch_threads(model: SentenceTransformerEmbedder) -> None:
    import torch

    def of_a_new_thread() -> int:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return found[0]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        model.encode(TEXTS[:20])
        assert (torch.get_num_threads(), of_a_new_thread()) == (3, 3)
    finally:
        torch.set_num_threads(before)


EMBEDS = """
import sys
from lab.embedding.embedder import SentenceTransformerEmbedder
from lab.embedding.vectors import Vectors

Vectors(SentenceTransformerEmbedder()).prepare(
    [f"fact {number}: the gateway listens on port {number}" for number in range(int(sys.argv[1]))],
    lambda said: print(said, flush=True),
)
"""
MANY = 20_000


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_prepare_interrupted_keeps_the_announced_vectors(
    model: SentenceTransformerEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    # Children of a shell's background job inherit an ignored SIGINT.
    program = f"from signal import *; signal(SIGINT, default_int_handler)\n{EMBEDS}"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(MANY)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    heard: list[int] = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            found = re.match(r"embedded (\d+) of", line)
            heard.append(int(found[1]) if found else 0)
            if sum(done > 0 for done in heard) == 2:
                break
        process.send_signal(end)
        process.communicate(timeout=60)
    assert process.returncode == -end
    done = heard[-1]
    assert 0 < done < MANY, "the process ended before it was interrupted"
    texts = [f"fact {number}: the gateway listens on port {number}" for number in range(MANY)]
    vectors = Vectors(model)
    kept = vectors.recompute(texts, 20)
    assert kept == Recomputed(20, kept.lacking, {})
    assert MANY - kept.lacking >= done
    # A growing chunk replaces its smaller versions, so there are few files.
    assert len(list((tmp_path / "vectors").rglob("*.arrow"))) <= -(-MANY // 512)


def test_prepare_reports_progress_while_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: SentenceTransformerEmbedder
) -> None:
    class Slow(SentenceTransformerEmbedder):
        """Takes longer over a batch than the interval of progress reports."""

        def _load(self) -> object:
            return model._load()

        def _embed(self, texts: Sequence[str], length: int, role: embedders.Role) -> np.ndarray:
            time.sleep(1.7)
            return super()._embed(texts, length, role)

    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "WRITE_AFTER", 1.5)
    monkeypatch.setattr(embedders, "TICK", 0.1)
    heard: list[str] = []
    Vectors(Slow()).prepare(["one text"], heard.append)
    assert [re.sub(r"\d+ s|\d+ a second", "n", said) for said in heard] == [
        "embedding 1 texts",
        "embedded 0 of 1 texts (n so far, loading the model)",
        "embedded 1 of 1 texts in n (n)",
    ]


def _raising(at: int, begun: list[int]) -> Callable[[int], int]:
    def work(job: int) -> int:
        begun.append(job)
        if job == at:
            raise MemoryError("no more")
        return job

    return work


def test_each_done_yields_each_job_once_and_none_when_idle() -> None:
    def work(job: int) -> int:
        time.sleep(3 * TICK if job == 7 else 0)
        return job * job

    found = list(each_done(work, range(40), 3))
    assert sorted(one for one in found if one) == [(job, job * job) for job in range(40)]
    assert None in found
    assert list(each_done(work, [], 3)) == []


def test_each_done_failing_job_starts_no_other() -> None:
    begun: list[int] = []
    with pytest.raises(MemoryError, match="no more"):
        list(each_done(_raising(5, begun), range(1000), 2))
    assert len(begun) < 20
    assert not [one for one in threading.enumerate() if one.name.startswith("embedding")]
