"""Write what a ledger says of memories back to the table of the engine (WB-1).

An observation of a stored memory names the memory's id and its governance fields (WB-2, WB-3).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.memory.ledger import ledger
from lab.memory.ledger.ledger import Observation, scope_name
from lab.memory.store.tags import create_version_tag, root_of
from lab.memory.table.lance_table import GovernedTable, TableSettings, require_permitted
from lab.recordings.model import IGNORE, LABELS, MUST, NICE, UNKNOWN
from lab.systems.openclaw.memory import CATEGORIES, label_of_score
from lab.systems.openclaw.recall.scope import ScopePolicy, normalise
from lab.systems.openclaw.table.schema import TABLE
from lab.systems.sidecar import is_importance, parse_importance, sidecar_label

# The order in which fields are compared and reported.
SAFE_FIELDS = ("importance", "importance_label", "scope", "category")
FORCE_FIELDS = (*SAFE_FIELDS, "trust_tier")
TRUSTS = ("trusted", "untrusted", "quarantined")
# The score that stands for a label without one.
SCORE_OF = {MUST: 0.9, NICE: 0.7, IGNORE: 0.2, UNKNOWN: 0.0}
HINTS = frozenset(
    ("memory_id", "memoryid", "memory_uuid", "memoryuuid", "lancedb_id", "lancedbid", "lancedb", "lance_id")
)
_HEX = "[0-9a-fA-F]"
_UUID = rf"\b{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}\b"
# For the sidecar a Chinese character is part of a word, so that an id beside one is not found.
_ID = {True: regex(_UUID), False: regex(_UUID, re.ASCII)}
_TRUST_KEYS = ("trust", "trust_tier", "trustTier")
DEEPEST = 64
KIND = "recall-lab.writeback.v1"
TOOL = "memory_store"
LIMIT, BATCH = 50, 25
# The values of a field that say nothing, in profile seed. Rows are born with the label unknown.
NOT_SAID = {"importance_label": UNKNOWN, "trust_tier": "unknown"}
_UNKNOWN = f"importance_label IS NULL OR importance_label IN ('', '{UNKNOWN}')"


def memory_id(row: Observation, detail: Mapping[str, Any], *, upstream: bool) -> str | None:
    """Return the id of the memory that an observation is about; None if it names none (WB-2).

    With ``upstream``, a UUID in any list of the detail counts as the memory's, as in the sidecar.
    """
    pattern = _ID[upstream]
    named = next(_named(detail, pattern, upstream, DEEPEST), None)
    if named is not None:
        return named
    found = (pattern.search(text) for text in (row.summary, row.summary_en) if text)
    return next((match.group() for match in found if match), None)


def _named(value: Any, pattern: re.Pattern[str], upstream: bool, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if str(key).lower() in HINTS:
                texts = nested if isinstance(nested, list) else [nested]
                yield from (match.group() for text in texts if (match := _match(pattern, text)))
            if isinstance(nested, Mapping | list):
                yield from _named(nested, pattern, upstream, depth - 1)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, Mapping | list):
                yield from _named(item, pattern, upstream, depth - 1)
            elif upstream and (match := _match(pattern, item)):
                yield match.group()


def _match(pattern: re.Pattern[str], value: Any) -> re.Match[str] | None:
    return pattern.search(value) if isinstance(value, str) else None


def incoming(row: Observation, detail: Mapping[str, Any], *, upstream: bool) -> dict[str, Any]:
    """Return the governance fields that an observation gives its memory (WB-3).

    In profile ``seed`` what the observation does not say is left out; the sidecar makes a scope and a category of its
    kind, and a score of 0 of the label ``unknown``.
    """
    score, label = (_upstream_importance if upstream else _importance)(detail.get("importance"))
    kind = row.kind if isinstance(row.kind, str) else ""
    scope = scope_name(detail.get("scope") or (kind if upstream else None))
    category = detail.get("category")
    category = (category if isinstance(category, str) else kind).strip()
    if not upstream:
        category = category.lower() if category.lower() in CATEGORIES else ""
    fields = {
        "importance": score,
        "importance_label": label,
        "scope": scope,
        "category": category,
        "trust_tier": trust_of(detail),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _importance(value: Any) -> tuple[float | None, str | None]:
    """Return score and label as the ledger reads them (E-51); neither for what is unknown or cannot be read."""
    label = sidecar_label(value.get("label") if isinstance(value, Mapping) else value)
    score = value.get("score") if isinstance(value, Mapping) else value
    number = parse_importance(score) if not isinstance(score, Mapping) and is_importance(score) else None
    if label is None and number is not None:
        label = label_of_score(number)
    return (SCORE_OF[label] if number is None else number, label) if label else (None, None)


def _upstream_importance(value: Any) -> tuple[float | None, str | None]:
    """Return score and label as the sidecar's writeback reads them: no percentages, and no labels as plain text."""
    label = _plain_label(value.get("label")) if isinstance(value, Mapping) else None
    number = _number(value.get("score") if isinstance(value, Mapping) else value)
    if number is None:
        return (SCORE_OF[label], label) if label else (None, None)
    return number, label or label_of_score(number)


