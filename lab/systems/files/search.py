"""The host's hybrid search over the index: two lanes, one score from 0 to 1, and what it returns (HB-5, HB-6)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from lab.base.regex import regex
from lab.retrieval.faults import NO_FAULTS, NO_VECTOR, Faults
from lab.systems.files.index import FileIndex, Indexed, keywords, match_of, query_words
from lab.systems.files.settings import Settings

if TYPE_CHECKING:
    import numpy as np

# The most candidates of a lane, whatever is requested.
MOST_CANDIDATES, CANDIDATES_PER_RESULT = 200, 4
# Parts of the word score beside BM25: share of the query's words, their density, a word in the path, length.
COVERED, DENSE, IN_PATH, LONG, LONG_CHARS = 0.45, 0.2, 0.18, 0.18, 160
DAY_MS = 86_400_000
_DATED = regex(r"(?:^|/)memory/(?:[^/]+/)*(\d{4})-(\d{2})-(\d{2})(?:-[^/]+)?\.md")


class Hit(NamedTuple):
    """A chunk that a search found.

    ``score`` is the score by which it is ranked, ``vector`` and ``words`` the scores of the lanes (0 where a lane did
    not find it), and ``fts_rank`` and ``vec_rank`` its ranks in them, from 1.
    """

    row: int
    indexed: Indexed
    score: float
    vector: float = 0.0
    words: float = 0.0
    fts_rank: int | None = None
    vec_rank: int | None = None


class Found(NamedTuple):
    """The results that the host returns, and every candidate in the order of the host."""

    results: Sequence[Hit]
    candidates: Sequence[Hit]
    fts: int
    vec: int


def search(index: FileIndex, text: str, limit: int, min_score: float, now_ms: int, faults: Faults = NO_FAULTS) -> Found:
    """Search for a text and return at most ``limit`` results.

    Without a vector of the query, the words alone rank. A lane that fails finds nothing.
    """
    return selected(index, candidates(index, text, depth_of(index, limit), now_ms, faults), limit, min_score, faults)


def depth_of(index: FileIndex, limit: int) -> int:
    """Return how many candidates each lane returns for ``limit`` results."""
    return min(MOST_CANDIDATES, index.settings.release.candidates or limit * CANDIDATES_PER_RESULT)


def selected(index: FileIndex, found: Found, limit: int, min_score: float, faults: Faults = NO_FAULTS) -> Found:
    """Return candidates with the results of them that the host returns."""
    without = any(fault in faults for fault in NO_VECTOR)
    return found._replace(results=_selected(found.candidates, limit, min_score, index.settings, no_vector=without))


def candidates(index: FileIndex, text: str, depth: int, now_ms: int, faults: Faults = NO_FAULTS) -> Found:
    """Return the candidates of a text, ranked, and no results."""
    settings, release = index.settings, index.settings.release
    text = query_of(text)
    no_vector = any(fault in faults for fault in NO_VECTOR)
    by_words = {} if "fts_error" in faults else _words(index, text, depth, by_keywords=release.keywords or no_vector)
    near = [] if no_vector or "vector_error" in faults or not text else index.by_meaning(text, depth)
    vectors = {row: (rank, cosine) for rank, (row, cosine) in enumerate(near, 1)}
    fts_ranks = {row: rank for rank, row in enumerate(by_words, 1)}
    hits = []
    for row in dict.fromkeys([*vectors, *by_words]):
        vec_rank, cosine = vectors.get(row, (None, 0.0))
        words = by_words.get(row, 0.0)
        score = words if no_vector else settings.vector_weight * cosine + settings.text_weight * words
        indexed = index.chunks[row]
        hits.append(Hit(row, indexed, score, cosine, words, fts_ranks.get(row), vec_rank))
    if release.decay:
        hits = [hit._replace(score=hit.score * _recency(index, hit, now_ms, release.decay)) for hit in hits]
    hits.sort(key=lambda hit: (-hit.score, hit.indexed.order))
    if release.mmr is not None and not no_vector:
        hits = diverse(hits, release.mmr, index.numbers)
    return Found((), hits, len(by_words), len(vectors))


def query_of(prompt: str) -> str:
    """Return what is searched for with a prompt."""
    return prompt.strip()


def _words(index: FileIndex, text: str, depth: int, *, by_keywords: bool) -> dict[int, float]:
    """Return the scores of the chunks that hold the words, best first, at most ``depth``."""
    settings, query = index.settings, query_words(text)
    scores: dict[int, float] = {}
    queries = [query]
    while queries:
        words = queries.pop(0)
        short = [word for word in words if len(word) < 3] if settings.tokenizer == "trigram" else []
        match = match_of([word for word in words if word not in short])
        for row, bm25 in index.by_words(match, short, depth) if words else ():
            score = bm25 / (1 + bm25) if bm25 > 0 else 0.0
            if by_keywords and match:
                score = min(1.0, score + _coverage(index.chunks[row], frozenset(query)))
            scores[row] = max(scores.get(row, 0.0), score)
        if words is query and by_keywords and len(scores) < depth:
            queries = [query_words(word) for word in keywords(text, settings.tokenizer)]
    best = sorted(scores, key=lambda row: (-scores[row], index.chunks[row].order))[:depth]
    return {row: scores[row] for row in best}


def _coverage(indexed: Indexed, query: frozenset[str]) -> float:
    """Return what the host adds to BM25 for the words of the query that the chunk and its path hold."""
    covered, path = len(query & indexed.words), indexed.chunk.path.lower()
    return (
        COVERED * covered / len(query)
        + DENSE * covered / max(1, len(indexed.words))
        + IN_PATH * sum(word in path for word in query)
        + min(LONG, len(indexed.text) / LONG_CHARS)
    )


def _recency(index: FileIndex, hit: Hit, now_ms: int, half_life: float) -> float:
    """Return the factor of age: dated files by their date, transcripts by their last message, others not at all."""
    chunk = hit.indexed.chunk
    since = index.folder.files[chunk.path].changed_ms if chunk.source == "sessions" else dated_ms(chunk.path)
    return 1.0 if since is None else 0.5 ** (max(0.0, (now_ms - since) / DAY_MS) / half_life)


def dated_ms(path: str) -> int | None:
    """Return the date in the name of a file below ``memory/``, in epoch milliseconds; None for other files."""
    match = _DATED.fullmatch(path)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000


def diverse(hits: Sequence[Hit], weight: float, numbers: dict[str, int]) -> list[Hit]:
    """Return the hits in the order of maximal marginal relevance: scores in 0 to 1, less the likeness to those before.

    Likeness is the Jaccard similarity of the words of the snippets, which ``numbers`` numbers. Scores do not change.
    """
    import numpy as np

    if len(hits) < 2:
        return list(hits)
    scores = np.array([hit.score for hit in hits])
    spread = scores.max() - scores.min()
    relevance = (scores - scores.min()) / spread if spread else np.ones(len(hits))
    alike = _likeness([_bits(hit.indexed, numbers) for hit in hits])
    nearest, left = np.zeros(len(hits)), np.ones(len(hits), bool)
    order: list[Hit] = []
    for _ in hits:
        # The first of equals has the highest score.
        best = int(np.argmax(np.where(left, weight * relevance - (1 - weight) * nearest, -np.inf)))
        order.append(hits[best])
        left[best] = False
        nearest = np.maximum(nearest, alike[best])
    return order


def _bits(indexed: Indexed, numbers: dict[str, int]) -> int:
    """Return the words of a snippet as the bits of a number."""
    if indexed.bits is None:
        indexed.bits = sum(1 << numbers.setdefault(word, len(numbers)) for word in indexed.parts)
    return indexed.bits


def _likeness(words: Sequence[int]) -> np.ndarray:
    """Return the Jaccard similarity of each pair; two sets without words are alike if both are empty."""
    import numpy as np

    # A product of matrices over all words took most of a search, and its threads waited for each other.
    half = np.zeros((len(words), len(words)), np.float32)
    for row, bits in enumerate(words):
        half[row, : row + 1] = [(bits & other).bit_count() for other in words[: row + 1]]
    sizes = half.diagonal()
    both = half + half.T - np.diag(sizes)
    either = sizes[:, None] + sizes[None, :] - both
    alike: np.ndarray = np.where(either > 0, both / np.maximum(either, 1), 1.0)
    return alike


def _selected(hits: Sequence[Hit], limit: int, min_score: float, settings: Settings, *, no_vector: bool) -> list[Hit]:
    """Return what the host returns: hits of at least ``min_score``, and its exceptions for the words (HB-6)."""
    strict = [hit for hit in hits if hit.score >= min_score][:limit]
    if not strict:
        return [hit for hit in hits if hit.fts_rank is not None and hit.score >= 0][:limit]
    if settings.release.fill and not no_vector:
        strict += [hit for hit in hits if hit.score < min_score and hit.vec_rank is None]
    return strict[:limit]
