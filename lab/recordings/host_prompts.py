"""Prompts that a host writes by itself, and texts that look like one and match no rule (OC-H5, OC-H7)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from lab.base.regex import regex
from lab.recordings.origins import CRON, HEARTBEAT, HOOK, SUBAGENT, SYSTEM

# The tokens by which an agent says that it has nothing to say.
SILENT = ("NO_REPLY", "HEARTBEAT_OK")
# Kinds of prompts that start work of their own.
JOBS, SUBAGENTS, OTHERS = "prompts of jobs", "tasks of subagents", "messages of other sessions"
EXTERNAL, EVENTS, INTERNAL = "external content", "events", "marked as internal"
_DECORATION = "*_`~\"'.!,:;()[]<>/ \t\n\u3002\uff01"
_TAG = regex(r"</?[A-Za-z][^<>]{0,40}>|&nbsp;")
# What the host adds to a prompt, or sends instead of it, after a turn that failed.
RETRY = (
    r"The previous (?:assistant turn|model attempt|attempt) [^\n]{0,300}"
    r"\b(?:Continue from|[Dd]o not restart|[Dd]o not restate|[Aa]ct now)\b"
)
# A kind of prompt, how it begins, and what started a session that begins so, where this says it. Every version of the
# host has its own wording, so a pattern holds the words that all versions share, and enough of them that no person
# begins so. A prompt without a kind tells the origin of its session alone.
_BEGINNINGS: tuple[tuple[str, str] | tuple[str, str, str], ...] = (
    (
        "heartbeats",
        r"Read HEARTBEAT\.md if it exists\b[^\n]*(?:Follow it strictly|HEARTBEAT_OK|NO_REPLY|heartbeat_respond)",
        HEARTBEAT,
    ),
    ("heartbeats", r"Read HEARTBEAT\.md if it exists\s*(?:\.\.\.|\u2026)?\s*\Z", HEARTBEAT),
    ("", r"Read HEARTBEAT\.md if it exists\b", HEARTBEAT),
    ("heartbeats", r"Follow the heartbeat monitor scratch context"),
    ("heartbeats", r"Run the following periodic tasks \(only those due"),
    ("heartbeats", r"\[OpenClaw heartbeat[^\]\n]*\]", HEARTBEAT),
    ("heartbeats", r"Due inferred follow-up commitments are available"),
    ("results of commands", r"\[OpenClaw exec completion\]"),
    (
        "results of commands",
        r"An (?:approved )?async command (?:you ran|the user|completion|did not|was not|has an|has)",
    ),
    ("reminders", r"A scheduled (?:reminder|cron event|task|job|event) (?:has been |was )triggered"),
    ("reminders", r"\[OpenClaw cron[^\]\n]*\]"),
    (JOBS, r"\[cron:[^\]\n]+\]", CRON),
    (JOBS, r"\[loop [^\]\n]+\][^\n]*\n+Do the task and reply concisely"),
    ("memory flushes", r"Pre-compaction memory flush(?: turn)?\."),
    ("session starts", r"A new session was started via /(?:new|reset)"),
    ("session starts", r"\[Startup context loaded by runtime\]"),
    ("session starts", r"\[Post-compaction context refresh\]"),
    ("session starts", r"You are running a boot check\. Follow BOOT\.md", SYSTEM),
    ("", r"You are running a boot check\.", SYSTEM),
    ("", r"Write a dream diary entry from these memory fragments", SYSTEM),
    ("", r"SECURITY NOTICE: The following content is from an EXTERNAL, UNTRUSTED source", HOOK),
    ("retries", r"Continue where you left off\. The previous (?:model )?(?:attempt|run|turn)\b"),
    ("retries", r"(?:Continue from|Continue the current task from) the (?:current|existing|compacted) transcript\b"),
    ("retries", RETRY),
    ("retries", r"Before accepting the previous final answer, apply this revision request"),
    ("retries", r"\[System\] Your previous turn was interrupted"),
    ("retries", r"\[SYSTEM HANDOFF\]"),
    ("restarts", r"GatewayRestart:|Gateway restart [\w-]+ (?:ok|error|skipped)(?: \([\w-]+\))?\s*(?:\n|\Z)"),
    ("reports of subagents", r"\[System Message\]"),
    ("reports of subagents", r"\[Internal task completion event\]"),
    ("reports of subagents", r"OpenClaw runtime (?:context|event)\b[^\n]{0,200}[:.]?[ \t]*\n"),
    ("reports of subagents", r"\[OpenClaw runtime event\]"),
    (SUBAGENTS, r"\[Subagent (?:Context|Task)\]", SUBAGENT),
    ("", r"A subagent task \"", SUBAGENT),
    ("reports of subagents", r"A (?:[\w-]+ ){1,3}\"[^\n]*\" (?:just )?(?:completed|finished|failed|timed out)\b"),
    ("reports of subagents", r"A background task (?:completed|finished|failed|needs attention|timed out)\b"),
    ("reports of subagents", r"A completed [\w -]{1,40} is ready for (?:parent review|user delivery)\b"),
    (OTHERS, r"\[Inter-session message\]", SUBAGENT),
    (OTHERS, r"Agent-to-agent (?:announce step|reply step|message context)\b"),
    (EVENTS, r"\[OpenClaw [a-z][^\]\n]{0,80}\]"),
    (EVENTS, r"\[sessions_yield interrupt\]"),
    (EVENTS, r"\[Generated media delivery retry\]"),
    ("clicks and reactions", r"\[(?:reacted with|removed reaction) [^\]\n]{1,200}\]\s*\Z"),
    ("clicks and reactions", r"\[(?:Button click|Discord component|Discord select menu): [^\]\n]{1,300}\]\s*\Z"),
)
_KINDS, _ORIGINS = (
    [(names[which], names[1]) for names in _BEGINNINGS if len(names) > which and names[which]] for which in (0, 2)
)
_KIND, _ORIGIN = (
    regex("|".join(f"(?P<k{at}>{pattern})" for at, (_, pattern) in enumerate(named))) for named in (_KINDS, _ORIGINS)
)
# The line that the host adds to prompts of its own alone.
CURRENT_TIME = regex(
    r"Current time: (?:\w+, \w+ \d{1,2}\w{0,2}, \d{4} \u2014 [^\n]{3,60}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\n]{0,40})"
    r"(?:\nReference UTC: [^\n]{0,40})?\s*\Z"
)
_TOKEN_LINE = regex(r"(?:HEARTBEAT_OK)\W*\Z")
_INSTRUCTION = regex(r"\b(?:reply|respond|answer|return|say|send|output)\b[^.!?\n]{0,80}\bHEARTBEAT_OK\W{0,4}\Z")
_CONDITION = regex(r"\W*(?:if|when|unless|otherwise|else|then|after|once|reply|respond|answer|return)\b", re.IGNORECASE)
_REFUSAL = regex(r"\b(?:not|never|stop|why|don['\u2019]?t|shouldn['\u2019]?t)\b", re.IGNORECASE)
_RESPOND_TOOL = "Use heartbeat_respond to report the wake outcome."


def prompt_kind(text: str) -> str | None:
    """Return which kind of prompt of the host a text is as a whole, or None."""
    match = _KIND.match(text)
    if match and match.lastgroup:
        return _KINDS[int(match.lastgroup[1:])][0]
    if CURRENT_TIME.search(text, max(0, len(text) - 300)):
        return "prompts with the host's time"
    if _ends_with_instruction(text) or _RESPOND_TOOL in text[-900:]:
        return "heartbeats"
    return None


def prompt_origin(text: str) -> str | None:
    """Return what started a session that begins with this prompt, if the prompt says it."""
    match = _ORIGIN.match(text)
    return _ORIGINS[int(match.lastgroup[1:])][0] if match and match.lastgroup else None


def _ends_with_instruction(text: str) -> bool:
    """Return whether the last sentence tells the agent when to answer HEARTBEAT_OK, as every heartbeat prompt does."""
    tail = text[-400:]
    match = _INSTRUCTION.search(tail) if _TOKEN_LINE.search(tail) else None
    if match is None:
        return False
    before = tail[: match.start()]
    start = max(before.rfind(mark) for mark in (". ", "! ", "? ", ".\n", "\n")) + 1
    if _REFUSAL.search(tail, start):
        return False
    return _CONDITION.match(tail, start) is not None or "heartbeat" in text[: len(text) - len("HEARTBEAT_OK.")].lower()


def silent_token(text: str) -> str | None:
    """Return the token if a reply is nothing else, whatever marks decorate it."""
    bare = _TAG.sub(" ", text).strip(_DECORATION) if len(text) < 200 else ""
    tokens = set(bare.split())
    return tokens.pop() if len(tokens) == 1 and tokens <= set(SILENT) else None


class Suspect(NamedTuple):
    """A shape of the host's that no rule knows, in how many turns it occurs, and the beginning of one of them."""

    shape: str
    turns: int
    example: str


