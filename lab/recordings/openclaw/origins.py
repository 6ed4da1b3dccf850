"""What started a session: its key, what the host's index says of it, and else its own transcript (OR-1 to OR-3).

The rules follow how OpenClaw 2026.6.11 and 2026.9.6 sort their sessions. A key is ``agent:<agent>:<rest>``; the rest of
a job's session begins with ``cron:``, that of a sub-agent with ``subagent:``, and so on. Hosts keep only the newest
sessions in the index, so most runs of an old job are transcripts that no index names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lab.base.regex import regex
from lab.recordings.host_prompts import prompt_origin
from lab.recordings.openclaw.entries import Entry
from lab.recordings.origins import ACP, CRON, GROUP, HEARTBEAT, HOOK, PERSON, SUBAGENT, SYSTEM, UNKNOWN_ORIGIN

# How the rest of a key begins, for sessions that no person started.
_PREFIXES = {
    "subagent:": SUBAGENT,
    "acp:": ACP,
    "acp-bridge:": ACP,
    "cron:": CRON,
    "hook:": HOOK,
    "harness:": SYSTEM,
    "dreaming-narrative-": SYSTEM,
    "boot:": SYSTEM,
    "boot-": SYSTEM,
    "internal-session-effects:": SYSTEM,
    "commitments:": SYSTEM,
    "update-repair:": SYSTEM,
    "setup-inference:": SYSTEM,
    "explicit:model-run-": SYSTEM,
}
_WHOLE = {"heartbeat": HEARTBEAT, "boot": SYSTEM, "global": PERSON, "main": PERSON}
# A search that the host runs before a turn of a session has the key of this session with an ending.
_ACTIVE_MEMORY = regex(r":active-memory:[0-9a-f]{12}\Z")
_HEARTBEAT = regex(r":heartbeat(?::|\Z)")
_GROUP = regex(r"(?:^|:)(?:group|channel):")
_GROUPS = ("group", "channel", "thread")
# The time that the host may put before its own prompts.
_TIME = regex(r"\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d[^\]\n]*\]\s*")
# The prompt of a hook says which task or job runs, then quotes what came from outside.
_HOOK = regex(r"(?:Task: [^\n]*?)?(?:\| )?(?:Job ID|Received): [^\n]*\n")
_QUOTED = ("EXTERNAL, UNTRUSTED", "<<<EXTERNAL_UNTRUSTED_CONTENT")
_CONVERSATION = regex(r"Conversation info\b[^\n]*\n+```json\n(.*?)\n```", re.DOTALL)
_IN_GROUP = regex(r'"is_group_chat":\s*true')
# Origins that the first prompt of a session decides: whoever continues it, a machine began it.
_BEGIN = (CRON, HOOK, SUBAGENT)
# Longest beginning of a message that is searched for marks of the host.
_SEARCHED = 20_000


def origin_of(key: str, facts: Mapping[str, Any] | None = None) -> str:
    """Return what started a session, from its key and what an index says of it; ``unknown`` if neither does.

    ``facts`` are the fields of the session's entry in the index, in the spelling of ``sessions.json``.
    """
    facts = facts or {}
    rest = _rest(key)
    if not rest or rest == "unknown":
        return UNKNOWN_ORIGIN
    if facts.get("heartbeatIsolatedBaseSessionKey") or _HEARTBEAT.search(rest):
        return HEARTBEAT
    if _ACTIVE_MEMORY.search(rest):
        return SYSTEM
    if facts.get("hookExternalContentSource"):
        # The turn of a hook runs as a job, and has the key of one.
        return HOOK
    if rest in _WHOLE:
        return _WHOLE[rest]
    if by_prefix := next((origin for prefix, origin in _PREFIXES.items() if rest.startswith(prefix)), None):
        return by_prefix
    if ":subagent:" in rest or facts.get("spawnedBy") or facts.get("createdVia") == "spawn":
        return SUBAGENT
    if facts.get("createdVia") == CRON:
        return CRON
    where = facts.get("origin")
    chats = (facts.get("chatType"), where.get("chatType") if isinstance(where, Mapping) else None)
    if _GROUP.search(rest) or any(chat in _GROUPS for chat in chats):
        return GROUP
    actor = facts.get("createdActor")
    if facts.get("createdVia") == "internal" or (isinstance(actor, Mapping) and actor.get("type") == "system"):
        return SYSTEM
    return PERSON


def strongest(origins: Iterable[str]) -> str:
    """Return the origin of a session that an index lists under several keys: that which is not a person's, if any."""
    found = list(origins)
    return next((origin for origin in found if origin not in (PERSON, UNKNOWN_ORIGIN)), None) or (
        PERSON if PERSON in found else UNKNOWN_ORIGIN
    )


