"""Where the candidates of a conversation are kept, named by everything that they depend on.

Recall at a moment searches what is born by then. So candidates are a function of the memories (what is searched of
them, when each is born, its scope, label and place in the table), of the moments (what is asked, in which scope), of
how both are made into words and vectors, and of the code that searches. Policies, quotas, penalties and budgets change
none of it: a hundred configurations select from one retrieval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path

from lab.embedding.cache import cache_folder
from lab.embedding.embedder import embedder_key
from lab.errors import LabError
from lab.files import digest
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
from lab.runs.code import code_key
from lab.systems.contract import Searches
from lab.systems.kit import Rows, Search
from lab.utf16 import utf8_pieces

# Whose version may change an answer: LanceDB makes the words, numpy the distances.
PACKAGES = ("lancedb", "numpy")


def can_be_kept(plan: Plan) -> bool:
    """Whether candidates may be kept: not of the live path, which is there to be timed, nor under a fault."""
    return plan.asked.store == "exact" and not plan.asked.faults


def candidates_path(
    plan: Plan, recording: Recording, rows: Sequence[Row], recall_points: Sequence[RecallPoint], retrieval: Retrieval
) -> Path:
    """Where the candidates of one conversation under one retrieval are, or will be."""
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
    asked = [
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
            "asked": _sha256(asked),
            **({"vectors": plan.vectors.sha256} if plan.vectors else {}),
        }
    )
    return cache_folder() / "candidates" / search_key() / f"{name[:32]}.arrow"


def _span(memory: Memory) -> str:
    """When a memory can be found."""
    return str(memory.visible_from) if memory.visible_until is None else f"{memory.visible_from}-{memory.visible_until}"


Kept = dict[Retrieval, Candidates]


def served(plan: Plan, recording: Recording) -> bool:
    """Whether all arms of a plan can be answered from what is kept, so that a conversation's texts need no vectors."""
    if not can_be_kept(plan) or not all(isinstance(arm, Searches) and arm.shares for arm in plan.arms):
        return False
    rows, happening = rows_of(plan, recording), plan.recall_points_of(recording)
    return all(
        served_by(candidates_path(plan, recording, rows, happening, retrieval)).issuperset(names)
        for retrieval, names in signatures(plan).items()
    )


def rows_of(plan: Plan, recording: Recording) -> list[Row]:
    """The memories of one conversation as they are searched."""
    return Rows().of(plan.memories_of(recording))


def signatures(plan: Plan) -> dict[Retrieval, set[str]]:
    """The arms that share their search, by how they search, each as a hash: an arm asks the same of the same."""
    found: dict[Retrieval, set[str]] = {}
    for arm, info in zip(plan.arms, plan.infos, strict=True):
        if isinstance(arm, Searches) and arm.shares:
            found.setdefault(arm.retrieval, set()).add(digest(asdict(info))[:16])
    return found


def read_kept(plan: Plan, recording: Recording) -> Kept:
    """What is kept for a conversation, by retrieval; empty candidates where nothing is."""
    if not can_be_kept(plan):
        return {}
    rows, happening = rows_of(plan, recording), plan.recall_points_of(recording)
    return {
        retrieval: read_candidates(
            candidates_path(plan, recording, rows, happening, retrieval),
            scan_score if retrieval.text.lane == "scan" else vector_score,
        )
        for retrieval in dict.fromkeys(arm.retrieval for arm in plan.arms if isinstance(arm, Searches) and arm.shares)
    }


def all_served(plan: Plan, kept: Kept) -> bool:
    """Whether candidates that were read can answer all arms."""
    if not all(isinstance(arm, Searches) and arm.shares for arm in plan.arms):
        return False
    return all(
        retrieval in kept and kept[retrieval].served.issuperset(names) for retrieval, names in signatures(plan).items()
    )


def from_kept(kept: Kept, make_live: Callable[[Retrieval], StoreRetriever]) -> Callable[[Retrieval], Search]:
    """A maker of searches that answer from what is kept, and ask a live one for the rest."""

    def make(retrieval: Retrieval) -> Search:
        if retrieval not in kept:
            return make_live(retrieval)
        return CachedRetriever(kept[retrieval], lambda: make_live(retrieval))

    return make


def save_kept(plan: Plan, recording: Recording, kept: Kept) -> None:
    """Keep candidates that have changed."""
    if any(candidates.changed for candidates in kept.values()):
        rows, happening = rows_of(plan, recording), plan.recall_points_of(recording)
        for retrieval, candidates in kept.items():
            if candidates.changed:
                # What is kept saves time and is worth no failure: a cache may be read-only.
                with suppress(LabError):
                    candidates.save(candidates_path(plan, recording, rows, happening, retrieval))


def _sha256(parts: Sequence[str]) -> str:
    """Hash of texts; their lengths keep apart what joining would confuse."""
    found = hashlib.sha256(",".join(str(len(part)) for part in parts).encode())
    for part in parts:
        for piece in utf8_pieces(part):
            found.update(piece)
    return found.hexdigest()


@cache
def search_key() -> str:
    """A short name for whatever searches here: this version's code, and the packages below it.

    All code on the way counts, not the search alone: an edit anywhere there must never be answered with what is stale.
    """
    return digest([KIND, VERSION, code_key(), {name: version(name) for name in PACKAGES}])[:16]