def _plain_label(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    name = {"low": IGNORE, "medium": NICE, "high": MUST}.get(text) or text.replace("-", "_").replace(" ", "_")
    return name if name in LABELS else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    # What is no number becomes 1 in the sidecar: min(1.0, nan) is 1.0 in Python.
    return max(0.0, min(1.0, number))


def trust_of(detail: Mapping[str, Any]) -> str | None:
    """Return the trust tier that a detail or its provenance names; None for an unknown one."""
    provenance = detail.get("provenance")
    for source in (detail, provenance if isinstance(provenance, Mapping) else {}):
        for key in _TRUST_KEYS:
            value = source.get(key)
            name = value.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(value, str) else ""
            name = "quarantined" if name == "quarantine" else name
            if name in TRUSTS:
                return name
    return None


# What an observation gives a memory: its id in the table, and governance fields.
Update = tuple[str, dict[str, Any]]


class Patch(NamedTuple):
    """The fields of a row to set, and how many of them overwrite a value."""

    fields: dict[str, Any]
    overwritten: int


@dataclass(frozen=True, slots=True)
class Options:
    """How to write back: ``forced`` fields are overwritten, all others only filled (WB-4)."""

    limit: int = LIMIT
    batch: int = BATCH
    forced: tuple[str, ...] = ()
    upstream: bool = False
    write: bool = False
    despite_gateway: bool = False
    wait_seconds: float = 10.0


@dataclass(slots=True)
class Written:
    """The counts of a run, and the ids of memories and the columns that the table does not have.

    ``tag`` names the version before the first value was overwritten.
    """

    options: Options
    checked: int = 0
    without_id: int = 0
    older: int = 0
    not_inspected: int = 0
    updated: int = 0
    overwritten: int = 0
    overwritten_fields: int = 0
    skipped: int = 0
    missing: list[str] = field(default_factory=list)
    missing_columns: tuple[str, ...] = ()
    tag: str | None = None
    fields: Counter[str] = field(default_factory=Counter)
    unknown_before: int = 0
    unknown_after: int = 0
    notes: tuple[str, ...] = ()

    def receipt(self, path: Path, store: Path) -> dict[str, Any]:
        """Return the receipt (WB-7): the names of the sidecar's, and what is unknown before and after. No text."""
        return {
            "kind": KIND,
            "ok": True,
            "dryRun": not self.options.write,
            "profile": "upstream" if self.options.upstream else "seed",
            "ledger": str(path),
            "db": str(store),
            "table": TABLE,
            "limit": self.options.limit,
            "batch": self.options.batch,
            "forceOverwrite": bool(self.options.forced),
            "forceFields": list(self.options.forced),
            "checked": self.checked,
            "updated": self.updated,
            "updatedFields": {name: self.fields[name] for name in FORCE_FIELDS if self.fields[name]},
            "overwritten": self.overwritten,
            "overwrittenFields": self.overwritten_fields,
            "skipped": self.skipped,
            "withoutId": self.without_id,
            "older": self.older,
            "notInspected": self.not_inspected,
            "missing": len(self.missing),
            "missingIds": self.missing,
            "missingColumns": list(self.missing_columns),
            "tag": self.tag,
            "unknown": {"before": self.unknown_before, "after": self.unknown_after},
        }


def forced_fields(force: bool, names: str | None) -> tuple[str, ...]:
    """Return the fields to overwrite: none without ``force``, by default all but ``trust_tier``.

    ``names`` are separated by commas. Raises :class:`UnusableInput` for an unknown name, and for names without force.
    """
    wanted = tuple(dict.fromkeys(name.strip().lower() for name in (names or "").split(",") if name.strip()))
    if unknown := [name for name in wanted if name not in FORCE_FIELDS]:
        raise UnusableInput(f"--force-fields: unknown {', '.join(unknown)}; the fields are {', '.join(FORCE_FIELDS)}")
    if wanted and not force:
        raise UnusableInput("--force-fields names what --force overwrites; add --force")
    return (wanted or SAFE_FIELDS) if force else ()


def writeback(path: Path, store: Path, options: Options | None = None) -> Written:
    """Write the governance fields of the newest observations of ``memory_store`` to the memories they are about.

    Each batch is one commit. A run that was killed is finished by the same command, because a row that has its values
    is left alone. Raises as :func:`ledger.open_ledger` and
    :class:`~lab.memory.table.lance_table.LanceTable`; batches written before stay.
    """
    options = options or Options()
    done = Written(options)
    with ledger.open_ledger(path) as connection:
        rows = ledger.newest(connection, options.limit, tool_name=TOOL)
        (total,) = connection.execute("SELECT count(*) FROM observations WHERE tool_name = ?", (TOOL,)).fetchone()
    done.not_inspected = total - len(rows)
    updates = updates_of(rows, done)
    require_permitted(store, despite_gateway=options.despite_gateway)
    with GovernedTable(
        store,
        read_only=not options.write,
        despite_gateway=options.despite_gateway,
        settings=TableSettings(wait_seconds=options.wait_seconds),
        what="lab memory ledger writeback",
        any_columns=True,
    ) as table:
        table.require_changeable()
        done.missing_columns = tuple(name for name in FORCE_FIELDS if name not in table.columns)
        # A row without the column has no label either.
        unknown = "true" if "importance_label" in done.missing_columns else _UNKNOWN
        done.unknown_before = done.unknown_after = table.count(unknown)
        for patches in _patches(updates, table, done):
            if options.write:
                if done.overwritten and done.tag is None:
                    done.tag = _tag(store, table)
                table.set_fields(patches)
        if options.write:
            done.unknown_after = table.count(unknown)
        done.notes = tuple(table.notes)
    return done


def _tag(store: Path, table: GovernedTable) -> str:
    """Keep the version before values are overwritten (seed 001, M3), and return the name of its tag."""
    now = datetime.now(UTC)
    name = f"before-writeback-{now:%Y%m%dT%H%M%S}-v{table.version}"
    create_version_tag(store, name, root_of(store, None), now=now, table=table)
    return name


def updates_of(rows: Sequence[ledger.Observation], done: Written) -> list[Update]:
    """Return what the observations give, newest first; count those without an id.

    In profile ``seed`` a memory is updated once, each field by the newest observation that gives it. The sidecar
    applies them one after the other, so that with force the oldest wins (WB-5).
    """
    upstream = done.options.upstream
    updates: list[Update] = []
    for row in rows:
        detail = row.detail
        identity = memory_id(row, detail, upstream=upstream)
        if identity is None:
            done.without_id += 1
        else:
            updates.append((identity, incoming(row, detail, upstream=upstream)))
    done.checked = done.skipped = done.without_id
    if upstream:
        return updates
    merged: dict[str, dict[str, Any]] = {}
    for identity, fields in updates:
        merged[identity] = {**fields, **merged.get(identity, {})}
    done.older = len(updates) - len(merged)
    done.checked += done.older
    done.skipped += done.older
    return list(merged.items())


def _patches(updates: Sequence[Update], table: GovernedTable, done: Written) -> Iterator[dict[str, dict[str, Any]]]:
    options = done.options
    set_before: dict[str, dict[str, Any]] = {}
    for first in range(0, len(updates), options.batch):
        chunk = updates[first : first + options.batch]
        stored = table.stored(list(dict.fromkeys(identity for identity, _ in chunk)))
        patches: dict[str, dict[str, Any]] = {}
        for identity, fields in chunk:
            if identity not in stored:
                done.missing.append(identity)
                continue
            now = {**stored[identity], **set_before.get(identity, {})}
            patch = patch_of(now, fields, options)
            done.checked += 1
            if not patch.fields:
                done.skipped += 1
                continue
            done.updated += 1
            done.overwritten += bool(patch.overwritten)
            done.overwritten_fields += patch.overwritten
            done.fields.update(patch.fields.keys())
            if "importance_label" in patch.fields:
                # A dry run changes no row that could be counted.
                was, is_now = ((row["importance_label"] or "").strip() for row in (now, {**now, **patch.fields}))
                done.unknown_after += (is_now in ("", UNKNOWN)) - (was in ("", UNKNOWN))
            for target in (patches, set_before):
                target[identity] = {**target.get(identity, {}), **patch.fields}
        yield patches


def patch_of(current: Mapping[str, Any], fields: Mapping[str, Any], options: Options) -> Patch:
    """Return what to set in a row (WB-4): values that fill nothing, or overwrite a forced field, and differ."""
    patch: dict[str, Any] = {}
    overwritten = 0
    for name in FORCE_FIELDS:
        value, now = fields.get(name), current.get(name)
        if name not in current or value is None or not _is_allowed(name, value, options.upstream):
            continue
        filled = is_filled(name, now, upstream=options.upstream)
        if filled and (name not in options.forced or _same(now, value)):
            continue
        patch[name] = value
        overwritten += filled
    return Patch(patch, overwritten)


def is_filled(name: str, value: Any, *, upstream: bool) -> bool:
    """Return whether a row has a value that only force overwrites (WB-4).

    ``unknown`` is a value for the sidecar. In profile ``seed`` it is what no one has said yet.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return False
    if not isinstance(value, str):
        return True
    text = value.strip()
    return bool(text) and (upstream or text.lower() != NOT_SAID.get(name))


def _same(now: Any, value: Any) -> bool:
    if isinstance(now, str):
        return now.strip() == str(value).strip()
    return bool(max(0.0, min(1.0, float(now))) == value)


def _is_allowed(name: str, value: Any, upstream: bool) -> bool:
    """Return whether the engine could read a value: labels and trust tiers are from a list, a scope must be valid."""
    if name == "importance_label":
        return value in LABELS
    if name == "trust_tier":
        return value in TRUSTS
    if name == "scope" and not upstream:
        return not normalise(value, ScopePolicy()).invalid
    return True
