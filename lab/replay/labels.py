"""Choose the importance label of each memory in a replay: recorded, graded from its text, or sampled.

A sampled label depends on ``hash(seed, key)`` alone, not on order, shards or other shares, and the must set of a
smaller share is a subset of that of a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lab.base.draw import draw
from lab.base.errors import UnusableInput
from lab.golden.model import original_key
from lab.recordings.model import IGNORE, LABELS, MUST, NICE, UNKNOWN, Recording
from lab.systems.sidecar import grade_observation

HEURISTIC = "heuristic-v1"
MODES = ("recorded", "sampled", "distractors", HEURISTIC)
MUST_SHARE = 0.10
# Share of nice_to_have among memories that are not must_remember: .63 of .90, as in the claim that is evaluated.
NICE_OF_REST = 0.70
# "independent": sampled labels are independent of relevance.
ALIASES = {"independent": "sampled"}


@dataclass(frozen=True, slots=True)
class Labels:
    """How labels are made. Shares are shares of all memories.

    ``sampled`` ignores relevance. ``distractors`` samples must_remember only from memories that are not relevant;
    relevant ones are nice_to_have or unknown, in the proportion of the shares. ``heuristic-v1`` grades each memory's
    text as the sidecar grades an observation without tool and kind (E-52).
    """

    mode: str = "recorded"
    must_share: float = 0.10
    nice_share: float = 0.63
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnusableInput(f"unknown labels {self.mode!r}; known: {', '.join((*MODES, *ALIASES))}")
        if not (
            0 <= self.must_share <= 1 and 0 <= self.nice_share <= 1 and self.must_share + self.nice_share <= 1 + 1e-9
        ):
            raise UnusableInput(
                f"must-share {self.must_share} and nice-share {self.nice_share} "
                "must be shares from 0 to 1 that sum to at most 1"
            )

    def describe(self) -> dict[str, Any]:
        """Return the settings that were used; recorded and graded labels have no shares and no seed."""
        if self.mode in ("recorded", HEURISTIC):
            return {"mode": self.mode}
        return {"mode": self.mode, "must_share": self.must_share, "nice_share": self.nice_share, "seed": self.seed}

    def of(self, recording: Recording, gold: Iterable[str]) -> dict[str, str]:
        """Return labels by memory key for one recording; ``gold`` are the keys relevant to any of its probes."""
        if self.mode == "recorded":
            return {memory.key: memory.label or UNKNOWN for memory in recording.memories}
        if self.mode == HEURISTIC:
            return {memory.key: _graded(memory.text) for memory in recording.memories}
        # A haystack memory has the label that it has in its own conversation.
        keys = {memory.key: original_key(memory.key) for memory in recording.memories}
        if self.mode == "sampled":
            return {key: self._split(draw(self.seed, sampled), self.must_share) for key, sampled in keys.items()}
        relevant = set(gold)
        others = sum(key not in relevant for key in keys)
        must = min(1.0, self.must_share * len(keys) / others) if others else 0.0
        return {
            key: self._split(draw(self.seed, sampled), 0.0 if key in relevant else must, rest=sampled)
            for key, sampled in keys.items()
        }

    def _split(self, u: float, must: float, rest: str | None = None) -> str:
        """Return must_remember if ``u < must``, else nice_to_have or unknown in the proportion of the shares."""
        if u < must:
            return MUST
        if rest is None:
            return NICE if u < self.must_share + self.nice_share else UNKNOWN
        left = 1.0 - self.must_share
        nice = self.nice_share / left if left > 0 else 0.0
        return NICE if draw(self.seed, f"nice {rest}") < nice else UNKNOWN


@lru_cache(maxsize=1 << 16)
def _graded(text: str) -> str:
    """Return the label of a text. Cached, because a store's memories appear in every conversation."""
    return grade_observation({"summary": text}).label


def choose_labels(
    requested: str | None,
    recordings: Iterable[Recording],
    must_share: float | None,
    nice_share: float | None,
    seed: int,
) -> Labels:
    """Return how to make labels: as ``requested``, by default recorded if all memories have labels, else sampled.

    The default nice share is .7 of what is not must: .63 with the default must share of .10. Raises
    :class:`UnusableInput` for recorded labels that do not exist, and for shares without sampling.
    """
    with_memories = [recording for recording in recordings if recording.memories]
    has_labels = bool(with_memories) and all(recording.has_labels for recording in with_memories)
    mode = ALIASES.get(requested, requested) if requested else ("recorded" if has_labels else "sampled")
    if mode == "recorded" and not has_labels:
        raise UnusableInput(
            "labels 'recorded': this recording has memories without labels; "
            "use --labels sampled --must-share 0.10 --nice-share 0.63 --seed 0"
        )
    if mode in ("recorded", HEURISTIC) and not (must_share is None and nice_share is None):
        origin = "recorded" if mode == "recorded" else f"graded by {HEURISTIC}"
        raise UnusableInput(f"must-share and nice-share sample labels, but these are {origin}; add --labels sampled")
    must = MUST_SHARE if must_share is None else must_share
    nice = max(0.0, round(NICE_OF_REST * (1 - must), 6)) if nice_share is None else nice_share
    return Labels(mode, must, nice, seed)


def labels_note(labels: Labels, requested: str | None, by_recording: Iterable[dict[str, str]]) -> str | None:
    """Return a sentence on labels that the recordings do not hold; None if they were recorded or requested.

    ``by_recording`` has the labels of each recording by memory key; a memory in several recordings counts once.
    """
    if labels.mode == HEURISTIC:
        by_key: dict[str, str] = {}
        for labels_of_recording in by_recording:
            by_key |= labels_of_recording
        counts = Counter(by_key.values())
        shares = ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
        return (
            f"labels by {HEURISTIC}: {shares}; {counts[IGNORE]} of {counts.total()} memories are labelled {IGNORE}, "
            "which belongs to no tier, so arms with tiers cannot recall them"
        )
    if requested is None and labels.mode != "recorded":
        return (
            f"the recordings have no labels, so labels are sampled: must {labels.must_share:.2f}, "
            f"nice {labels.nice_share:.2f}, seed {labels.seed}"
        )
    return None
