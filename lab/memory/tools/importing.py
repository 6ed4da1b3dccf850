"""The tool ``memory_import`` (E-93): append memories of a file, without the duplicates.

A file is an array, an object with ``items``, or one record a line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import reading, refuse_constant, require_finite
from lab.base.utf16 import WHITESPACE
from lab.memory.tools.context import Embedded, ToolContext, ToolResult, Vector
from lab.memory.tools.redact import is_secret
from lab.recordings.cleaning import language_of
from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import importance_score, is_hard_rule, is_uuid, normal_category, resolve_label
from lab.systems.openclaw.near_duplicate import normal_text
from lab.systems.openclaw.recall.receipt import NAME
from lab.systems.openclaw.recall.scope import normalise, scope_token
from lab.systems.openclaw.table.admin import (
    DEDUPE_ID_TEXT,
    DEDUPE_NONE,
    JSON,
    admin_scope,
    dedupe_mode,
    format_of,
    is_working_set,
    transfer_limit,
)
from lab.systems.openclaw.table.schema import Entry
from lab.systems.plans import FIELD, read_due

# No line that an export wrote is longer, not even one with a vector of 3,072 numbers and a long text. The limit is also
# that of a text in an array.
MAX_LINE_BYTES = 16 << 20
TOO_LONG, NO_JSON, NO_TEXT = "line_too_long", "invalid_json", "not_utf8"
_BOM = b"\xef\xbb\xbf"
TOOL, TRUST, SOURCE_KIND = "memory_import", "import", "import"
LISTED = 20
MISSING_TEXT, SECRET = "missing_text", "secret_like"
NO_VECTOR = "missing_vector_and_embeddings"
NO_TIME, NO_DUE, WORKING_SET, NEW_ID = "bad_created_at", "bad_due_at", "working_set", "id_in_use"
BAD_VECTOR, OTHER_LENGTH, TEXT_TOO_LONG = "vector_not_finite", "vector_of_other_length", "text_too_long"
# Why a record is skipped: by its id with the same text or another one, or by its text.
SAME_ID, OTHER_TEXT, SAME_TEXT = "same_id", "same_id_other_text", "same_text"
_LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
_LAST_MS = 8.64e15
# Fields besides the text that are stored as they come.
_FREE = ("scope", "trust_tier", "source_kind", "source_ref", "lang", "media_kind", "media_refs")
_READ_ONLY_HINT = " Re-run with dryRun/validateOnly if you only need validation."


class Broken(NamedTuple):
    """A line that holds no record: its number from 1, and the reason."""

    line: int
    reason: str


class Record(NamedTuple):
    """A value of the file, whatever its type, and the line that it is on, from 1; None in an array."""

    value: Any
    line: int | None = None


def read_records(path: Path, kind: str, *, strict: bool) -> list[Record]:
    """Return the records of a file in order.

    Raises :class:`UnusableInput` for a file that cannot be read, and for one that is no JSON as a whole. With
    ``strict``, as in the plugin, an invalid line does the same; otherwise it is a :class:`Broken` among the others.
    """
    require_finite(path)
    with reading(path), path.open("rb") as file:
        if kind == JSON:
            return [Record(item) for item in _items(path, file.read())]
        return list(_lines(path, file, strict=strict))


def _items(path: Path, data: bytes) -> list[Any]:
    try:
        value = _parsed(data.removeprefix(_BOM).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{path}: not UTF-8 text (byte {error.start}); nothing was imported") from None
    except (ValueError, RecursionError) as error:
        raise UnusableInput(f"{path}: not JSON: {_why(error)}; nothing was imported") from None
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise UnusableInput(f'{path}: expected an array of memories, or an object with an array "items"')
    return items


def _lines(path: Path, file: IO[bytes], *, strict: bool) -> Iterator[Record]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        record = _record(line.removeprefix(_BOM) if number == 1 else line, number)
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES + 1)
            record = Broken(number, TOO_LONG)
        if isinstance(record, Broken) and strict:
            raise UnusableInput(f"{path}:{number}: {record.reason}; nothing was imported")
        if record is not None:
            yield Record(record, number)


def _record(line: bytes, number: int) -> Any:
    """Return the value of a line, None if it is blank, or what is wrong with it."""
    if not line.strip():
        return None
    if len(line) > MAX_LINE_BYTES:
        return Broken(number, TOO_LONG)
    try:
        value = _parsed(line.decode("utf-8"))
    except UnicodeDecodeError:
        return Broken(number, NO_TEXT)
    except (ValueError, RecursionError):
        return Broken(number, NO_JSON)
    # A line "null" is a record without a text, not a blank line.
    return {} if value is None else value


def _parsed(text: str) -> Any:
    return json.loads(text, parse_constant=refuse_constant)


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


@dataclass
class _Import:
    """The state of one import: what is known, what will be added, and what was counted."""

    context: ToolContext
    dedupe: str
    override: str | None
    source: str
    now_ms: int
    ids: dict[str, str]
    texts: set[str]
    entries: list[Entry] = field(default_factory=list)
    unembedded: list[int] = field(default_factory=list)
    skipped: int = 0
    invalid_scopes: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    skips: list[dict[str, Any]] = field(default_factory=list)
    zero: int = 0
    line: int | None = None

    def take(self, index: int, record: Record) -> None:
        """Add a record to the entries, or count why it is none of them."""
        self.line = record.line
        if isinstance(record.value, Broken):
            self._fail(index, record.value.reason)
            return
        fields = record.value if isinstance(record.value, Mapping) else {}
        text = fields.get("text")
        text = text.strip(WHITESPACE) if isinstance(text, str) else ""
        if not text:
            self._fail(index, MISSING_TEXT)
            return
        if not self.context.upstream and _is_too_long(text):
            self._fail(index, TEXT_TOO_LONG)
            return
        if not self.context.upstream and is_working_set(fields.get("id")):
            # The engine builds it again from the memories.
            self.skipped += 1
            self._warn(index, WORKING_SET)
            return
        if not self.context.upstream and is_secret(text, *(fields.get(key) for key in _FREE)):
            self._fail(index, SECRET)
            return
        given = str(fields["id"]) if is_uuid(fields.get("id")) else None
        if known := self._known(given, text):
            self.skipped += 1
            self.skips.append(self._at(index, known) | {"id": given})
            return
        if not self.context.upstream and _overflows(fields.get("vector")):
            self._fail(index, BAD_VECTOR)
            return
        vector = self._vector(fields.get("vector"))
        if vector is None and fields.get("vector") and not self.context.upstream:
            self._warn(index, OTHER_LENGTH)
        if vector is None and self.context.embed is None and self.context.upstream:
            self._fail(index, NO_VECTOR)
            return
        if vector is None:
            self.unembedded.append(len(self.entries))
        self._add(index, given, text, fields, vector)

    def _add(self, index: int, given: str | None, text: str, fields: Mapping[str, Any], vector: Vector | None) -> None:
        if given in self.ids and not self.context.upstream:
            # Without deduplication the plugin stores an id twice.
            self._warn(index, NEW_ID)
            given = None
        identity = given or self.context.new_id()
        self.ids[identity] = text
        self.texts.add(normal_text(text).text)
        score = importance_score(fields.get("importance"))
        row = Row(
            identity,
            identity,
            text,
            text,
            self._created_at(index, fields.get("createdAt")),
            normal_category(fields.get("category")),
            resolve_label(fields.get("importance_label"), score),
            self._scope(fields.get("scope")),
            _text(fields, "trust_tier") or TRUST,
            score,
            fields.get("hard_rule") is True or is_hard_rule(text),
            embedded=vector is not None and any(vector),
        )
        media = fields.get("media_refs")
        self.entries.append(
            Entry(
                row,
                vector or (),
                _text(fields, "source_kind") or SOURCE_KIND,
                _text(fields, "source_ref") or self.source,
                _text(fields, "lang") or language_of([text]),
                tuple(ref for ref in media if isinstance(ref, str)) if isinstance(media, list) else (),
                _text(fields, "media_kind"),
                self._due_at(index, fields.get(FIELD)),
            )
        )

    def _known(self, identity: str | None, text: str) -> str | None:
        if self.dedupe == DEDUPE_NONE:
            return None
        if identity is not None and identity in self.ids:
            return SAME_ID if self.ids[identity].strip(WHITESPACE) == text else OTHER_TEXT
        # Texts of punctuation alone have nothing left to compare.
        normal = normal_text(text).text if self.dedupe == DEDUPE_ID_TEXT else ""
        return SAME_TEXT if normal and normal in self.texts else None

    def _scope(self, given: object) -> str:
        # The plugin makes a scope of any text first, so that none is invalid; seed 001 takes the default one and warns.
        raw = scope_token(given) if self.context.upstream else given if isinstance(given, str) else None
        resolved = normalise(self.override or raw, self.context.config.scope_policy)
        self.invalid_scopes += resolved.invalid
        return resolved.scope

    def _created_at(self, index: int, given: object) -> int:
        """Return a positive time, rounded down, else the time of the import. Profile ``seed`` also reads ISO 8601."""
        if isinstance(given, str) and not self.context.upstream:
            given = _iso_ms(given)
        last = math.inf if self.context.upstream else _LAST_MS
        if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given <= last and given < math.inf:
            return math.floor(given)
        if given is not None and not self.context.upstream:
            self._warn(index, NO_TIME)
        return self.now_ms

    def _due_at(self, index: int, given: object) -> int | None:
        """Return when a plan is due, as a replay of a store reads it (PL-3)."""
        due = read_due(given)
        if given is not None and due is None and not self.context.upstream:
            self._warn(index, NO_DUE)
        return due

    def _vector(self, given: object) -> Vector | None:
        if not isinstance(given, list):
            return None
        numbers = [
            float(value)
            for value in given
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ]
        return numbers if len(numbers) == self.context.dimension else None

    def _fail(self, index: int, reason: str) -> None:
        self.failures.append(self._at(index, reason))

    def _warn(self, index: int, reason: str) -> None:
        self.warnings.append(self._at(index, reason))

    def _at(self, index: int, reason: str) -> dict[str, Any]:
        """Return a reason with the index of the record, and with its line if it has one of its own."""
        where = {} if self.line is None or self.context.upstream else {"line": self.line}
        return {"index": index, "reason": reason, **where}

    def embed(self) -> None:
        """Embed what came without a vector. What cannot be embedded is stored with a zero vector."""
        embedded = self.context.vectors([self.entries[at].row.text for at in self.unembedded])
        for at, found in zip(self.unembedded, embedded, strict=True):
            self.entries[at] = self._with_vector(self.entries[at], found)
            self.zero += found.reason is not None

    def vectors(self, *, dry: bool) -> dict[str, int]:
        """Return how many vectors were kept and made, and how many memories have none; of a dry run, would be."""
        missing = len(self.unembedded)
        zero = (0 if self.context.embed else missing) if dry else self.zero
        return {"kept": len(self.entries) - missing, "embedded": missing - zero, "zero": zero}

    def _with_vector(self, entry: Entry, found: Embedded) -> Entry:
        row = replace(entry.row, embedded=found.reason is None)
        if found.reason is not None and self.context.upstream:
            # Profile seed leaves the tier alone: "quarantined_noembed" would be a tier that nothing distrusts.
            row = replace(row, trust_tier=f"{row.trust_tier}_noembed")
        return replace(entry, row=row, vector=found.vector)


def memory_import(
    context: ToolContext,
    path: Path,
    *,
    file_format: object = None,
    dedupe: object = None,
    scope: object = None,
    limit: object = None,
    dry_run: bool = False,
    validate_only: bool = False,
) -> ToolResult:
    """Append the memories of a file; all of them are written together, or none.

    With ``dry_run`` or ``validate_only`` nothing is written or embedded, and the counts are as if. ``scope`` overrides
    the scopes of the records. Raises :class:`UnusableInput` for a file that cannot be read or parsed.
    """
    dry = dry_run or validate_only
    if context.read_only and not dry:
        return context.refuse_write(TOOL, "import memories", hint=_READ_ONLY_HINT)
    started = context.now_ms()
    kind, override, most = (
        format_of(str(path), file_format),
        admin_scope(scope),
        transfer_limit(limit, upstream=context.upstream),
    )
    if override and context.upstream:
        override = normalise(override, context.config.scope_policy).scope
    records = read_records(path, kind, strict=context.upstream)[:most]
    stored = context.table.rows()
    mode = dedupe_mode(dedupe)
    texts = {normal_text(row.text).text for row in stored} if mode == DEDUPE_ID_TEXT else set()
    state = _Import(context, mode, override, path.name, started, {row.id: row.text for row in stored}, texts)
    for index, record in enumerate(records):
        state.take(index, record)
    if not dry:
        state.embed()
        if state.entries:
            context.table.add(state.entries)
    counts = (len(state.entries), state.skipped, len(state.failures))
    receipt: dict[str, Any] = {
        "operation": "import",
        "source": str(path),
        "format": kind,
        "dedupe": mode,
        "dryRun": dry,
        "validateOnly": dry if context.upstream else validate_only,
        "parsedCount": len(records),
        **dict(zip(("importedCount", "skippedCount", "failedCount"), counts, strict=True)),
        "filtersApplied": {"scopeOverride": override, "limit": most},
        "scopeValidation": {
            "validationMode": context.config.scope_policy.validation_mode,
            "invalidFallbackCount": state.invalid_scopes,
        },
        **context.timed(started),
    }
    details: dict[str, Any] = dict(zip(("imported", "skipped", "failed"), counts, strict=True))
    details |= {"failures": state.failures[:LISTED]}
    if not context.upstream:
        details |= {"warnings": state.warnings[:LISTED], "warned": len(state.warnings)}
        details |= {"skips": state.skips[:LISTED], "vectors": state.vectors(dry=dry)}
    did = "Validated" if dry else "Imported"
    text = f"{did} memories: imported={counts[0]}, skipped={counts[1]}, failed={counts[2]}."
    fallback = context.config.scope_policy.default_scope
    log = f"{NAME}:scopeValidation write=import invalidFallbackCount={state.invalid_scopes} fallback={fallback}"
    return ToolResult(text, details | {"receipt": receipt}, (log,) if state.invalid_scopes else ())


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value.strip(WHITESPACE) if isinstance(value, str) else ""


def _is_too_long(text: str) -> bool:
    return len(text) > MAX_LINE_BYTES // 4 and len(text.encode("utf-8", "replace")) > MAX_LINE_BYTES


def _overflows(vector: object) -> bool:
    """Whether a list holds a number that the table's 32 bits cannot."""
    return isinstance(vector, list) and any(
        isinstance(value, int | float) and not abs(value) <= _LARGEST_FLOAT32 for value in vector
    )


def _iso_ms(text: str) -> float:
    """Return an ISO 8601 time in epoch milliseconds, in UTC without an offset; NaN if it is none."""
    try:
        time = datetime.fromisoformat(text.strip(WHITESPACE))
    except ValueError:
        return math.nan
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000
