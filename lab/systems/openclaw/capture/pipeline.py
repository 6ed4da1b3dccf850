"""autoCapture: what the engine stores by itself at the end of a turn (E-73 to E-77), and its receipt (E-43).

It reads the user's messages of the whole conversation so far, takes lines or sentences as candidates, and stores the
few that state a preference, a decision or a TODO and are no secret, no output of a tool and no duplicate. The two
profiles differ in their :class:`Rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.utf16 import js_length, js_slice
from lab.retrieval.contract import Row
from lab.systems.openclaw.capture.candidates import (
    IMPORTANCE,
    Span,
    allowed_categories,
    is_command,
    is_too_short,
    normalise,
)
from lab.systems.openclaw.config.settings import AutoCapture, EngineConfig, ReceiptSettings
from lab.systems.openclaw.js import Json, whole_count
from lab.systems.openclaw.memory import Listing, Near, dedupe_cutoff_ms, is_within_dedupe_window
from lab.systems.openclaw.recall.receipt import NAME, marker
from lab.systems.openclaw.recall.scope import normalise as normalise_scope

if TYPE_CHECKING:
    import numpy as np

    from lab.retrieval.retrievers import StoreRetriever


SCHEMA = "openclaw-mem-engine.autoCapture.receipt.v1"
FILTERED = (
    "tool_output",
    "secrets_like",
    "duplicate",
    "todo_rate_limit",
    "todo_dedupe_window",
    "older_user_messages",
    "input_chars_truncated",
)
# Candidates that the public plugin drops without counting them.
DROPPED = (
    "too_long",
    "too_short",
    "command",
    "no_category",
    "category_off",
    "embedding_failed",
    "item_limit",
)
SCANNED = ("userMessages", "textBlocks", "textChars")


def capture_receipt(
    settings: ReceiptSettings,
    *,
    extracted: float,
    filtered: Mapping[str, float],
    stored: float,
    scanned: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the receipt with its keys in the plugin's order. Missing counts are 0."""
    seen = scanned or {}
    return {
        "schema": SCHEMA,
        "verbosity": settings.verbosity,
        "candidateExtractionCount": whole_count(extracted),
        "filteredOut": {name: whole_count(filtered.get(name, 0)) for name in FILTERED},
        "scanned": {name: whole_count(seen.get(name, 0)) for name in SCANNED},
        "storedCount": whole_count(stored),
    }


def counted(dropped: Mapping[str, float]) -> dict[str, Any]:
    """Return the part of the receipt that the public plugin lacks (E-77).

    With it, the extracted candidates are the sum of the stored ones, of ``dropped``, and of ``filteredOut`` without its
    last two counts, which are messages and characters.
    """
    return {"dropped": {name: whole_count(dropped.get(name, 0)) for name in DROPPED}}


class Message(NamedTuple):
    """A user's message: its text blocks, the key of its turn, and the recorded scope (None: tags decide)."""

    texts: tuple[str, ...]
    source: str = ""
    scope: str | None = None


