"""Stores full of memories that may not be selected, and an oracle: does recall find those that may?"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np

from lab.embedding.embedder import HashingEmbedder
from lab.retrieval.contract import Row
from lab.systems.openclaw.recall.turn import Turn
from tests.systems.openclaw.conftest import DAY, NOW, Talk, flow, row

ASK = "anything about the gateway that I ought to recall before lunch"
TIERS = {"must": "must_remember", "nice": "nice_to_have", "unknown": "unknown", "ignore": "ignore"}
TTL, WINDOW = 7, 60
BARRED = {"off": [()], "soft": [("quarantined",), ()], "prefer": [("untrusted", "quarantined"), ("quarantined",)]}
# Near the prompt, so that they come first in both lanes, and alike, so that one in the Working Set bars the others.
NEAR = "anything about the gateway that I ought to recall before lunch"
FAR = (
    "the harbour opens",
    "nine lamps",
    "a green door",
    "paper on the third shelf",
    "gateway keys",
    "lunch is at noon",
)


def store(seed: int) -> list[Row]:
    """Return rows of which most may not be selected, for a reason drawn for each group."""
    draw = random.Random(seed)
    rows: list[Row] = []
    crowd = draw.choice((0, 1, 13, 13, 30, 60, 60, 250))
    for tier, label in TIERS.items():
        why = draw.choice(("stale", "quarantined", "untrusted", "old", "same", "hard", "fine"))
        for at in range(crowd if why != "hard" else min(crowd, 3)):
            fields: dict[str, Any] = {"days": 3.0, "scope": draw.choice(("global", "global", "global", "work"))}
            if why == "stale":
                fields |= {"category": "todo", "days": TTL + 1.0 + at}
            elif why in ("quarantined", "untrusted"):
                fields["trust_tier"] = why
            elif why == "old":
                fields["days"] = WINDOW + 1.0 + at
            elif why == "same":
                fields["category"] = "decision"
            elif why == "hard":
                fields["hard_rule"] = True
            text = NEAR if why == "same" else f"{NEAR} {tier}{at}"
            rows.append(row(f"{tier}-{why}-{at}", text, label, **fields))
    for at in range(draw.choice((0, 1, 1, 2, 6))):
        label, trust = draw.choice(list(TIERS.values())), draw.choice(("user", "user", "untrusted", "quarantined"))
        fields = {"trust_tier": trust, "scope": draw.choice(("global", "work")), "days": draw.choice((2.0, 30.0))}
        rows.append(row(f"far-{at}", f"{FAR[at]} number{at}", label, **fields))
    draw.shuffle(rows)
    return rows


def config(seed: int) -> Any:
    """Return a configuration with the knobs that exclude memories drawn."""
    draw = random.Random(~seed)
    return flow(
        recall={
            "max_items": draw.choice((1, 2, 4, 6, 6)),
            "strict_caps": draw.random() < 0.7,
            "quotas_per": draw.choice(("turn", "turn", "scope")),
            "include_unknown_fallback": draw.random() < 0.8,
            "tier_search_multiplier": draw.choice((1, 2, 2, 4)),
            "dedupe_backbone": draw.random() < 0.8,
        },
        phases={
            "trust": draw.choice(("prefer", "prefer", "soft", "off")),
            "tier_mode": draw.choice(("fallback", "fallback", "live", "loop_v0")),
            "recency_window_days": draw.choice((0, WINDOW)),
            "min_relevance": draw.choice((0.0, 0.0, 0.2)),
            "recent_days": draw.choice((0, 7)),
            "hard_rules": draw.random() < 0.8,
            "relevance_over": draw.choice(("tier", "pool")),
        },
        working_set={"enabled": draw.random() < 0.4},
        scopes={"fallback_scopes": draw.choice(((), ("work",)))},
        budget={"max_chars": 12_000},
    )


def failure(seed: int) -> str | None:
    """Return how the recall over one generated store starves or lies; None if it does neither."""
    rows, settings = store(seed), config(seed)
    talk = Talk(rows, settings)
    turn = talk.say(ASK)
    if turn.error is not None:
        return f"{type(turn.error).__name__}: {turn.error}"
    wanted = Oracle(rows, turn)
    found = Counter((turn.memories.by_id[pick.candidate.id].scope, pick.tier) for pick in turn.hits)
    where = f"seed {seed}: selected {dict(found)}, admissible {wanted.counts}, slots {wanted.slots}"
    if len(turn.hits) != min(wanted.slots, sum(wanted.counts.values())):
        return f"{where}: {len(turn.hits)} selected"
    quota = settings.auto_recall.quota
    nice = min(quota.nice_min, wanted.slots, wanted.counts["global", "nice"])
    must = min(quota.must_max, wanted.slots - nice, wanted.counts["global", "must"])
    if not wanted.ignored and (found["global", "nice"] < nice or found["global", "must"] < must):
        return f"{where}: a tier starves"
    told = set((turn.receipt or {})["rejected"])
    return None if wanted.slots == 0 or wanted.reasons <= told else f"{where}: {told}, not {wanted.reasons}"


class Oracle:
    """The memories that a turn may select, found by looking at every row.

    ``counts`` are their numbers by scope and tier, in the first attempt that has any; ``ignored``: that attempt takes
    the tier ignore. ``reasons`` are what the receipt must say about tiers of the turn's scope that have none.
    """

    def __init__(self, rows: list[Row], turn: Any) -> None:
        phases, recall = turn.config.phases, turn.config.auto_recall
        inside = turn.pinned is not None and phases.pinned_counts == "inside"
        self.slots = max(0, recall.max_items - inside - len(turn.hard))
        self._turn = turn
        self._near = self._cosines(rows)
        tiers = ["must", "nice", *(["unknown"] if recall.include_unknown_fallback else [])]
        if phases.tier_mode == "loop_v0":
            tiers = list(TIERS)
        scopes = ["global", *turn.config.scope_policy.fallback_scopes]
        carried = bool(turn.hard or (turn.built_working_set and turn.built_working_set.pinned))
        attempts = [
            (barred, names)
            for barred in BARRED[phases.trust]
            for names in (tiers, *([["ignore"]] if phases.tier_mode == "fallback" else []))
        ]
        self.counts, self.ignored, self.reasons = Counter[tuple[str, str]](), False, set[str]()
        for barred, names in attempts:
            passing = [one for one in rows if self._may(one, barred)]
            self.counts = Counter(
                (one.scope, name)
                for one in passing
                for name in names
                if one.importance_label == TIERS[name] and one.scope in scopes
            )
            self.ignored = names == ["ignore"]
            if not self.ignored:
                self.reasons = {reason for name in ("must", "nice") if (reason := self._reason(rows, name))}
            if self.counts or carried:
                break

    def _reason(self, rows: list[Row], name: str) -> str | None:
        if self.counts["global", name]:
            return None
        there = any(one.scope == "global" and one.importance_label == TIERS[name] for one in rows)
        return "all_excluded" if there else f"no_results_{name}"

    def _may(self, one: Row, barred: tuple[str, ...]) -> bool:
        turn: Turn = self._turn
        phases, days = turn.config.phases, (NOW - one.created_at) / DAY
        rule = one.hard_rule and phases.hard_rules
        working_set = self._turn.built_working_set
        pinned = working_set is not None and working_set.slot and turn.config.auto_recall.dedupe_backbone
        return not (
            one.trust_tier in barred
            or one.id in {other.id for other in turn.hard}
            or (one.category == "todo" and days > TTL and not rule)
            or (phases.recency_window_days and days > phases.recency_window_days and not rule)
            or (pinned and (one.id in working_set.pinned or working_set.holds(one.text)))
            or (phases.min_relevance and self._near[one.id] < phases.min_relevance and not _shares_a_word(one.text))
        )

    def _cosines(self, rows: list[Row]) -> dict[str, float]:
        embed = HashingEmbedder()
        words = [Talk._words(text) for text in (ASK, *(one.index_text for one in rows))]
        vectors = embed.encode(words).astype(np.float64)
        distances = ((vectors[1:] - vectors[0]) ** 2).sum(1)
        return {one.id: 1.0 - distance / 2.0 for one, distance in zip(rows, distances.tolist(), strict=True)}


def _shares_a_word(text: str) -> bool:
    return bool(set(Talk._words(text).split()) & set(Talk._words(ASK).split()))
