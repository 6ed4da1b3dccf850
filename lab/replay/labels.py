"""Which importance label each memory has in a replay: as recorded, graded by its words, or drawn.

A draw is ``hash(seed, key)``: it depends on no order, no shard and no other share, and the must set of a smaller
share lies inside that of a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lab.draw import draw
from lab.errors import UnusableInput
from lab.recordings.model import IGNORE, LABELS, MUST, NICE, UNKNOWN, Recording
from lab.systems.sidecar.heuristic import grade_observation

HEURISTIC = "heuristic-v1"
MODES = ("recorded", "sampled", "distractors", HEURISTIC)
MUST_SHARE = 0.10
# Of the memories that are not must, the share that is nice: .63 of .90, as in the claim evaluated.
NICE_OF_REST = 0.70
# "independent" says what a sampled label is: independent of relevance.
ALIASES = {"independent": "sampled"}


@dataclass(frozen=True, slots=True)
class Labels:
    """How labels are made. Shares are shares of all memories.

    ``sampled`` ignores relevance. ``distractors`` keeps gold memories out of the must pool (they are nice or unknown,
    in the proportion that the shares give) and lets the pool grow from the others. ``heuristic-v1`` grades the text of
    each memory as the sidecar would a note of it (E-52): an observation with no tool and no kind.
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
        """The settings that were used: a recorded or graded label knows no share and no seed."""
        if self.mode in ("recorded", HEURISTIC):
            return {"mode": self.mode}
        return {"mode": self.mode, "must_share": self.must_share, "nice_share": self.nice_share, "seed": self.seed}

    def of(self, recording: Recording, gold: Iterable[str]) -> dict[str, str]:
        """Label by memory key for one recording; ``gold`` are the keys that any of its probes wants."""
        if self.mode == "recorded":
            return {memory.key: memory.label or UNKNOWN for memory in recording.memories}
        if self.mode == HEURISTIC:
            return {memory.key: _graded(memory.text) for memory in recording.memories}
        keys = [memory.key for memory in recording.memories]
        if self.mode == "sampled":
            return {key: self._split(draw(self.seed, key), self.must_share) for key in keys}
        wanted = set(gold)
        others = sum(key not in wanted for key in keys)
        within = min(1.0, self.must_share * len(keys) / others) if others else 0.0
        return {key: self._split(draw(self.seed, key), 0.0 if key in wanted else within, rest=key) for key in keys}

    def _split(self, u: float, must: float, rest: str | None = None) -> str:
        """Must below ``must``; of the others nice and unknown in the proportion of the shares."""
        if u < must:
            return MUST
        if rest is None:
            return NICE if u < self.must_share + self.nice_share else UNKNOWN
        left = 1.0 - self.must_share
        nice = self.nice_share / left if left > 0 else 0.0
        return NICE if draw(self.seed, f"nice {rest}") < nice else UNKNOWN


@lru_cache(maxsize=1 << 16)
def _graded(text: str) -> str:
    """The label of a text; a store's memories come back in every conversation."""
    return grade_observation({"summary": text}).label


def choose_labels(
    asked: str | None, recordings: Iterable[Recording], must_share: float | None, nice_share: float | None, seed: int
) -> Labels:
    """The labels that were asked for; where nothing was, the recorded ones if there are any, else sampled ones.

    A nice share that nobody gave is .7 of what is not must: .63 beside the default must share of .10.
    """
    with_memories = [recording for recording in recordings if recording.memories]
    graded = bool(with_memories) and all(recording.has_labels for recording in with_memories)
    mode = ALIASES.get(asked, asked) if asked else ("recorded" if graded else "sampled")
    if mode == "recorded" and not graded:
        raise UnusableInput(
            "labels 'recorded': this recording grades no memory; "
            "use --labels sampled --must-share 0.10 --nice-share 0.63 --seed 0"
        )
    if mode in ("recorded", HEURISTIC) and not (must_share is None and nice_share is None):
        graded_by = "recorded" if mode == "recorded" else f"graded by {HEURISTIC}"
        raise UnusableInput(f"must-share and nice-share draw labels, and these are {graded_by}; add --labels sampled")
    must = MUST_SHARE if must_share is None else must_share
    nice = max(0.0, round(NICE_OF_REST * (1 - must), 6)) if nice_share is None else nice_share
    return Labels(mode, must, nice, seed)


def tell_labels(labels: Labels, asked: str | None, drawn: Iterable[dict[str, str]]) -> str | None:
    """A sentence on labels that the recordings do not hold themselves; None where there is nothing to say.

    ``drawn`` are the labels of each recording; a memory that several of them share counts once.
    """
    if labels.mode == HEURISTIC:
        by_key: dict[str, str] = {}
        for one in drawn:
            by_key |= one
        counts = Counter(by_key.values())
        shares = ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
        return (
            f"labels by {HEURISTIC}: {shares}; {counts[IGNORE]} of {counts.total()} memories are labelled {IGNORE}, "
            "which no tier holds, so the tiered arms cannot reach them"
        )
    if asked is None and labels.mode != "recorded":
        return (
            f"the recordings have no labels, so they are drawn: must {labels.must_share:.2f}, "
            f"nice {labels.nice_share:.2f}, seed {labels.seed}"
        )
    return None