class Text(NamedTuple):
    """A text of a message, whole or cut, with the key of its turn and the recorded scope."""

    text: str
    source: str = ""
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read: messages, text blocks of a message, and UTF-16 units in all. None: everything.

    With ``newest_first``, new texts take their share of the units before old ones.
    """

    messages: int | None = None
    blocks: int | None = None
    units: int | None = None
    newest_first: bool = False
    # Cuts a text to a number of units.
    cut: Callable[[str, int], str] = js_slice


class Scanned(NamedTuple):
    """The texts read, oldest first; how many messages, blocks and units were read; and what was left out."""

    texts: Sequence[Text]
    messages: int
    blocks: int
    units: int
    older: int
    truncated: int


def scan(messages: Sequence[Message], bounds: Bounds) -> Scanned:
    """Return the texts of the last messages within the bounds.

    Text blocks beyond the bound count as left out. Messages after the one that used up the units do not count as read,
    and all of their units count as left out.
    """
    recent = messages if bounds.messages is None else messages[-bounds.messages :]
    kept: list[Text] = []
    read = used = truncated = 0
    for message in reversed(recent) if bounds.newest_first else recent:
        read += bounds.units is None or used < bounds.units
        texts = [text for text in message.texts if text]
        truncated += sum(map(js_length, () if bounds.blocks is None else texts[bounds.blocks :]))
        texts = texts[: bounds.blocks]
        for text in reversed(texts) if bounds.newest_first else texts:
            length = js_length(text)
            if bounds.units is not None and length > bounds.units - used:
                text = bounds.cut(text, bounds.units - used)
            units = js_length(text)
            truncated += length - units
            used += units
            if text:
                kept.append(Text(text, message.source, message.scope))
    if bounds.newest_first:
        kept.reverse()
    return Scanned(kept, read, len(kept), used, len(messages) - len(recent), truncated)


TODO = "todo"
# How many recent TODOs of a scope a new one is compared with.
MAX_TODOS = 64


class CaptureStore:
    """The rows of a table and its ``listing``, as capture reads them."""

    def __init__(self, table: StoreRetriever, listing: Listing) -> None:
        self._table, self.listing = table, listing

    def nearest(self, vector: np.ndarray, limit: int, scope: str | None = None) -> Sequence[Near]:
        """Return the rows of a scope nearest to a vector."""
        return [Near(row, distance) for row, distance in self._table.nearest(vector, limit, scope)]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a profile.

    ``clean`` removes injected text; ``spans`` returns the candidates of a cleaned text; ``is_duplicate`` compares two
    texts under a threshold (E-76). ``recent`` lists the TODOs of a scope since a time. ``newest_first``: new messages
    use up the bounds before old ones. ``counts_all``: the receipt counts every candidate that was not stored. ``cut``
    shortens a text to a number of UTF-16 units.
    """

    clean: Callable[[str], str]
    spans: Callable[[str], list[Span]]
    is_secret: Callable[[str], bool]
    is_tool_like: Callable[[str], bool]
    category: Callable[[str], str | None]
    is_duplicate: Callable[[str, str, float], bool]
    cut: Callable[[str, int], str]
    recent: Callable[[Listing, str, float], Sequence[Row]]
    newest_first: bool = False
    counts_all: bool = False


class Capture(NamedTuple):
    """A memory to store; ``source`` is the key of the turn that it was said in."""

    text: str
    vector: np.ndarray
    category: str
    scope: str
    importance: float
    source: str


class Captured(NamedTuple):
    """What a capture stored, its receipt (None: nothing to read, or receipts are off), and log lines by level."""

    stored: tuple[Capture, ...] = ()
    receipt: Mapping[str, Any] | None = None
    log: tuple[tuple[str, str], ...] = ()


def captures(config: EngineConfig) -> bool:
    """Return whether the engine registers its capture at all."""
    return config.auto_capture.enabled and not config.read_only


def allowed(settings: AutoCapture) -> tuple[str, ...]:
    """Return the categories that the configuration allows."""
    return allowed_categories(
        preference=settings.capture_preference, decision=settings.capture_decision, todo=settings.capture_todo
    )


def capture(
    messages: Sequence[Message],
    config: EngineConfig,
    rules: Rules,
    store: CaptureStore,
    *,
    now_ms: int,
    embed: Callable[[str], np.ndarray | None],
) -> Captured:
    """Return what to store of the conversation so far.

    ``messages`` are all of the user's messages, oldest first. ``embed`` returns the unit vector of a text, or None if
    the provider fails; such a candidate is not stored.
    """
    settings = config.auto_capture
    if not captures(config) or not allowed(settings):
        return Captured()
    bounds = Bounds(
        settings.max_scanned_user_messages,
        settings.max_text_blocks_per_message,
        settings.max_total_input_chars,
        rules.newest_first,
        rules.cut,
    )
    scanned = scan(messages, bounds)
    texts = [text._replace(text=cleaned) for text in scanned.texts if (cleaned := rules.clean(text.text)).strip()]
    if not texts:
        return Captured()
    run = _Run(config, rules, store, now_ms, embed)
    run.take(_newest_first(texts) if rules.newest_first else texts)
    return Captured(tuple(run.kept), run.receipt(scanned), tuple(run.log()))


def _newest_first(texts: Sequence[Text]) -> list[Text]:
    """Return the texts by message, newest message first; texts of one message stay in order."""
    order = {source: number for number, source in enumerate(text.source for text in texts)}
    return sorted(texts, key=lambda text: -order[text.source])


