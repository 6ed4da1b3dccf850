"""autoCapture while a conversation is replayed (E-78): from turns to rows in the table that recall searches.

The rules of the public plugin and those that the seeds require (E-71 to E-79) stand side by side in :data:`RULES`.
"""

from __future__ import annotations

import re

from lab.base.regex import regex
from lab.base.utf16 import js_slice
from lab.recordings.model import Turn
from lab.retrieval.retrievers import StoreRetriever
from lab.systems.contract import NOTHING, Stored, Writes
from lab.systems.kit import Kit
from lab.systems.openclaw.capture.candidates import (
    detect_bounded,
    detect_category,
    is_tool_like,
    plugin_spans,
    strip_all,
    strip_injected,
    tagged_spans,
)
from lab.systems.openclaw.capture.pipeline import MAX_TODOS, TODO, Captured, CaptureStore, Message, Rules, capture
from lab.systems.openclaw.capture.secrets import holds_secret, looks_secret_to_plugin
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import Listing, label_of_score, normal_row
from lab.systems.openclaw.near_duplicate import is_near_duplicate, is_near_duplicate_cjk

_CLOSING = "</relevant-memories>"
_LAST_END = regex(r".*(?:\n|[.!?](?=\s)|[。！？])", re.DOTALL)


def cut_whole(text: str, units: int) -> str:
    """Return the whole lines or sentences at the start of a text that fit into ``units`` UTF-16 units.

    Half a sentence would be stored as if it had been said, and half a secret would not be recognised.
    """
    match = _LAST_END.match(js_slice(text, units))
    return match[0] if match else ""


def is_tool_output(text: str) -> bool:
    """Return whether a candidate is the output of a tool, or ends an injected block whose start is missing."""
    return is_tool_like(text) or _CLOSING in text.lower()


SEED = Rules(
    clean=strip_all,
    spans=tagged_spans,
    is_secret=holds_secret,
    is_tool_like=is_tool_output,
    category=detect_category,
    is_duplicate=is_near_duplicate_cjk,
    cut=cut_whole,
    recent=lambda listing, scope, since: listing.recent(scope, (TODO,), MAX_TODOS),
    newest_first=True,
    counts_all=True,
)


# The rules of autoCapture in the public plugin.
UPSTREAM = Rules(
    clean=strip_injected,
    spans=plugin_spans,
    is_secret=looks_secret_to_plugin,
    is_tool_like=is_tool_like,
    category=detect_bounded,
    is_duplicate=is_near_duplicate,
    cut=js_slice,
    recent=lambda listing, scope, since: listing.recent_of_first(scope, (TODO,), MAX_TODOS, since),
)


RULES: dict[str, Rules] = {"seed": SEED, "upstream": UPSTREAM}


class TurnCapture:
    """Captures at the end of every turn of the agent, which is the first reply after a user's message.

    In a conversation without any reply, as between people, every message ends a turn. Each session is a conversation of
    the host, so its messages are read without those of earlier sessions. Captured rows go to the ``table`` and, through
    ``listing``, to the Working Set. The key of a memory is the key of the reply with the number of the memory.
    """

    def __init__(self, config: EngineConfig, kit: Kit, table: StoreRetriever, listing: Listing) -> None:
        self._config, self._kit, self._table, self._listing = config, kit, table, listing
        self._messages: list[Message] = []
        self._session = ""
        self._waiting = False

    def observe(self, turn: Turn) -> Writes:
        """Note a user's message, or capture at the reply to it; return what was stored."""
        if turn.session != self._session:
            self._session, self._messages, self._waiting = turn.session, [], False
        if turn.role == "user":
            # Under recorded scopes, recall filters by the scope of the turn, so the memory has to be in it (E-67).
            scope = turn.scope if self._kit.scoping == "given" else None
            self._messages.append(Message((turn.text,), turn.key, scope))
            self._waiting = True
            if self._kit.replies:
                return NOTHING
        elif turn.role != "assistant" or not self._waiting:
            return NOTHING
        self._waiting = False
        rules = RULES[self._config.profile]
        store = CaptureStore(self._table, self._listing)
        return self._stored(
            capture(self._messages, self._config, rules, store, now_ms=turn.time_ms, embed=self._table.vector), turn
        )

    def _stored(self, captured: Captured, turn: Turn) -> Writes:
        created = []
        for number, item in enumerate(captured.stored):
            key = f"{turn.key}#{number}"
            row = normal_row(
                key,
                item.text,
                item.text,
                turn.time_ms,
                category=item.category,
                label=label_of_score(item.importance),
                scope=item.scope,
                importance=item.importance,
            )
            self._table.write([row])
            self._listing.add([row])
            created.append(Stored(key, item.text, (item.source,)))
        return Writes(tuple(created), receipt=captured.receipt or {}, log=tuple(line for _, line in captured.log))