_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a marker such as <<<\u2026>>>", regex(r"<<<[^<>\n]{1,120}>>>|\u27e6[^\u27e7\n]{1,60}\u27e7")),
    ("the word untrusted in brackets", regex(r"[(\[][^()\[\]\n]{0,80}\buntrusted\b", re.IGNORECASE)),
    ("a token of heartbeats or silence", regex(r"HEARTBEAT|\bNO_REPLY\b")),
    ("a line that begins with System", regex(r"^System(?: \([^)\n]{1,40}\))?:", re.MULTILINE)),
    ("a bracket at the beginning", regex(r"\A\[[^\[\]\n]{2,300}\](?!\()")),
    ("a bracket at the end", regex(r"(?:\A|\n)\[[^\[\]\n]{2,300}\]\Z")),
    ("a tag at the beginning", regex(r"\A</?[A-Za-z][\w:.-]{1,60}(?:\s[^<>\n]{0,200})?>")),
    ("a heading with a note in brackets", regex(r"\A[A-Z][^\n:]{0,80} \([^()\n]{3,120}\):[ \t]*\n")),
)
# Fewer repetitions, or shorter ones, are what people do ("go on").
REPEATED, _LEAST_LENGTH, _SHOWN = 5, 30, 72


def suspects(texts: Iterable[str]) -> tuple[Suspect, ...]:
    """Return what looks like a host's text among the user turns that the rules kept."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    repeated: Counter[str] = Counter()

    def found(shape: str, text: str, count: int = 1) -> None:
        counts[shape] += count
        shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * _SHOWN])
        examples.setdefault(shape, " ".join(shown.split())[:_SHOWN])

    for text in texts:
        if len(text) >= _LEAST_LENGTH:
            repeated[text] += 1
        # Only the ends: what is in the midst is what a person quotes.
        ends = text if len(text) <= 2000 else f"{text[:1000]}\n{text[-1000:]}"
        for shape, pattern in _SHAPES:
            if match := pattern.search(ends):
                found(shape, ends[match.start() :].lstrip())
                break
    for text, count in repeated.items():
        if count >= REPEATED:
            found(f"the same text {REPEATED} times or more", text, count)
    return tuple(Suspect(shape, count, examples[shape]) for shape, count in sorted(counts.items()))
