"""The docs cold lane (E-47): bounded citations from the operator's documents where the hot lane is thin."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.globs import plan_ingest
from lab.systems.openclaw.docs.index import DocRow, DocsIndex, SearchTimeout
from lab.systems.openclaw.docs.scope import is_scoped, matches_scope, pushdown_repos
from lab.systems.openclaw.docs.vectors import Embed
from lab.utf16 import WHITESPACE, js_length, js_slice

MAX_OVERFETCH = 50
# A turn waits no longer for documents (E-49).
TIMEOUT_NS = 2_000_000_000
MIN_SNIPPET_CHARS, MAX_SNIPPET_CHARS = 80, 1200
INDEX_NAME = "docs.sqlite"
INDEX_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_SPACES = re.compile(f"[{WHITESPACE}]+")


class DocHit(NamedTuple):
    """A citation. ``text`` is a snippet; ``match`` names the lanes that found it, of ``fts`` and ``vector``."""

    record_ref: str
    doc_kind: str
    text: str
    title: str
    heading_path: str
    path: str
    repo: str
    score: float
    match: tuple[str, ...]


class DocsFound(NamedTuple):
    """The hits in order, and the receipt, which holds no text."""

    hits: tuple[DocHit, ...]
    receipt: dict[str, Any]


class DocsLane:
    """Consults an index under the settings of ``docsColdLane``.

    ``clock`` gives nanoseconds of any origin; with one, a search is given up after two seconds. A replay hands none:
    what it finds must not depend on how fast the machine is.
    """

    def __init__(
        self, settings: DocsSettings, index: DocsIndex | None, *, clock: Callable[[], int] | None = None
    ) -> None:
        self.settings = settings
        self.index = index
        self._clock = clock

    def needed(self, hot: int) -> bool:
        """Whether so few hot items make the lane worth asking."""
        return self.settings.enabled and hot < self.settings.min_hot_items

    def consult(self, query: str, scope: str, requested: int, *, trigger: str) -> DocsFound:
        """The best documents for a query within a scope. Whatever goes wrong becomes ``error`` in the receipt.

        ``trigger`` is ``insufficient_hot`` or ``manual``; a lane that is off says ``disabled`` instead. At most
        ``maxItems`` are returned, and at least one is asked for. In a scope more are searched than returned, for the
        check afterwards may drop some.
        """
        settings = self.settings
        receipt = self._receipt(scope, requested, trigger if settings.enabled else "disabled")
        if not settings.enabled:
            return DocsFound((), receipt)
        if not query.strip(WHITESPACE):
            return DocsFound((), receipt | {"error": "empty_query"})
        limit = max(1, min(settings.max_items, requested))
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
            # A turn goes on without documents, whatever happened to them.
            return DocsFound((), receipt | {"error": "docs_search_failed"})
        counts = {"rawCandidates": len(rows), "scopedCandidates": len(kept)}
        return DocsFound(hits, receipt | {"returned": len(hits), "filteredByScope": len(rows) - len(kept)} | counts)

    def _receipt(self, scope: str, requested: int, trigger: str) -> dict[str, Any]:
        """The receipt of a search that found nothing."""
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
            expired=self._expiry(),
        ).rows

    def _expiry(self) -> Callable[[], bool] | None:
        if self._clock is None:
            return None
        clock, end = self._clock, self._clock() + TIMEOUT_NS
        return lambda: clock() > end

    def _hit(self, row: DocRow) -> DocHit:
        text = snippet(row.text, self.settings.max_snippet_chars)
        place = (row.title, row.heading_path, row.path, row.repo)
        return DocHit(row.record_ref, row.doc_kind, text, *place, row.score, row.match)


def overfetch(limit: int, settings: DocsSettings) -> int:
    """How many rows a scoped search asks for, so that the check of the scope does not starve it."""
    return max(limit, min(MAX_OVERFETCH, max(5 * limit, settings.search_fts_k, settings.search_vec_k)))


def snippet(text: str, max_chars: int) -> str:
    """White space collapsed, cut to ``max_chars`` UTF-16 units (80 to 1200) and then an ellipsis."""
    bare = _SPACES.sub(" ", text).strip(WHITESPACE)
    limit = max(MIN_SNIPPET_CHARS, min(MAX_SNIPPET_CHARS, max_chars))
    if js_length(bare) <= limit:
        return bare
    # Half a character at the end is none.
    return js_slice(bare, limit).encode("utf-8", "ignore").decode() + "…"


def open_docs(
    settings: DocsSettings,
    folder_or_sqlite: Path,
    embed: Embed | None = None,
    *,
    model: str = "",
    ask: Embed | None = None,
) -> DocsIndex:
    """Bring the index of the configured roots up to date, and open it.

    What is unchanged is neither written nor embedded again. The place is a file (``.sqlite``, ``.sqlite3``, ``.db``) or
    a folder for one. Without roots the index stays as it is. The receipt of the ingest is the index's ``last_ingest``.
    ``model`` names the embedder: vectors that another one made are not used. ``ask`` embeds queries, if not ``embed``.
    """
    named = folder_or_sqlite.suffix.lower() in INDEX_SUFFIXES and not folder_or_sqlite.is_dir()
    index = DocsIndex(folder_or_sqlite if named else folder_or_sqlite / INDEX_NAME, embed, model, ask=ask)
    try:
        index.ingest(
            plan_ingest(settings), max_chunk_chars=settings.max_chunk_chars, with_vectors=settings.embed_on_ingest
        )
    except BaseException:
        index.close()
        raise
    return index