class _Run:
    """One capture: what was kept, and why candidates were dropped."""

    def __init__(
        self,
        config: EngineConfig,
        rules: Rules,
        store: CaptureStore,
        now_ms: int,
        embed: Callable[[str], np.ndarray | None],
    ) -> None:
        self.config, self.settings, self.rules, self.store = config, config.auto_capture, rules, store
        self.kept: list[Capture] = []
        self._now_ms, self._embed = now_ms, embed
        self._allowed = allowed(config.auto_capture)
        self._dropped = Counter[str]()
        self._extracted = 0
        self._invalid_scopes = 0
        # TODOs of a scope within the window, with those of this turn.
        self._todos: dict[str, list[str]] = {}

    def take(self, texts: Sequence[Text]) -> None:
        """Decide on the candidates of all texts, in order."""
        for text in texts:
            spans = self.rules.spans(text.text)
            self._extracted += len(spans)
            for span in spans:
                if len(self.kept) >= self.settings.max_items_per_turn:
                    self._dropped["item_limit"] += 1
                    continue
                reason = self._decide(span, text)
                if reason is not None:
                    self._dropped[reason] += 1
            if len(self.kept) >= self.settings.max_items_per_turn and not self.rules.counts_all:
                break

    def receipt(self, scanned: Scanned) -> dict[str, Any] | None:
        """Return the receipt, None if receipts are off."""
        if not self.config.receipts.enabled:
            return None
        filtered = self._dropped | {"older_user_messages": scanned.older, "input_chars_truncated": scanned.truncated}
        receipt = capture_receipt(
            self.config.receipts,
            extracted=self._extracted,
            filtered=filtered,
            stored=len(self.kept),
            scanned={"userMessages": scanned.messages, "textBlocks": scanned.blocks, "textChars": scanned.units},
        )
        return receipt | counted(self._dropped) if self.rules.counts_all else receipt

    def log(self) -> list[tuple[str, str]]:
        """Return the log lines: refused scopes, then dropped TODOs."""
        settings = self.settings
        scope = self.config.scope_policy.default_scope
        refused = f"{NAME}:scopeValidation write=autoCapture invalid scope; fallback={scope}"
        lines = [("warn", refused)] * self._invalid_scopes
        dropped = {name: self._dropped[name] for name in ("todo_rate_limit", "todo_dedupe_window")}
        if any(dropped.values()):
            value: dict[str, Json] = {
                "phase": "capture",
                "dropped": dropped,
                "maxTodoPerTurn": settings.max_todo_per_turn,
                "todoDedupeWindowHours": settings.todo_dedupe_window_hours,
            }
            lines.append(("info", marker("todoGuardrail", value)))
        return lines

    def _decide(self, span: Span, said: Text) -> str | None:
        """Keep a candidate and return None, or return why it is dropped."""
        rules, settings = self.rules, self.settings
        text = normalise(span.text, settings.max_chars_per_item)
        if text is None:
            return "too_long"
        if is_too_short(text):
            return "too_short"
        if is_command(text):
            return "command"
        if span.secret or rules.is_secret(text):
            return "secrets_like"
        if rules.is_tool_like(text):
            return "tool_output"
        category = rules.category(text)
        if category is None:
            return "no_category"
        if category not in self._allowed:
            return "category_off"
        scope = self._scope(span, said)
        return self._unless_duplicate(text, category, scope, said.source)

    def _scope(self, span: Span, said: Text) -> str:
        if said.scope is not None:
            return said.scope
        found = normalise_scope(span.scope, self.config.scope_policy)
        self._invalid_scopes += found.invalid
        return found.scope

    def _unless_duplicate(self, text: str, category: str, scope: str, source: str) -> str | None:
        settings, is_todo = self.settings, category == TODO
        same = [kept for kept in self.kept if not is_todo or (kept.category == TODO and kept.scope == scope)]
        if any(self._alike(text, kept.text) for kept in same):
            return "duplicate"
        if is_todo:
            if sum(kept.category == TODO for kept in self.kept) >= settings.max_todo_per_turn:
                return "todo_rate_limit"
            if any(self._alike(text, known) for known in self._recent_todos(scope)):
                return "todo_dedupe_window"
        vector = self._embed(text)
        if vector is None:
            return "embedding_failed"
        if not is_todo:
            for near in self.store.nearest(vector, 1, scope):
                score = 1.0 / (1.0 + near.distance)
                if score >= settings.duplicate_search_min_score or self._alike(text, near.row.text):
                    return "duplicate"
        self.kept.append(Capture(text, vector, category, scope, IMPORTANCE[category], source))
        return None

    def _alike(self, text: str, other: str) -> bool:
        return self.rules.is_duplicate(text, other, self.settings.dedupe_similarity_threshold)

    def _recent_todos(self, scope: str) -> list[str]:
        hours = self.settings.todo_dedupe_window_hours
        if scope not in self._todos:
            self._todos[scope] = [
                row.text
                for row in self.rules.recent(self.store.listing, scope, dedupe_cutoff_ms(self._now_ms, hours))
                if is_within_dedupe_window(row.created_at, self._now_ms, hours)
            ]
        return self._todos[scope]
