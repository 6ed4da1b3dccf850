"""``memory_lancedb``: OpenClaw's own memory plugin, a vector store with three memories before every prompt.

The rules are those of the plugin as published with OpenClaw 2026.9.6, or with 2026.3.13 (HB-9). Configuration: the
plugin's keys (HB-14), and under ``lab`` ``version`` and ``maxItems``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.shape import expect
from lab.base.utf16 import js_length
from lab.embedding.embedder import QUERY
from lab.recordings.model import Memory, Turn
from lab.retrieval.contract import Filter, Query, Row, View
from lab.retrieval.faults import NO_VECTOR, Faults, FaultyView
from lab.retrieval.retrievers import Retrieval, StoreRetriever
from lab.retrieval.stage_timer import StageTimer
from lab.systems.baselines.lancedb_text import (
    CATEGORIES,
    OTHER,
    block,
    category_of,
    cleaned,
    is_of_host,
    is_worth_keeping,
    query_of,
)
from lab.systems.contract import (
    NOTHING,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    Item,
    MemorySystem,
    Recall,
    Signals,
    Standing,
    Stored,
    Writes,
)
from lab.systems.files.settings import Reader
from lab.systems.kit import Kit
from lab.systems.openclaw.config.file import EMBEDDER
from lab.systems.openclaw.memory import normal_row
from lab.systems.spec import ArmSpec

# The name of the plugin in a host's file, and its versions that the lab knows, the present one first.
PLUGIN = "memory-lancedb"
PRESENT, OLD = VERSIONS = ("2026.9.6", "2026.3.13")
KEYS = {
    PRESENT: (
        *("embedding", "dreaming", "dbPath", "autoCapture", "autoRecall", "captureMaxChars", "recallMaxChars"),
        *("customTriggers", "storageOptions"),
    ),
    OLD: ("embedding", "dbPath", "autoCapture", "autoRecall", "captureMaxChars"),
}
EMBEDDING = {
    PRESENT: ("provider", "model", "apiKey", "baseUrl", "dimensions"),
    OLD: ("apiKey", "model", "baseUrl", "dimensions"),
}
LAB = ("arm", "version", "maxItems")
LENGTHS = (100, 10_000)
TRIGGERS, TRIGGER_LENGTH = 50, 100
# What auto-recall injects, and the most that it fetches.
CAP, FETCHED = 3, 10


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings. Lengths are in UTF-16 units; ``recall_max_chars`` None: queries and memories stay whole.

    ``auto_capture`` is on by default, unlike in the plugin: an arm that does not capture would be given memories in a
    run whose memories are captured.
    """

    version: str = PRESENT
    auto_recall: bool = True
    auto_capture: bool = True
    capture_max_chars: int = 500
    recall_max_chars: int | None = 1000
    custom_triggers: tuple[str, ...] = ()
    max_items: int = CAP

    @property
    def is_old(self) -> bool:
        """Whether the rules are those of 2026.3.13."""
        return self.version == OLD

    @property
    def fetched(self) -> int:
        """The number of hits that auto-recall requests; 2026.3.13 requests no more than it injects."""
        return self.max_items if self.is_old else FETCHED

    def as_json(self) -> dict[str, Any]:
        """Return the settings as a configuration; :func:`settings_of` reads it back."""
        config: dict[str, Any] = {
            "lab": {"arm": "memory_lancedb", "version": self.version, "maxItems": self.max_items},
            "autoRecall": self.auto_recall,
            "autoCapture": self.auto_capture,
            "captureMaxChars": self.capture_max_chars,
        }
        if not self.is_old:
            config["recallMaxChars"] = self.recall_max_chars
            config["customTriggers"] = list(self.custom_triggers)
        return config


def settings_of(config: object, raw: object, where: str) -> tuple[Settings, str | None]:
    """Return the settings, and the embedding model that the configuration names.

    ``config`` is the plugin's configuration; ``raw`` is the whole file. A host's file implies the plugin's default
    model. Raise :class:`UnusableInput`, naming file, key and value, for what the plugin refuses.
    """
    host = isinstance(raw, Mapping) and any(key in raw for key in ("plugins", "entries", PLUGIN))
    if config is None:
        return Settings(), EMBEDDER if host else None
    values = expect(config, dict, where)
    lab = Reader(values.get("lab", {}), f"{where}: lab", LAB)
    version = lab.choice("version", VERSIONS)
    top = Reader(values, where, ("lab", *KEYS[version]))
    defaults = Settings(version)
    most = None if version == OLD else defaults.recall_max_chars
    return (
        Settings(
            version,
            top.flag("autoRecall", True),
            top.flag("autoCapture", True),
            top.whole("captureMaxChars", defaults.capture_max_chars, *LENGTHS),
            most if most is None else top.whole("recallMaxChars", most, *LENGTHS),
            _triggers(top.get("customTriggers", ()), where),
            lab.whole("maxItems", CAP, 1, FETCHED),
        ),
        _model(top.get("embedding"), version, where, implied=host),
    )


