"""Evidence that disagrees with what a pack includes (seed 003, PK-7): by references, or by rules over clauses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice
from typing import NamedTuple

from lab.memory.pack.candidate import Candidate
from lab.retrieval.sentence_words import Sentence, clauses

# Two clauses speak of one thing if they share at least two words of the query, and half of its words. They differ in a
# value only if they also share this share of the words of the shorter one.
SHARED, HALF, ALIKE = 2, 0.5, 0.6
# So many clauses of a candidate are compared, and so many of all that are included, or of all others.
MOST_CLAUSES, MOST_OF_ALL = 64, 1024
DECLARED, NEGATED, CHANGED = "declared", "negation", "changed_value"


class Dissent(NamedTuple):
    """A candidate that disagrees with an included one, how (:data:`DECLARED` and so on), and how well they match."""

    candidate: Candidate
    against: str
    how: str
    likeness: float


def dissents(included: Sequence[Candidate], others: Sequence[Candidate], terms: frozenset[str]) -> list[Dissent]:
    """Return the ``others`` that disagree with an included candidate, the closest match first.

    ``terms`` are the stems of the query. Each is paired with the included candidate that it matches most closely.
    """
    spoken = [(ref, claim) for ref, said in _claims(included, terms).items() for claim in said]
    own = _claims(others, terms)
    contradicted = {ref: one.ref for one in included for ref in one.contradicts}
    refs = {one.ref for one in included}
    found: list[Dissent] = []
    for other in others:
        named = next((ref for ref in (*other.contradicts, *other.supersedes) if ref in refs), None)
        named = named or contradicted.get(other.ref)
        if named is not None:
            found.append(Dissent(other, named, DECLARED, 1.0))
            continue
        pairs = [
            (likeness, ref, how)
            for claim in own[other.ref]
            for ref, said in spoken
            for how, likeness in (compared(claim, said, terms),)
            if how
        ]
        if pairs:
            likeness, ref, how = max(pairs, key=lambda pair: pair[0])
            found.append(Dissent(other, ref, how, likeness))
    return sorted(found, key=lambda one: (one.how != DECLARED, -one.likeness))


def is_balanced(included: Sequence[Candidate], terms: frozenset[str]) -> bool:
    """Return whether two included candidates already disagree, so that no slot is needed."""
    refs = {one.ref for one in included}
    if any(refs.intersection((*one.contradicts, *one.supersedes)) - {one.ref} for one in included):
        return True
    spoken = _claims(included, terms)
    return any(
        compared(claim, said, terms)[0]
        for one, other in combinations(spoken, 2)
        for claim in spoken[one]
        for said in spoken[other]
    )


def _claims(candidates: Sequence[Candidate], terms: frozenset[str]) -> dict[str, list[Sentence]]:
    """Return, by ref, the first clauses of candidates that are about the subject of the query."""
    found: dict[str, list[Sentence]] = {}
    left = MOST_OF_ALL
    for one in candidates:
        about = (clause for clause in clauses(one.text) if _covers(clause.stems, terms))
        found[one.ref] = list(islice(about, min(MOST_CLAUSES, left)))
        left -= len(found[one.ref])
    return found


def _covers(found: frozenset[str], terms: frozenset[str]) -> bool:
    """Return whether stems include enough of those of a query."""
    return len(found & terms) >= max(SHARED, HALF * len(terms))


def compared(first: Sentence, second: Sentence, terms: frozenset[str]) -> tuple[str, float]:
    """Return how two clauses disagree ("": they do not), and their similarity, from 0 to 1.

    They disagree if only one of them denies something, or if they share most words and no number.
    """
    if not _covers(first.stems & second.stems, terms):
        return "", 0.0
    shorter = min(len(first.stems - first.values), len(second.stems - second.values))
    alike = len((first.stems & second.stems) - first.values - second.values) / max(1, shorter)
    if first.is_negated != second.is_negated:
        return NEGATED, alike
    changed = bool(first.values and second.values) and first.values.isdisjoint(second.values)
    return (CHANGED, alike) if changed and alike >= ALIKE else ("", alike)
