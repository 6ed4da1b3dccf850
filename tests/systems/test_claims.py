"""The stand-ins of the trials of the documents' claims (docs/claims.md): what they change and what they keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lab.embedding.embedder import DOCUMENT, QUERY, HashingEmbedder
from lab.embedding.vectors import Vectors
from lab.recordings import read
from tests.trials.lanes import Hit, difference, mean_of
from tests.trials.switched_embedder import OLDER, Switched, rotated, truncated
from tests.trials.translated_memories import OPERATORS, latin_only, with_memories_of

TEXTS = [f"text number {number} of {number % 7}" for number in range(300)]


def vectors_of_texts() -> Vectors:
    vectors = Vectors(HashingEmbedder())
    vectors.prepare(TEXTS)
    return vectors


def test_rotated_keeps_every_distance_and_leaves_the_space() -> None:
    vectors = vectors_of_texts().of(TEXTS)
    turned = rotated(TEXTS, vectors)
    assert np.allclose(turned @ turned.T, vectors @ vectors.T, atol=1e-5)
    assert np.abs((turned * vectors).sum(axis=1)).mean() < 0.2
    assert np.array_equal(turned, rotated(TEXTS, vectors))


def test_every_stand_in_makes_unit_vectors_from_text_or_vector_alone() -> None:
    vectors = vectors_of_texts().of(TEXTS)
    for name, older in OLDER.items():
        made = older(TEXTS, vectors)
        assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5), name
        assert np.allclose(older(TEXTS[5:6], vectors[5:6]), made[5:6], atol=1e-6), name


def test_switched_changes_a_growing_share_of_documents_and_no_query() -> None:
    vectors = vectors_of_texts()
    plain = vectors.of(TEXTS)
    changed = []
    for share in (0.0, 0.25, 0.5, 1.0):
        switched = Switched(vectors, truncated, share)
        assert np.array_equal(switched.of(TEXTS, QUERY), plain)
        # 64 dimensions are fewer than the stand-in keeps, so a rotation shows what is old.
        old = Switched(vectors, rotated, share).of(TEXTS, DOCUMENT)
        changed.append({row for row in range(len(TEXTS)) if not np.array_equal(old[row], plain[row])})
    assert [len(rows) for rows in changed][::3] == [0, len(TEXTS)]
    assert 50 < len(changed[1]) < 100 < len(changed[2]) < 200
    assert changed[1] < changed[2] < changed[3]


def test_latin_only_keeps_what_a_translation_keeps() -> None:
    library = read(OPERATORS / "tea-mountain.jsonl", "lab")
    (recording,) = library.recordings
    changed = latin_only(recording)
    assert [memory.key for memory in changed.memories] == [memory.key for memory in recording.memories]
    assert [memory.text for memory in changed.memories] == [memory.text for memory in recording.memories]
    assert all(memory.index_text.isascii() and memory.index_text for memory in changed.memories)
    kept = [memory for memory in changed.memories if memory.index_text != "-"]
    assert len(kept) > 10
    assert all(word in memory.text for memory in kept for word in memory.index_text.split())


def test_memories_of_both_languages_have_the_same_numbers(shared: Callable[..., Path]) -> None:
    folder = shared("data", "madial")
    english, chinese = read(folder, "madial").recordings
    crossed = with_memories_of(english, chinese)
    assert len(crossed.memories) == len(english.memories)
    texts = {memory.key.partition("#")[2]: memory.text for memory in chinese.memories}
    assert [memory.text for memory in crossed.memories] == [
        texts[one.key.partition("#")[2]] for one in english.memories
    ]
    assert crossed.turns == english.turns


def test_difference_is_paired_by_probe() -> None:
    base = [Hit("bm25", f"c{at % 7}", f"p{at}", float(at % 2)) for at in range(70)]
    more = [hit._replace(value=1.0) for hit in reversed(base)]
    estimate = difference(base, more, "bm25")
    assert estimate.mean == 0.5
    assert estimate.low is not None
    assert mean_of(base, "bm25").mean == 0.5
