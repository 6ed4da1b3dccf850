"""The cache of search candidates of conversations, keyed by everything that they depend on.

A recall searches the memories that exist at its recall point. So candidates are a function of the memories (searched
text, time of creation, scope, label and row order), of the recall points (query and scope), of tokenisation and
embedding, and of the code that searches. Policies, quotas, penalties and budgets do not change them: hundreds of
configurations can select from one retrieval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from lab.base.code import code_key
from lab.base.errors import LabError
from lab.base.files import digest
from lab.base.utf16 import utf8_pieces
from lab.embedding.cache import cache_folder
from lab.embedding.embedder import embedder_key
from lab.recordings.model import Memory, Recording
from lab.replay.loop import ask_of
from lab.replay.plan import Plan
from lab.replay.recall_points import RecallPoint
from lab.retrieval.candidates import KIND, VERSION, CachedRetriever, Candidates, read_candidates, served_by
from lab.retrieval.contract import scan_score, vector_score
from lab.retrieval.faults import FaultPlan
from lab.retrieval.query_context import Retrieval
from lab.retrieval.retrievers import StoreRetriever
from lab.retrieval.row import Row
from lab.systems.contract import Searches
from lab.systems.kit import Rows, Search
from lab.systems.registry import modules_of

# Packages whose version may change candidates: LanceDB tokenises, numpy computes distances.
PACKAGES = ("lancedb", "numpy")
# The modules that search and embed for all arms. An arm chooses what is searched, which is part of every entry's key.
ROOTS = ("lab.replay.candidates", "lab.replay.sources")


def is_cacheable(plan: Plan) -> bool:
    """Return whether candidates may be cached: not for the live store, which is timed, nor with injected faults."""
    return plan.request.store == "exact" and not plan.request.faults


def candidates_path(
    plan: Plan, recording: Recording, rows: Sequence[Row], recall_points: Sequence[RecallPoint], retrieval: Retrieval
) -> Path:
    """Return the cache path of the candidates of one conversation under one retrieval, existing or not."""
    no_faults = FaultPlan()
    searched = [
        part
        for memory, row in zip(recording.memories, rows, strict=True)
        for part in (
            row.id,
            row.index_text,
            row.scope,
            row.importance_label,
            _span(memory),
            str(row.position),
            str(row.embedded),
        )
    ]
    queries = [
        part
        for point in recall_points
        for part in (point.text, str(point.seq), ask_of(point, plan.scoping, no_faults).scope or "")
    ]
    name = digest(
        {
            "text": [asdict(retrieval.text), retrieval.text.identity()],
            "clamp": asdict(retrieval.clamp),
            "embedder": embedder_key(plan.embedder),
            "searched": _sha256(searched),
            "asked": _sha256(queries),
            **({"vectors": plan.vectors.sha256} if plan.vectors else {}),
        }
    )
    return cache_folder() / "candidates" / search_key() / f"{name[:32]}.arrow"


def _span(memory: Memory) -> str:
    """Return when a memory is visible, as ``FROM`` or ``FROM-UNTIL``."""
    return str(memory.visible_from) if memory.visible_until is None else f"{memory.visible_from}-{memory.visible_until}"


Cached = dict[Retrieval, Candidates]


def is_cached(plan: Plan, recording: Recording) -> bool:
    """Return whether the cache has candidates for all arms, so that a conversation's texts need no vectors."""
    if not is_cacheable(plan) or not all(isinstance(arm, Searches) and arm.shares for arm in plan.arms):
        return False
    rows, points = rows_of(plan, recording), plan.recall_points_of(recording)
    return all(
        served_by(candidates_path(plan, recording, rows, points, retrieval)).issuperset(names)
        for retrieval, names in signatures(plan).items()
    )


def rows_of(plan: Plan, recording: Recording) -> list[Row]:
    """Return the memories of one conversation as rows of the search."""
    return Rows().of(plan.memories_of(recording))


def signatures(plan: Plan) -> dict[Retrieval, set[str]]:
    """Return hashes of the arms that share a search, by retrieval; equal arms of equal code send equal queries."""
    hashes: dict[Retrieval, set[str]] = {}
    for arm, spec, info in zip(plan.arms, plan.specs, plan.infos, strict=True):
        if isinstance(arm, Searches) and arm.shares:
            code = code_key(*modules_of(arm, spec.system))
            hashes.setdefault(arm.retrieval, set()).add(digest([asdict(info), code])[:16])
    return hashes


def read_cached(plan: Plan, recording: Recording) -> Cached:
    """Return the cached candidates of a conversation by retrieval; empty candidates where none are cached."""
    if not is_cacheable(plan):
        return {}
    rows, points = rows_of(plan, recording), plan.recall_points_of(recording)
    return {
        retrieval: read_candidates(
            candidates_path(plan, recording, rows, points, retrieval),
            scan_score if retrieval.text.lane == "scan" else vector_score,
        )
        for retrieval in dict.fromkeys(arm.retrieval for arm in plan.arms if isinstance(arm, Searches) and arm.shares)
    }


def answers_all_arms(plan: Plan, cached: Cached) -> bool:
    """Return whether candidates suffice for all arms."""
    if not all(isinstance(arm, Searches) and arm.shares for arm in plan.arms):
        return False
    return all(
        retrieval in cached and cached[retrieval].served.issuperset(names)
        for retrieval, names in signatures(plan).items()
    )


def from_cached(cached: Cached, make_live: Callable[[Retrieval], StoreRetriever]) -> Callable[[Retrieval], Search]:
    """Return a factory of searches that answer from the cache, and from a live search where it lacks an answer."""

    def make(retrieval: Retrieval) -> Search:
        if retrieval not in cached:
            return make_live(retrieval)
        return CachedRetriever(cached[retrieval], lambda: make_live(retrieval))

    return make


def save_cached(plan: Plan, recording: Recording, cached: Cached) -> None:
    """Write changed candidates to the cache."""
    if any(candidates.changed for candidates in cached.values()):
        rows, points = rows_of(plan, recording), plan.recall_points_of(recording)
        for retrieval, candidates in cached.items():
            if candidates.changed:
                # The cache only saves time, so a read-only folder is not an error.
                with suppress(LabError):
                    candidates.save(candidates_path(plan, recording, rows, points, retrieval))


def _sha256(parts: Sequence[str]) -> str:
    """Return the hash of a list of texts; their lengths make the concatenation unambiguous."""
    result = hashlib.sha256(",".join(str(len(part)) for part in parts).encode())
    for part in parts:
        for piece in utf8_pieces(part):
            result.update(piece)
    return result.hexdigest()


@cache
def search_key() -> str:
    """Return a short hash of the code and the packages that candidates depend on, whatever the arms."""
    return digest([KIND, VERSION, code_key(*ROOTS), {name: version(name) for name in PACKAGES}])[:16]
