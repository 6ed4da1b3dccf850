"""Scopes by agent and channel (RS-9). The channels of the host's own traffic recall nothing."""

from __future__ import annotations

import re

INTERNAL = ("heartbeat", "cron", "system")
CHAT = "chat"
_PARTS = re.compile(r"[:/]")


def default_scope(agent: str, channel: str) -> str:
    """Return the scope of an agent, which is separate for each internal channel."""
    return f"agent:{agent}:{channel}" if channel in INTERNAL else f"agent:{agent}"


def channel_of(session: str | None, scope: str | None) -> str:
    """Return the internal channel that a session's id or a scope names as one of its parts, else ``chat``.

    Ids look like ``agent:main:cron:backup``, scopes like ``agent:main:cron``.
    """
    parts = _PARTS.split(f"{session or ''}:{scope or ''}")
    return next((channel for channel in INTERNAL if channel in parts), CHAT)
