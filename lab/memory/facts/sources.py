"""Resolve the sources of facts (TF-4): rows of a ledger, episodes and files, each with a digest of its content."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.files import sha256_file
from lab.base.sqlite import tables
from lab.memory.facts.model import KINDS, TIERS, Source
from lab.memory.ledger import ledger
from lab.memory.ledger.writeback import trust_of

OK, QUARANTINED = "ok", "quarantined"
# No ledger was given, so the source cannot be checked.
NO_LEDGER = "sqlite_unavailable"
UNSUPPORTED = "unsupported_kind"
# Metadata of a row is not evidence: a use, a grade or a state changes it, but not the source.
GOVERNED = frozenset(("importance", "lifecycle", "trust", "trust_tier", "trustTier"))
_EPISODE = "SELECT ts_ms, scope, session_id, type, summary, payload_json FROM episodic_events WHERE event_id = ?"


class Resolution(NamedTuple):
    """The state of a source: ``ok``, ``quarantined``, or why it does not resolve; and a digest of its content."""

    source: Source
    reason: str
    digest: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether the source exists, quarantined or not."""
        return self.digest is not None


class Sources:
    """The places to look up sources: a ledger (None: not given) and the base folder of relative paths.

    Each source is read once, so make a new one after a change.
    """

    def __init__(self, ledger_path: Path | None = None, root: Path = Path()) -> None:
        self._ledger = ledger_path
        self._root = root
        self._known: dict[Source, Resolution] = {}

    def resolve(self, sources: Iterable[Source]) -> list[Resolution]:
        """Return a resolution for each source. Raises the errors of :func:`lab.memory.ledger.ledger.open_ledger`."""
        wanted = list(dict.fromkeys(sources))
        in_ledger: list[Source] = []
        for source in wanted:
            if source not in self._known:
                if source.kind in KINDS and source.is_in_ledger:
                    in_ledger.append(source)
                else:
                    self._known[source] = self._file(source)
        if in_ledger and self._ledger is None:
            self._known |= {source: Resolution(source, NO_LEDGER) for source in in_ledger}
        elif in_ledger and self._ledger is not None:
            with ledger.open_ledger(self._ledger) as connection:
                self._known |= _rows(connection, [one for one in in_ledger if one.ref.startswith("obs:")])
                self._known |= _episodes(connection, [one for one in in_ledger if one.ref.startswith("ep:")])
        return [self._known[source] for source in wanted]

    def _file(self, source: Source) -> Resolution:
        if source.kind not in KINDS:
            return Resolution(source, UNSUPPORTED)
        try:
            path = self._root / Path(source.ref).expanduser()
            if not path.exists():
                return Resolution(source, "file_missing")
            if not path.is_file():
                return Resolution(source, "not_a_file")
            return Resolution(source, OK, sha256_file(path))
        except (OSError, RuntimeError, ValueError):
            # An unknown user, a name that no file can have, or no permission.
            return Resolution(source, "file_unreadable")


def _rows(connection: sqlite3.Connection, sources: Iterable[Source]) -> dict[Source, Resolution]:
    numbers = {source: source.ref.removeprefix("obs:") for source in sources}
    # SQLite has no larger id.
    ids = {source: int(text) for source, text in numbers.items() if text.isdecimal() and len(text) < 19}
    rows = {row.id: row for row in ledger.get(connection, ids.values())}
    found = {}
    for source in numbers:
        row = rows.get(ids.get(source, -1))
        if row is None:
            reason = "observation_missing" if source in ids else "bad_observation_ref"
            found[source] = Resolution(source, reason)
        else:
            detail = {name: value for name, value in row.detail.items() if name not in GOVERNED}
            reason = QUARANTINED if trust_of(row.detail) == "quarantined" else OK
            found[source] = Resolution(source, reason, _digest([row.id, row.ts, row.kind, row.summary, detail]))
    return found


def _episodes(connection: sqlite3.Connection, sources: Iterable[Source]) -> dict[Source, Resolution]:
    has_table = "episodic_events" in tables(connection)
    found = {}
    for source in sources:
        event = source.ref.removeprefix("ep:")
        row = connection.execute(_EPISODE, (event,)).fetchone() if has_table else None
        found[source] = Resolution(source, OK, _digest(row)) if row else Resolution(source, "episode_missing")
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def highest_tier(resolutions: Iterable[Resolution]) -> str:
    """Return the highest confidence that resolved sources allow (TF-5).

    An observation or another receipt allows all, two sources ``corroborated``, one ``source_capped``, none ``low``.
    """
    resolved = {one.source for one in resolutions if one.is_resolved}
    if any(source.kind == "receipt" for source in resolved):
        return TIERS[3]
    return TIERS[min(len(resolved), 2)]


def trouble(digests: Mapping[str, str], resolutions: Iterable[Resolution]) -> str | None:
    """Return what is wrong with the sources of a fact now (TF-6): the first state that applies, None if none does.

    ``quarantined``: any is. ``stale``: the content of any has changed since the assertion. ``dangling``: none exists.
    Sources in a ledger that was not given are not checked.
    """
    looked_up = [one for one in resolutions if one.reason != NO_LEDGER]
    if any(one.reason == QUARANTINED for one in looked_up):
        return QUARANTINED
    if any(one.is_resolved and digests.get(one.source.token, one.digest) != one.digest for one in looked_up):
        return "stale"
    return "dangling" if looked_up and not any(one.is_resolved for one in looked_up) else None