def decided(indexed: str, entries: Iterable[Entry]) -> str:
    """Return the origin of a session from that of the index and from the entries of its transcript.

    The index decides, unless it says nothing, or names a person where every prompt is the host's own. A transcript that
    no index names began as its first prompt says; an unmarked one remains unknown.
    """
    if indexed not in (PERSON, UNKNOWN_ORIGIN):
        return indexed
    marks = []
    for entry in entries:
        if named := _named(entry.value):
            return named
        message = entry.value.get("message")
        if entry.value["type"] == "message" and isinstance(message, dict) and message.get("role") == "user":
            marks.append(_mark(message))
    machines = [mark for mark in marks if mark not in (PERSON, GROUP, UNKNOWN_ORIGIN)]
    if marks and (len(machines) == len(marks) or (indexed == UNKNOWN_ORIGIN and marks[0] in _BEGIN)):
        return machines[0]
    if indexed == PERSON:
        return PERSON
    return next((origin for origin in (GROUP, PERSON) if origin in marks), UNKNOWN_ORIGIN)


def _rest(key: str) -> str:
    """Return a key without its agent, in lower case."""
    parts = key.strip().lower().split(":")
    while len(parts) >= 3 and parts[0] == "agent":
        parts = parts[2:]
    return ":".join(parts)


def _named(value: Mapping[str, Any]) -> str | None:
    """Return the origin that a record of the host names by a session's key or a run's id."""
    data = value.get("data")
    for record in (value, data if isinstance(data, dict) else {}):
        run, key = record.get("runId"), record.get("sessionKey")
        if isinstance(run, str) and run.startswith("dreaming-narrative-"):
            return SYSTEM
        if isinstance(key, str) and (origin := origin_of(key)) not in (PERSON, UNKNOWN_ORIGIN):
            return origin
    return None


def _mark(message: Mapping[str, Any]) -> str:
    """Return who a message of the role ``user`` comes from, as far as it says."""
    provenance = message.get("provenance")
    if isinstance(provenance, dict):
        kind, tool = provenance.get("kind"), provenance.get("sourceTool")
        prefix = provenance.get("sourcePromptPrefix")
        if provenance.get("jobId") or (isinstance(prefix, str) and prefix.startswith("[cron:")):
            return CRON
        if kind in ("internal_system", "inter_session"):
            return SUBAGENT if kind == "inter_session" else HEARTBEAT if tool == "heartbeat" else SYSTEM
        if kind == "external_user":
            return _chat(_opening(message.get("content"))) or PERSON
    text = _opening(message.get("content"))
    begin = _TIME.sub("", text, count=1) if _TIME.match(text) else text
    if origin := prompt_origin(begin):
        return origin
    if _HOOK.match(begin) and any(mark in begin for mark in _QUOTED):
        return HOOK
    return _chat(text) or UNKNOWN_ORIGIN


def _chat(text: str) -> str | None:
    """Return whether the host's block on the conversation, if there is one, names a group or not."""
    block = _CONVERSATION.search(text)
    return (GROUP if _IN_GROUP.search(block[1]) else PERSON) if block else None


def _opening(content: object) -> str:
    """Return the beginning of the first text of a message."""
    if isinstance(content, list):
        content = next((part.get("text") for part in content if isinstance(part, dict) and part.get("text")), "")
    return content[:_SEARCHED].lstrip() if isinstance(content, str) else ""