def _triggers(value: object, where: str) -> tuple[str, ...]:
    given = list(value) if isinstance(value, list | tuple) else None
    if given is None or len(given) > TRIGGERS or not all(_is_trigger(each) for each in given):
        raise UnusableInput(
            f"{where}: customTriggers: expected at most {TRIGGERS} texts of 1 to {TRIGGER_LENGTH} characters, "
            f"found {value!r:.80}"
        )
    return tuple(given)


def _is_trigger(value: object) -> bool:
    return isinstance(value, str) and 0 < js_length(value) <= TRIGGER_LENGTH


def _model(section: object, version: str, where: str, *, implied: bool) -> str | None:
    if section is None:
        return EMBEDDER if implied else None
    return str(Reader(section, f"{where}: embedding", EMBEDDING[version]).get("model") or EMBEDDER)


# The lowest score of a hit of auto-recall.
MIN_SCORE = 0.3
# A prompt of fewer UTF-16 units is not searched for.
SHORTEST_PROMPT = 5
# Of the nearest memories, one of at least this score makes a capture a duplicate.
NEAREST, SAME = 5, 0.95
# Captures at the end of a turn; in 2026.3.13, the first capturable messages of a session.
PER_TURN = 3
# Texts of a session that are remembered as done, and not embedded again.
DONE = 60
# What every capture is stored with.
IMPORTANCE = 0.7
OFF, SHORT, NO_HIT = "auto_recall_off", "prompt_too_short", "no_hit"


def make(spec: ArmSpec) -> LanceDbArm:
    """Make the arm. Raise :class:`lab.base.errors.UnusableInput` for a configuration that the plugin refuses."""
    settings, model = settings_of(spec.config, spec.raw, spec.where)
    return LanceDbArm(spec.name, settings, spec.embedder or model)


@dataclass(frozen=True, slots=True)
class LanceDbArm:
    """The plugin with its settings. ``embedder`` is the model that the configuration names, if any."""

    name: str
    settings: Settings
    embedder: str | None = None
    claims: ClassVar[tuple[str, ...]] = ("relevant", "meaning", "embedder")
    retrieval: ClassVar[Retrieval] = Retrieval()
    # It searches for a changed prompt, in a table that it writes to.
    shares: ClassVar[bool] = False

    def describe(self) -> ArmInfo:
        """Return name and configuration."""
        settings = self.settings
        return ArmInfo(
            self.name,
            "memory_lancedb",
            settings.max_items,
            settings.fetched,
            settings.as_json(),
            at_most=settings.max_items,
            writes=settings.auto_capture,
            embedder=self.embedder,
        )

    def query_for(self, prompt: str) -> str:
        """Return the text that is embedded for a prompt; blank if it is not searched for (HB-10)."""
        settings = self.settings
        if not settings.auto_recall or js_length(prompt) < SHORTEST_PROMPT:
            return ""
        return prompt if settings.recall_max_chars is None else query_of(prompt, settings.recall_max_chars)

    def widened(self, items: int) -> LanceDbArm:
        """Return the arm that injects up to ``items`` memories, at most as many as the plugin fetches."""
        return replace(self, settings=replace(self.settings, max_items=min(items, FETCHED)))

    def open(self, kit: Kit) -> LanceDb:
        """Open an empty table."""
        return LanceDb(self, kit)


class Found(NamedTuple):
    """What one search found: rows with their squared L2 distance and score, nearest first, above the lowest score."""

    rows: Sequence[tuple[Row, float, float]]
    hits: int


