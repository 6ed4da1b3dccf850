"""The docs cold lane (E-47): a few citations from the operator's documents if recall found too few memories.

A scope limits the repos that are searched, and each result is checked against it. For a replay, the index is updated
once, and every worker gets a copy.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.errors import CannotMeasure, LabError
from lab.base.regex import regex
from lab.base.utf16 import WHITESPACE, js_length, js_slice
from lab.embedding.embedder import DOCUMENT, QUERY, Embedder, Role, VectorsOf, role_key
from lab.recordings.model import GLOBAL
from lab.systems.kit import Workshop
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.globs import plan_ingest
from lab.systems.openclaw.docs.index import DocRow, DocsIndex, Embed, SearchTimeout
from lab.systems.openclaw.recall.receipt import marker
from lab.systems.openclaw.table.admin import numbered

if TYPE_CHECKING:
    import numpy as np


ScopeMap = Mapping[str, Sequence[str]]
_REMNANT = regex(r"\A\[?(?:iso|scope):")


def scope_token(scope: str) -> str:
    """Return a scope in lower case without remnants of a tag: a leading ``[scope:``, slashes, a closing bracket."""
    token = _REMNANT.sub("", scope.strip(WHITESPACE).lower())
    return token.lstrip("/").rstrip("]").strip(WHITESPACE)


def is_scoped(scope: str) -> bool:
    """Whether a scope narrows the search: it is neither empty nor ``global``."""
    return scope_token(scope) not in ("", GLOBAL)


def short_key(token: str) -> str:
    """Return the first segment of a scope token, split at ``/`` and ``:``; the full token if that is empty.

    The plugin removes remnants of a tag again: ``scope:iso:a`` has the token ``iso:a`` and the segment ``a``.
    """
    token = scope_token(token)
    return re.split("[/:]", token, maxsplit=1)[0] or token


def pushdown_repos(scope: str, strategy: str, scope_map: ScopeMap) -> list[str]:
    """Return the repos that the search is limited to; empty means all.

    ``repo_prefix``: the scope's first segment. ``map``: the entries mapped to the scope, then those of its first
    segment, except folders; unique ignoring case. Other strategies set no limit.
    """
    if not is_scoped(scope):
        return []
    if strategy == "repo_prefix":
        return [key for key in (short_key(scope_token(scope)),) if key]
    if strategy != "map":
        return []
    repos: dict[str, str] = {}
    for entry in _mapped(scope_token(scope), scope_map):
        if "/" not in entry:
            repos.setdefault(entry.lower(), entry)
    return list(repos.values())


def matches_scope(repo: str, path: str, scope: str, strategy: str, scope_map: ScopeMap) -> bool:
    """Whether a document belongs to a scope. Case is ignored.

    Without a scope, and under ``none`` or an unknown strategy, every document does. Under ``map``, an unmapped scope
    matches nothing.
    """
    if not is_scoped(scope):
        return True
    token, repo, path = scope_token(scope), repo.lower(), path.lower()
    if strategy == "repo_prefix":
        key = short_key(token)
        return not key or _inside(repo, path, key)
    if strategy == "path_prefix":
        folder = token.replace(":", "/")
        return path == folder or path.startswith(f"{folder}/") or f"/{folder}/" in path
    if strategy == "map":
        entries = (entry.lower() for entry in _mapped(token, scope_map))
        return any(path == entry or _inside(repo, path, entry) for entry in entries)
    return True


def _inside(repo: str, path: str, name: str) -> bool:
    return repo == name or path.startswith(f"{name}/")


def _mapped(token: str, scope_map: ScopeMap) -> list[str]:
    """Return the entries of a scope, then those of its first segment, without leading slashes."""
    entries = [*scope_map.get(token, ()), *scope_map.get(short_key(token), ())]
    return [path for entry in entries if (path := entry.strip(WHITESPACE).lstrip("/"))]


MAX_OVERFETCH = 50
# The longest time that a turn waits for documents (E-49).
TIMEOUT_NS = 2_000_000_000
MIN_SNIPPET_CHARS, MAX_SNIPPET_CHARS = 80, 1200
INDEX_NAME = "docs.sqlite"
INDEX_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_SPACES = regex(f"[{WHITESPACE}]+")


class DocHit(NamedTuple):
    """A citation. ``text`` is a snippet; ``match`` names the lanes that returned it: ``fts``, ``vector`` or both.

    The operator wrote every document, so the last two fields are the same for all (seed 001).
    """

    record_ref: str
    doc_kind: str
    text: str
    title: str
    heading_path: str
    path: str
    repo: str
    score: float
    match: tuple[str, ...]
    source_kind: str = "operator"
    trust_tier: str = "trusted"


_LOGGED = (
    *("trigger", "scope", "requested", "returned", "filteredByScope", "rawCandidates", "scopedCandidates"),
    *("pushdownRepos", "pushdownApplied", "strategy", "error"),
)


class DocsFound(NamedTuple):
    """The hits in order, and the receipt, which contains no text."""

    hits: tuple[DocHit, ...]
    receipt: dict[str, Any]

    def mark(self) -> str:
        """Return the line of the log: the receipt as the plugin logs it, without the path of its database."""
        return marker("docsColdLane.search", {name: self.receipt.get(name) for name in _LOGGED})


class DocsLane:
    """Searches an index with the settings of ``docsColdLane``; without ``vectors``, by words alone.

    ``clock`` returns nanoseconds from any origin; with a clock, searches time out after two seconds. A replay passes
    none, because results must not depend on the speed of the machine.
    """

    def __init__(
        self,
        settings: DocsSettings,
        index: DocsIndex | None,
        *,
        vectors: bool = True,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.settings = settings
        self.index = index
        self._vectors = vectors
        self._clock = clock

    def close(self) -> None:
        """Close the index."""
        if self.index is not None:
            self.index.close()

    def needed(self, hot: int) -> bool:
        """Whether there are too few hot items, so that the lane is consulted."""
        return self.settings.enabled and hot < self.settings.min_hot_items

    def consult(self, query: str, scope: str, requested: int, *, trigger: str) -> DocsFound:
        """Return the best documents for a query within a scope. The receipt says in ``error`` what failed, else null.

        ``trigger`` is ``insufficient_hot`` or ``manual``; the receipt of a disabled lane says ``disabled``. At least
        one document is requested and at most ``maxItems``. Within a scope the search requests more than it returns,
        because the scope check may drop some.
        """
        settings = self.settings
        if not settings.enabled:
            return DocsFound((), self._receipt(scope, requested, "disabled"))
        limit = max(1, min(settings.max_items, requested))
        receipt = self._receipt(scope, limit, trigger) | {"error": None}
        if not query.strip(WHITESPACE):
            return DocsFound((), receipt | {"error": "empty_query"})
        strategy, scope_map = settings.scope_mapping_strategy, dict(settings.scope_map)
        try:
            repos = pushdown_repos(scope, strategy, scope_map)
            receipt |= {"pushdownRepos": repos, "pushdownApplied": bool(repos)}
            rows = self._search(query.strip(WHITESPACE), scope, limit, repos)
            kept = [row for row in rows if matches_scope(row.repo, row.path, scope, strategy, scope_map)]
            hits = tuple(self._hit(row) for row in kept[:limit])
        except SearchTimeout:
            return DocsFound((), receipt | {"error": "docs_search_timeout"})
        except Exception:
            # Whatever fails here, the turn continues without documents.
            return DocsFound((), receipt | {"error": "docs_search_failed"})
        counts = {"rawCandidates": len(rows), "scopedCandidates": len(kept)}
        return DocsFound(hits, receipt | {"returned": len(hits), "filteredByScope": len(rows) - len(kept)} | counts)

    def _receipt(self, scope: str, requested: int, trigger: str) -> dict[str, Any]:
        """Return the receipt of a search without results."""
        return {
            "enabled": self.settings.enabled,
            "consulted": self.settings.enabled,
            "trigger": trigger,
            "scope": scope,
            "strategy": self.settings.scope_mapping_strategy,
            "requested": requested,
            **dict.fromkeys(("returned", "filteredByScope", "rawCandidates", "scopedCandidates"), 0),
            "pushdownRepos": [],
            "pushdownApplied": False,
            "sourceRootsCount": len(self.settings.source_roots),
        }

    def _search(self, query: str, scope: str, limit: int, repos: list[str]) -> tuple[DocRow, ...]:
        if self.index is None:
            raise LookupError("there is no index")
        settings = self.settings
        depth = overfetch(limit, settings) if is_scoped(scope) else limit
        return self.index.search(
            query,
            limit=depth,
            fts_k=max(depth, settings.search_fts_k),
            vec_k=max(depth, settings.search_vec_k),
            rrf_k=settings.search_rrf_k,
            repos=repos,
            vectors=self._vectors,
            expired=self._expiry(),
        ).rows

    def _expiry(self) -> Callable[[], bool] | None:
        if self._clock is None:
            return None
        clock, end = self._clock, self._clock() + TIMEOUT_NS
        return lambda: clock() > end

    def _hit(self, row: DocRow) -> DocHit:
        text = snippet(row.text, self.settings.max_snippet_chars)
        citation = (row.title, row.heading_path, row.path, row.repo)
        return DocHit(row.record_ref, row.doc_kind, text, *citation, row.score, row.match)


def overfetch(limit: int, settings: DocsSettings) -> int:
    """Return how many rows a scoped search requests, so that enough remain after the scope check."""
    return max(limit, min(MAX_OVERFETCH, max(5 * limit, settings.search_fts_k, settings.search_vec_k)))


def snippet(text: str, max_chars: int) -> str:
    """Collapse white space and cut a text to ``max_chars`` UTF-16 units (80 to 1200) plus an ellipsis."""
    collapsed = _SPACES.sub(" ", text).strip(WHITESPACE)
    limit = max(MIN_SNIPPET_CHARS, min(MAX_SNIPPET_CHARS, max_chars))
    if js_length(collapsed) <= limit:
        return collapsed
    return js_slice(collapsed, limit) + "…"


def open_docs(
    settings: DocsSettings,
    folder_or_sqlite: Path,
    embed: Embed | None = None,
    *,
    model: str = "",
    ask: Embed | None = None,
) -> DocsIndex:
    """Update the index of the configured roots and open it.

    Unchanged content is neither written nor embedded again. ``folder_or_sqlite`` is a file (``.sqlite``, ``.sqlite3``,
    ``.db``) or a folder for one. Without roots the index stays unchanged. The receipt of the ingest is the index's
    ``last_ingest``. ``model`` names the embedder: vectors of another one are not used. ``ask`` embeds queries (default:
    ``embed``).
    """
    is_file = folder_or_sqlite.suffix.lower() in INDEX_SUFFIXES and not folder_or_sqlite.is_dir()
    index = DocsIndex(folder_or_sqlite if is_file else folder_or_sqlite / INDEX_NAME, embed, model, ask=ask)
    try:
        index.ingest(
            plan_ingest(settings), max_chunk_chars=settings.max_chunk_chars, with_vectors=settings.embed_on_ingest
        )
    except BaseException:
        index.close()
        raise
    return index


def shown_doc(hit: DocHit, *, upstream: bool) -> dict[str, Any]:
    """Return a citation as tools report it. The plugin's trust tier is operator; the documents require trusted."""
    return {
        "id": f"docs:{hit.record_ref}",
        "recordRef": hit.record_ref,
        "title": hit.title,
        "headingPath": hit.heading_path,
        "text": hit.text,
        "path": hit.path,
        "repo": hit.repo,
        "docKind": hit.doc_kind,
        "score": hit.score,
        "match": list(hit.match),
        "source_kind": hit.source_kind,
        "trust_tier": "operator" if upstream else hit.trust_tier,
    }


def docs_view(hits: tuple[DocHit, ...], mark: str = "") -> str:
    """Return citations as numbered lines, with ``mark`` behind their kind."""
    return numbered([f"[{hit.doc_kind}{mark}] {hit.text} ({hit.record_ref})" for hit in hits])


def open_lane(settings: DocsSettings, workshop: Workshop, folder: Path) -> DocsLane:
    """Build the index in a folder, from the documents as they are now, and announce how many it contains."""
    model = role_key(workshop.embedder, DOCUMENT)
    embed, failures = _embed_with(workshop.vectors, DOCUMENT), list[LabError]()

    def embed_noting_failures(texts: Sequence[str]) -> np.ndarray:
        try:
            return embed(texts)
        except LabError as error:
            failures.append(error)
            raise

    ask = _embed_with(workshop.vectors, QUERY)
    try:
        index = open_docs(settings, folder, embed_noting_failures, model=model, ask=ask)
    except sqlite3.Error as error:
        raise CannotMeasure(f"{folder}: the document index cannot be built: {error}") from None
    if failures:
        # The engine would continue without vectors, but the replay would then measure another engine.
        raise failures[0]
    lane = DocsLane(settings, index)
    workshop.announce(_summary(lane))
    return lane


def packed_lane(settings: DocsSettings, packed: bytes | None, embedder: Embedder, vectors: VectorsOf) -> DocsLane:
    """Open a lane from a copy of an index; only queries are embedded."""
    if packed is None:
        return DocsLane(settings, None)
    embed, ask = _embed_with(vectors, DOCUMENT), _embed_with(vectors, QUERY)
    return DocsLane(settings, DocsIndex(Path(":memory:"), embed, role_key(embedder, DOCUMENT), packed=packed, ask=ask))


def _summary(lane: DocsLane) -> str:
    """Return a sentence on how many documents a lane may cite, or why there are none."""
    ingest = lane.index.last_ingest if lane.index else {}
    if ingest.get("skipReason"):
        return f"documents: none ({ingest['skipReason']}); docsColdLane.sourceRoots are relative to the current folder"
    missing = ingest.get("missingRoots") or ()
    absent = f"; missing source roots: {', '.join(missing)}" if missing else ""
    replaced = f"; {count} replaced by files with the same citation" if (count := ingest.get("files_shadowed")) else ""
    return f"documents: {ingest.get('filesMatched', 0)} files{absent}{replaced}"


def _embed_with(vectors: VectorsOf, role: Role) -> Embed:
    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors.prepare(texts, role=role)
        return vectors.of(texts, role)

    return embed
