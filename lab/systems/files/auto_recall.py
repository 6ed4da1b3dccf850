"""``auto_recall``: openclaw-auto-recall, which searches the host's memory with every prompt (seed 004)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from lab.base.regex import regex
from lab.base.token_estimate import tokens
from lab.base.utf16 import WHITESPACE, js_length
from lab.recordings.model import Turn
from lab.retrieval.faults import SLOW_NS
from lab.retrieval.stage_timer import StageTimer
from lab.systems.contract import ArmInfo, Ask, Recall, Status, Step
from lab.systems.files.search import Found, Hit, query_of
from lab.systems.files.settings import Reader, Settings, host_section, read_settings
from lab.systems.files.system import (
    BELOW,
    BUDGET,
    INJECTED,
    SLOTS,
    FileMemory,
    Trace,
    harmed,
    items_of,
    receipt_of,
    rendered,
)
from lab.systems.kit import Kit
from lab.systems.spec import ArmSpec

OPEN, CLOSE = "[auto-recall]", "[/auto-recall]"
# The release of the host on which the plugin was developed.
HOST = "2026.6.6"
# The host returns at most 100 results, and the plugin fetches twice its own.
MOST_RESULTS = 50
STAGES, OVERFLOW = ("adjusted", "raw"), ("stop", "skip")
SKIP = (r"^HEARTBEAT_OK\b", r"^NO_REPLY\b", r"^/(?:status|model|reset|new|approve|stop)(?:\s|$)")
DRAFTS = (r"memory/drafts/", r"memory/draft-.*\.md$")
_QUOTE = regex(r"\[/?auto-recall\]|Source: [\w/.-]+#L\d")
_BLOCK = regex(rf"{re.escape(OPEN)}.*?{re.escape(CLOSE)}\s*", re.DOTALL)
_KEYS = (
    *("maxResults", "minScore", "maxTokens", "minChars", "skipPatterns", "draftPatterns", "draftPenalty"),
    *("draftRoles", "min_score_stage", "overflow", "strip_tags", "timeoutMs", "memorySearch", "lab"),
)


@dataclass(frozen=True, slots=True)
class AutoRecallArm:
    """The plugin with its configuration (AR-1). The first three settings are its own; the others it fixes in its code.

    ``timeout_ms`` has no value in the plugin's description.
    """

    name: str
    host: Settings
    depth: int = 50
    max_results: int = 5
    min_score: float = 0.5
    max_tokens: int = 768
    min_chars: int = 10
    skip_patterns: tuple[str, ...] = SKIP
    draft_patterns: tuple[str, ...] = DRAFTS
    draft_penalty: float = 0.15
    draft_roles: tuple[str, ...] = ("tool",)
    min_score_stage: str = STAGES[0]
    overflow: str = OVERFLOW[0]
    strip_tags: bool = False
    timeout_ms: int = 5000
    # By its minimum score it may find the right memory and not inject it.
    claims: ClassVar[tuple[str, ...]] = ("meaning", "embedder")

    def describe(self) -> ArmInfo:
        """Describe the arm. A result may hold many memories, so every rank of the ranking may be injected."""
        config: dict[str, Any] = {
            "maxResults": self.max_results,
            "minScore": self.min_score,
            "maxTokens": self.max_tokens,
            "minChars": self.min_chars,
            "skipPatterns": list(self.skip_patterns),
            "draftPatterns": list(self.draft_patterns),
            "draftPenalty": self.draft_penalty,
            "draftRoles": list(self.draft_roles),
            "min_score_stage": self.min_score_stage,
            "overflow": self.overflow,
            "strip_tags": self.strip_tags,
            "timeoutMs": self.timeout_ms,
            "memorySearch": self.host.config(),
        }
        inputs, missing = self.host.inputs(), self.host.missing
        return ArmInfo(
            self.name, "auto_recall", self.depth, self.depth, config, writes=True, missing=missing, inputs=inputs
        )

    def with_tokens(self, tokens: int) -> AutoRecallArm:
        """Return the arm with another budget and as many results as fit."""
        return replace(self, max_tokens=tokens, max_results=MOST_RESULTS)

    @property
    def rehearsal_key(self) -> Hashable:
        """What the chunks depend on, and which prompts are searched with."""
        return self.host.chunk_key, self.draft_roles, self.min_chars, self.skip_patterns

    def rehearse(self, kit: Kit, steps: Iterable[Step]) -> Iterator[str]:
        """Yield the chunks that a replay embeds. The echo of a block is in none of them."""
        return self.open(kit).rehearse(steps)

    def query_for(self, prompt: str) -> str:
        """Return what is embedded of a prompt."""
        return "" if skip_reason(self, prompt) else query_of(prompt)

    def open(self, kit: Kit) -> AutoRecall:
        """Open an empty workspace."""
        return AutoRecall(self, kit)


def make(spec: ArmSpec) -> AutoRecallArm:
    """Make the arm from the plugin's configuration, which may be in a host's file with ``memory.search``.

    Raises :class:`UnusableInput` for an unknown key or a value out of range.
    """
    where = spec.where
    top = Reader({} if spec.config is None else spec.config, where, _KEYS)
    section = top.get("memorySearch", host_section(spec.raw))
    for key in ("skipPatterns", "draftPatterns"):
        for pattern in top.texts(key, ()):
            try:
                re.compile(pattern)
            except re.error as error:
                raise top.wrong(key, f"regular expressions ({pattern!r}: {error})") from None
    return AutoRecallArm(
        spec.name,
        read_settings({} if section is None else section, f"{where}: memorySearch", HOST),
        spec.depth,
        max_results=spec.max_items or top.whole("maxResults", 5, 1, MOST_RESULTS),
        min_score=top.number("minScore", 0.5, 0, 1),
        max_tokens=top.whole("maxTokens", 768, 1, 1_000_000),
        min_chars=top.whole("minChars", 10, 0, 10_000),
        skip_patterns=top.texts("skipPatterns", SKIP),
        draft_patterns=top.texts("draftPatterns", DRAFTS),
        draft_penalty=top.number("draftPenalty", 0.15, 0, 1),
        draft_roles=top.texts("draftRoles", ("tool",), ("tool", "assistant", "user")),
        min_score_stage=top.choice("min_score_stage", STAGES),
        overflow=top.choice("overflow", OVERFLOW),
        strip_tags=top.flag("strip_tags", False),
        timeout_ms=top.whole("timeoutMs", 5000, 1, 3_600_000),
    )


class AutoRecall(FileMemory):
    """The plugin in one conversation. It keeps no state but the workspace, which the host keeps."""

    def __init__(self, arm: AutoRecallArm, kit: Kit) -> None:
        super().__init__(arm.host, arm.draft_roles, kit)
        self.arm = arm
        self._block = "", ""

    def recall(self, ask: Ask) -> Recall:
        """Search with the prompt, unless it is skipped, and inject what is relevant and fits."""
        arm, timer = self.arm, StageTimer()
        if reason := skip_reason(arm, ask.text):
            self._trace = Trace(skipped=reason)
            return Recall(receipt={"skipped": reason}, status="skipped")
        slow = "slow_store" in ask.faults
        if slow and arm.timeout_ms * 1_000_000 <= SLOW_NS:
            return self._failed("timeout")
        floor = arm.min_score if arm.min_score_stage == "raw" else 0.0
        found = self.search(ask, 2 * arm.max_results, floor, timer)
        return self._answer(ask, found, timer)

    def _answer(self, ask: Ask, found: Found, timer: StageTimer) -> Recall:
        ranked = penalised(self.arm, found.results)
        chosen, decisions = timer.stage("select", lambda: fitting(self.arm, ranked))
        self._trace = Trace(candidates=found.candidates, decisions=decisions, floor=self.arm.min_score)
        items, injected = items_of(chosen, [*ranked, *found.candidates], self.arm.depth)
        context = block(chosen)
        if not ask.probe:
            self._block = ask.turn, context
        receipt = {
            "candidates": {"fts": found.fts, "vec": found.vec},
            "results": receipt_of(ranked, decisions),
            # Results that repeat an earlier block: the echo.
            "quoting": sum(bool(_QUOTE.search(hit.indexed.snippet)) for hit in chosen),
            "tokens": tokens(context),
        }
        dropped = sum(decision == BUDGET for decision in decisions.values())
        status: Status = "degraded" if harmed(ask.faults) else "ok"
        return Recall(items, injected, context, receipt, timer.timings, status, evicted=dropped)

    def _failed(self, reason: str) -> Recall:
        """Leave the prompt as it is (AR-7)."""
        self._trace = Trace(failed=reason)
        return Recall(receipt={"failed": reason}, status="degraded")

    def message(self, turn: Turn) -> str:
        """Return a message as the transcript keeps it: behind the block that was injected, unless tags go (AR-8)."""
        text = super().message(turn)
        if self.arm.strip_tags:
            return _BLOCK.sub("", text)
        key, context = self._block
        return f"{context}\n\n{text}" if context and key == turn.key else text

    def reads(self, ask: Ask) -> bool:
        """Return whether the prompt is searched with."""
        return not skip_reason(self.arm, ask.text)


def skip_reason(arm: AutoRecallArm, prompt: str) -> str:
    """Return why a prompt is not searched with; blank if it is (AR-2)."""
    text = prompt.strip(WHITESPACE)
    if js_length(text) < arm.min_chars:
        return f"shorter than {arm.min_chars} characters"
    return next((f"matches {pattern}" for pattern in arm.skip_patterns if re.search(pattern, text)), "")


def penalised(arm: AutoRecallArm, hits: Sequence[Hit]) -> list[Hit]:
    """Return the results with their adjusted scores, best first; equal ones stay in the order of the host (AR-4)."""
    adjusted = [hit._replace(score=hit.score - arm.draft_penalty * is_draft(arm, hit)) for hit in hits]
    return sorted(adjusted, key=lambda hit: -hit.score)


def is_draft(arm: AutoRecallArm, hit: Hit) -> bool:
    """Return whether a result is of a draft, by its path."""
    return any(re.search(pattern, hit.indexed.chunk.path) for pattern in arm.draft_patterns)


def fitting(arm: AutoRecallArm, ranked: Sequence[Hit]) -> tuple[list[Hit], dict[int, str]]:
    """Return the results to inject, and by row what became of each: score, number, then tokens (AR-5, AR-6).

    With ``min_score_stage`` raw, the host has applied the minimum before.
    """
    chosen: list[Hit] = []
    decisions: dict[int, str] = {}
    taken, full = 0, False
    for hit in ranked:
        if arm.min_score_stage == "adjusted" and hit.score < arm.min_score:
            decisions[hit.row] = BELOW
        elif taken == arm.max_results:
            decisions[hit.row] = SLOTS
        else:
            taken += 1
            fits = not full and tokens(block([*chosen, hit])) <= arm.max_tokens
            full = full or (not fits and arm.overflow == "stop")
            decisions[hit.row] = INJECTED if fits else BUDGET
            chosen += [hit] * fits
    return chosen, decisions


def block(hits: Sequence[Hit]) -> str:
    """Return the text before the prompt, in its tags; blank without results (AR-3)."""
    return "\n\n".join([OPEN, *map(rendered, hits), CLOSE]) if hits else ""