class LanceDb(MemorySystem):
    """The table of one conversation, and what was captured of its current session."""

    def __init__(self, arm: LanceDbArm, kit: Kit) -> None:
        self._arm, self._settings, self._kit = arm, arm.settings, kit
        self._table = kit.search(arm.retrieval)
        self._capture = SessionCapture(arm.settings, kit, self._table)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Store memories that the loop provides, as they are (HB-14)."""
        self._table.write(self._kit.rows.of(memories))

    def forget(self, keys: Sequence[str]) -> None:
        """Delete memories that the recording deletes."""
        self._table.remove(self._kit.rows.known(keys))

    def recall(self, ask: Ask) -> Recall:
        """Search for the nearest memories and inject the first few (HB-10)."""
        timer = StageTimer()
        query = self._arm.query_for(ask.text)
        if not query:
            return self._nothing(SHORT if self._settings.auto_recall else OFF)
        failed = next((NO_VECTOR[fault] for fault in NO_VECTOR if fault in ask.faults), None)
        if failed is None and "vector_error" in ask.faults:
            failed = "search_failed"
        if failed is not None:
            return replace(self._nothing(failed), status="degraded")
        found = timer.stage("retrieve", lambda: self._search(query, ask.faults, timer))
        recall = timer.stage("wrap", lambda: self._injected(found))
        return replace(recall, timings=timer.timings)

    def observe(self, turn: Turn) -> Writes:
        """Capture at the end of a turn of the agent, if the loop provides no memories (HB-12)."""
        return self._capture.observe(turn) if self._kit.captures else NOTHING

    def close(self) -> None:
        """Close the table."""
        self._table.close()

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Explain each memory by its distance to the prompt and its rank among all memories."""
        reason = recall.receipt.get("reason")
        if reason in (OFF, SHORT) or recall.status == "degraded":
            cause = {OFF: "nothing", SHORT: "trivial"}.get(str(reason), "fault")
            return Explained.of(self._about, dict.fromkeys(relevant, (cause, str(reason))))
        return explained(self._about, self._ranked(self._arm.query_for(ask.text)), recall, relevant, self._settings)

    @property
    def _about(self) -> str:
        return f"memory-lancedb {self._settings.version}"

    def _nothing(self, reason: str) -> Recall:
        return Recall(receipt={**self._head, "hits": 0, "clean": 0, "injected": 0, "reason": reason}, status="skipped")

    @property
    def _head(self) -> dict[str, object]:
        return {"plugin": "memory-lancedb", "version": self._settings.version}

    def _search(self, query: str, faults: Faults, timer: StageTimer) -> Found:
        view = FaultyView(self._view(query), faults)
        hits = timer.search(view, Filter(), self._settings.fetched).vec
        rows = self._table.store.rows
        near = [(rows[hit.row], hit.distance, score_of(hit.distance)) for hit in hits]
        return Found([hit for hit in near if hit[2] >= MIN_SCORE], len(hits))

    def _view(self, query: str) -> View:
        self._table.vectors.prepare([query], role=QUERY)
        return self._table.store.view(Query("", [], self._table.vectors.of([query], QUERY)[0]))

    def _ranked(self, query: str) -> list[tuple[Row, float]]:
        rows = self._table.store.rows
        hits = self._view(query).search(Filter(), max(1, len(rows))).vec
        return [(rows[hit.row], hit.distance) for hit in hits]

    def _injected(self, found: Found) -> Recall:
        settings = self._settings
        clean = [hit for hit in found.rows if settings.is_old or is_usable(hit[0].text)]
        chosen = [(category_in(row), row.text) for row, _, _ in clean[: settings.max_items]]
        items = tuple(
            Item(row.key, row.text, (row.key,), score, Signals(row.id, None, row.scope, None, rank, "ranked"))
            for rank, (row, _, score) in enumerate(clean, 1)
        )
        receipt = {**self._head, "hits": found.hits, "clean": len(clean), "injected": len(chosen)}
        if not chosen:
            return Recall(items, 0, "", {**receipt, "reason": NO_HIT}, status="skipped")
        log = (f"memory-lancedb: injecting {len(chosen)} memories into context",)
        return Recall(items, len(chosen), block(chosen, settings.recall_max_chars), receipt, log=log)


