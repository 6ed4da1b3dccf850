"""``placebo``: neutral text of a given length in place of memories, so that tokens alone are not praised (HB-16).

Configuration: ``{"tokens": 256}``, or ``{"like": {"lab": {"arm": "hybrid"}, …}}`` for as many tokens as another arm
injects at the same turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.shape import with_keys
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Turn
from lab.retrieval.retrievers import Retrieval
from lab.systems.baselines.long_context import budget_of
from lab.systems.baselines.neutral import is_chinese, neutral
from lab.systems.contract import (
    NOTHING,
    Arm,
    ArmInfo,
    Ask,
    Detail,
    Explained,
    MemorySystem,
    Prepares,
    Recall,
    Searches,
    SharedRetrieval,
    Writes,
)
from lab.systems.kit import Kit, Workshop
from lab.systems.protocols import Rephrases
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

TOKENS, ITEMS, DEPTH = 256, 6, 50


def make(spec: ArmSpec) -> PlaceboArm:
    """Make the arm. Raise :class:`UnusableInput` for an unknown key, or both ``tokens`` and ``like``."""
    config = with_keys({} if spec.config is None else spec.config, ("lab", "tokens", "like"), spec.where)
    most = spec.max_items or ITEMS
    if "like" not in config:
        return PlaceboArm(spec.name, budget_of(config, TOKENS, spec.where), spec.seed, most)
    if "tokens" in config:
        raise UnusableInput(f"{spec.where}: tokens and like exclude each other; like takes the tokens of its arm")
    like = config["like"]
    system = like.get("lab", {}).get("arm") if isinstance(like, Mapping) and isinstance(like.get("lab"), Mapping) else 0
    if not isinstance(system, str):
        raise UnusableInput(f'{spec.where}: like: expected the configuration of an arm with {{"lab": {{"arm": NAME}}}}')
    inner = make_arm(replace(spec, system=system, config=like, where=f"{spec.where}: like", raw=like))
    return LikeArm(spec.name, 0, spec.seed, most, inner)


@dataclass(frozen=True, slots=True)
class PlaceboArm:
    """Neutral text of ``tokens`` tokens, or of as many as the arm ``like`` injects at the turn."""

    name: str
    tokens: int = TOKENS
    seed: int = 0
    max_items: int = ITEMS
    like: Arm | None = None

    @property
    def claims(self) -> tuple[str, ...]:
        """What admission demands: a text, and no memory in it."""
        return ("neutral",)

    def describe(self) -> ArmInfo:
        """Return name and configuration; with ``like``, also what the other arm needs."""
        info = ArmInfo(self.name, "placebo", self.max_items, DEPTH, {"tokens": self.tokens}, at_most=0, seed=self.seed)
        if self.like is None:
            return replace(info, stateful=False)
        like = self.like.describe()
        lab = like.config.get("lab")
        config: dict[str, Any] = {
            **like.config,
            "lab": {**(lab if isinstance(lab, Mapping) else {}), "arm": like.system},
        }
        return replace(like, name=self.name, system="placebo", config={"like": config}, at_most=0, seed=self.seed)

    def with_tokens(self, tokens: int) -> PlaceboArm:
        """Return the arm with a text of another length."""
        return PlaceboArm(self.name, tokens, self.seed, self.max_items)

    def open(self, kit: Kit) -> Placebo:
        """Open the system, and that of the other arm."""
        return Placebo(self, kit)


class LikeArm(PlaceboArm):
    """Neutral text like another arm's, with everything that the other arm has prepared for it."""

    @property
    def retrieval(self) -> Any:
        """The search settings of the other arm, or the default ones."""
        return self.like.retrieval if isinstance(self.like, Searches) else Retrieval()

    @property
    def shares(self) -> bool:
        """False, because a recall of this arm is one of the other arm as a whole."""
        return False

    def query_for(self, prompt: str) -> str:
        """Return the text that the other arm embeds in place of a prompt, if any."""
        return self.like.query_for(prompt) if isinstance(self.like, Rephrases) else ""

    def prepare(self, workshop: Workshop) -> bytes | None:
        """Return what the other arm prepares, if anything."""
        return self.like.prepare(workshop) if isinstance(self.like, Prepares) else None


class Placebo(MemorySystem):
    """A system that injects no memory, whatever it is given."""

    def __init__(self, arm: PlaceboArm, kit: Kit) -> None:
        self._arm = arm
        self._like = arm.like.open(kit) if arm.like is not None else None
        # The other arm's search is not shared, because this system answers recalls as a whole.
        opened: object = self._like
        shares = isinstance(opened, SharedRetrieval) and opened.retrieval_key is not None
        self._sharing = opened if isinstance(opened, SharedRetrieval) and shares else None
        self._retriever = self._sharing.open_retriever() if self._sharing is not None else None

    def remember(self, memories: Sequence[Memory]) -> None:
        """Pass memories on to the other arm."""
        if self._retriever is not None:
            self._retriever.observe(memories)
        if self._like is not None:
            self._like.remember(memories)

    def forget(self, keys: Sequence[str]) -> None:
        """Pass deletions on to the other arm."""
        if self._retriever is not None:
            self._retriever.forget(keys)
        if self._like is not None:
            self._like.forget(keys)

    def observe(self, turn: Turn) -> Writes:
        """Pass the turn on to the other arm, whose captures count as this arm's."""
        return self._like.observe(turn) if self._like is not None else NOTHING

    def recall(self, ask: Ask) -> Recall:
        """Inject neutral text: in Chinese for a Chinese prompt, else in English."""
        other = self._other(ask)
        size = self._arm.tokens if other is None else tokens(other.context)
        text = neutral(size, self._arm.seed, ask.turn, chinese=is_chinese(ask.text))
        recall = Recall((), 0, text, {"policy": "placebo", "tokens": tokens(text)}, status="ok" if text else "skipped")
        if other is None:
            return recall
        status = other.status if other.status in ("skipped", "degraded") else recall.status
        return replace(recall, status=status, timings=other.timings, writes=other.writes)

    def close(self) -> None:
        """Close the other arm."""
        if self._retriever is not None:
            self._retriever.close()
        if self._like is not None:
            self._like.close()

    def explain(
        self, ask: Ask, candidates: object, recall: Recall, relevant: Sequence[str], detail: Detail
    ) -> Explained:
        """Say that the text is neutral."""
        reason = "the arm injects neutral text and no memory"
        return Explained(
            "neutral text", reasons=dict.fromkeys(relevant, reason), causes=dict.fromkeys(relevant, "nothing")
        )

    def _other(self, ask: Ask) -> Recall | None:
        if self._like is None:
            return None
        if self._sharing is not None and self._retriever is not None:
            return self._sharing.select(ask, self._retriever.retrieve(ask))
        return self._like.recall(ask)
