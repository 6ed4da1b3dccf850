"""What a transcript holds besides texts: uses of tools, and blocks of memories injected before a prompt.

They describe what the live agent and its engine did. ``lab canary agree`` and ``lab memory episodes`` read them. A
replay takes only a slice of its probes from them (``agent_searched``), and no recording is written with them.
"""

from __future__ import annotations

from dataclasses import dataclass

# The tools by which an agent looks into its memory.
SEARCHES = ("memory_recall", "memory_search")


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """A memory as the live engine showed it. Unrecorded fields are blank or None; ``created_at`` is epoch ms."""

    text: str
    id: str = ""
    category: str = ""
    label: str = ""
    scope: str = ""
    trust: str = ""
    score: float | None = None
    distance: float | None = None
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """The result of a call of ``memory_store``, ``memory_forget`` or ``memory_recall``, at epoch ms ``time_ms``.

    Calls of rsclaw's ``memory_add`` and ``memory_delete`` are events of the first two; its ``memory_search``,
    ``memory_pin`` and ``memory_unpin`` keep their names.

    ``memories`` are the stored or deleted memory, or those that were recalled, in order. Only recalls may have
    ``failed``, and have the rest: the arguments (``limit`` as given, None if missing), the names in the receipt of the
    embedding model and of the scope that was searched, the number of hits of each lane, and the ``reasons`` that the
    receipt gives. ``for_host``: the host
    asked, for example with a heartbeat, and not the user.
    """

    tool: str
    time_ms: int
    memories: tuple[RecordedMemory, ...] = ()
    failed: bool = False
    query: str = ""
    limit: object = None
    scope: str | None = None
    model: str = ""
    searched_scope: str = ""
    fts: int | None = None
    vec: int | None = None
    reasons: tuple[str, ...] = ()
    for_host: bool = False


@dataclass(frozen=True, slots=True)
class InjectedBlock:
    """A block of memories before a user's message.

    ``memories`` are the complete ones, in order; documents and the Working Set are left out, and counted in ``others``.
    ``cut``: the budget cut the block, so its last memory may be missing.
    """

    memories: tuple[RecordedMemory, ...] = ()
    others: int = 0
    cut: bool = False


Event = ToolEvent | InjectedBlock


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of any tool, or the result of one, at epoch ms ``time_ms``.

    ``key`` names it within its recording, as the key of a turn does. ``text`` is the arguments as JSON, or the text of
    the result; it is cut. Only results have ``is_error``.
    """

    key: str
    tool: str
    time_ms: int
    text: str
    is_result: bool = False
    is_error: bool = False