class SessionCapture:
    """Captures the user's messages of one session after another (HB-12).

    A turn of the agent ends at the first reply to a user's message; in a conversation without replies, as between
    people, every message ends a turn. The key of a memory is the key of the turn that ended, with a number.
    """

    def __init__(self, settings: Settings, kit: Kit, table: StoreRetriever) -> None:
        self._settings, self._kit, self._table = settings, kit, table
        self._session = ""
        self._waiting: list[Turn] = []
        # Texts of the session that were stored or were duplicates, oldest first.
        self._done: dict[str, None] = {}
        # Messages of the session that were worth keeping (2026.3.13).
        self._capturable = 0

    def observe(self, turn: Turn) -> Writes:
        """Note a user's message, or capture at the end of a turn."""
        if turn.session != self._session:
            self._session, self._waiting, self._done, self._capturable = turn.session, [], {}, 0
        if turn.role == "user":
            self._waiting.append(turn)
            if self._kit.replies:
                return NOTHING
        elif turn.role != "assistant" or not self._waiting:
            return NOTHING
        waiting, self._waiting = self._waiting, []
        captured = self._first_of_session(waiting) if self._settings.is_old else self._of_turn(waiting)
        created = [
            self._store(text, f"{turn.key}#{number}", source, turn.time_ms)
            for number, (text, source) in enumerate(captured)
        ]
        return Writes(tuple(created)) if created else NOTHING

    def _of_turn(self, messages: Sequence[Turn]) -> Iterator[tuple[str, Turn]]:
        """Yield the texts to store: of one turn's messages, the first three worth keeping, less the duplicates."""
        settings, seen = self._settings, 0
        for message in messages:
            text = cleaned(message.text)
            if not text or not is_worth_keeping(text, settings.capture_max_chars, settings.custom_triggers):
                continue
            if text not in self._done:
                seen += 1
                if seen > PER_TURN:
                    continue
                if not self._is_duplicate(text, NEAREST):
                    yield text, message
            self._done[text] = None
            if len(self._done) > DONE:
                del self._done[next(iter(self._done))]

    def _first_of_session(self, messages: Sequence[Turn]) -> Iterator[tuple[str, Turn]]:
        """Yield the texts to store: the first three of the session that are worth keeping, less the duplicates.

        The plugin reads the whole session at the end of every turn, and its earlier captures are duplicates by then.
        """
        for message in messages:
            if is_worth_keeping(message.text, self._settings.capture_max_chars, old=True):
                self._capturable += 1
                if self._capturable <= PER_TURN and not self._is_duplicate(message.text, 1):
                    yield message.text, message

    def _is_duplicate(self, text: str, limit: int) -> bool:
        """Return whether one of the ``limit`` nearest memories is nearly the same text (HB-12)."""
        vectors = self._table.vectors
        vectors.prepare([text])
        view = self._table.store.view(Query("", [], vectors.of([text])[0]))
        hits = view.search(Filter(), limit).vec
        rows = self._table.store.rows
        return any(
            score_of(hit.distance) >= SAME and (self._settings.is_old or is_usable(rows[hit.row].text)) for hit in hits
        )

    def _store(self, text: str, key: str, source: Turn, now_ms: int) -> Stored:
        category = category_of(text, old=self._settings.is_old)
        row = normal_row(
            key, text, text, now_ms, category=category, label=None, scope=source.scope, importance=IMPORTANCE
        )
        self._table.write([row])
        return Stored(key, text, (source.key,))


def score_of(distance: float) -> float:
    """Return the plugin's score of a squared L2 distance, 1 / (1 + distance) (HB-10)."""
    return 1.0 / (1.0 + distance)


def is_usable(text: str) -> bool:
    """Return whether a stored memory may be injected: it has text, and none that the host added (HB-10)."""
    return bool(text.strip()) and not is_of_host(text)


def category_in(row: Row) -> str:
    """Return a row's category as the plugin knows it: one of five, ``other`` for any that it lacks."""
    return row.category if row.category in CATEGORIES else OTHER


def explained(
    about: str, ranked: Sequence[tuple[Row, float]], recall: Recall, relevant: Sequence[str], settings: Settings
) -> Explained:
    """Explain each relevant memory by its rank among all ``ranked`` rows and its score."""
    injected = {item.id for item in recall.items[: recall.injected]}
    standings = {
        row.key: Standing(None, rank, score_of(distance), None, rank) for rank, (row, distance) in enumerate(ranked, 1)
    }
    texts = {row.key: row.text for row, _ in ranked}
    lost: dict[str, tuple[str, str]] = {}
    for key in relevant:
        if key in injected or key not in standings:
            continue
        rank, score = standings[key].rank or 0, standings[key].score or 0.0
        if rank > settings.fetched:
            lost[key] = "depth", f"nearest {rank}; only {settings.fetched} are fetched"
        elif score < MIN_SCORE:
            lost[key] = "score", f"score {score:.3f}; the lowest is {MIN_SCORE}"
        elif not settings.is_old and not is_usable(texts[key]):
            lost[key] = "nothing", "it has text that the host added"
        else:
            lost[key] = "slot", f"nearest {rank}; only {settings.max_items} are injected"
    beyond = tuple(item.id for item in recall.items[recall.injected : recall.injected + 3])
    shown = {key: standings[key] for key in relevant if key in standings}
    return Explained.of(about, lost, standings=shown, runners_up=beyond)
