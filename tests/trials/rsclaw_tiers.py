"""The tier of each relevant memory of rsclaw when a probe needs it: ``python -m tests.trials.rsclaw_tiers REALMEM``.

Replays a set (by default in the format ``realmem``) through rsclaw in both profiles, with touches and without, and
prints Markdown tables: in which tier relevant memories are when they are needed, by age, and how many of each are
injected; and how the tiers of the whole store develop. Options: --format NAME, --limit N, --embedder NAME,
--must-find N (fail unless so many relevant memories were counted).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from lab.replay.loop import RecallCall, replay
from lab.replay.plan import make_plan
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.runs.request import ReplayRequest
from lab.systems.registry import make_arm
from lab.systems.rsclaw.document import DAY_SECONDS, TIERS
from lab.systems.rsclaw.system import Rsclaw
from lab.systems.spec import ArmSpec
from tests.trials.lanes import table

ARMS: dict[str, Mapping[str, object]] = {
    "seed": {"profile": "seed"},
    "seed, shown touched": {"profile": "seed", "touch": "shown"},
    "seed, no touch": {"profile": "seed", "touch": "none"},
    "code": {"profile": "code"},
    "code, shown touched": {"profile": "code", "touch": "shown"},
    "code, no touch": {"profile": "code", "touch": "none"},
}
BANDS = ((0, 7), (7, 30), (30, 60), (60, 10_000))


class Needed(NamedTuple):
    """A relevant memory at a probe: its arm, tier, age in days, accesses, whether it was a hit, and injected.

    ``fused`` and ``rank`` are its ranks without and with decay (None: no hit).
    """

    arm: str
    tier: str
    days: float
    accesses: int
    injected: bool
    fused: int | None
    rank: int | None


def needed_in(path: str, options: argparse.Namespace) -> tuple[list[Needed], dict[str, Counter[str]]]:
    """Return every relevant memory at every probe, and the tiers of the whole store at the end, by arm."""
    arms = {name: make_arm(ArmSpec(name, "rsclaw", {"lab": dict(lab)}, max_items=6)) for name, lab in ARMS.items()}
    request = ReplayRequest(path, options.format, tuple(arms), limit=options.limit, embedder=options.embedder)
    plan = make_plan(request, made=arms)
    sources = prepared_sources(plan)
    rows: list[Needed] = []
    ends: dict[str, Counter[str]] = {name: Counter() for name in arms}
    for recording in plan.recordings:
        play = play_of(plan, recording, tools_of(plan, recording, sources))
        visible = {memory.key: memory for memory in play.memories}
        last: dict[str, Rsclaw] = {}
        calls: list[RecallCall] = []
        with closing(replay(play, plan.arms, on_recall=calls.append, infos=plan.infos)) as answers:
            for answer in answers:
                system: Any = calls.pop().system
                last[answer.arm] = system
                if answer.failure is not None:
                    sys.exit(f"{answer.point.key}: {answer.arm} fails: {answer.failure}")
                grades = answer.point.probe.grades if answer.point.probe else {}
                keys = [key for key in grades if key in visible and visible[key].is_visible_at(answer.point.seq)]
                rows += _needed(answer.arm, system, keys)
        for name, system in last.items():
            ends[name].update(system.documents.tiers(None))
        print(f"{recording.conversation}: done", file=sys.stderr)
    return rows, ends


def _needed(arm: str, system: Rsclaw, keys: list[str]) -> Iterator[Needed]:
    last = system.last
    assert last is not None
    ranks = {item.document.id: (rank, item) for rank, item in enumerate(last.ranked, 1)}
    shown = {document.id for document in last.bundle.shown}
    # The recall has touched its hits, unless it was a probe of its own.
    touched = system.settings.touch
    for key in keys:
        document = system.documents.by_key.get(key)
        if document is None:
            continue
        rank, item = ranks.get(document.id, (None, None))
        counted = item is not None and not last.ask.probe
        counted &= touched == "hits" or (touched == "vector" and item is not None and item.vec is not None)
        counted |= touched == "shown" and rank is not None and rank <= system.settings.final_k and not last.ask.probe
        yield Needed(
            arm,
            item.tier if item else document.tier,
            (last.ask.now_ms // 1000 - document.created_at) / DAY_SECONDS,
            document.access_count - counted,
            document.id in shown,
            item.fused if item else None,
            rank,
        )


def share(part: int, whole: int) -> str:
    """Return a share with three decimals, or a dash for no cases."""
    return f"{part / whole:.3f}" if whole else "–"


def report(rows: list[Needed], ends: Mapping[str, Counter[str]]) -> str:
    """Return all tables."""
    parts = []
    by_arm = {arm: [row for row in rows if row.arm == arm] for arm in ends}
    of_tiers, old, ranks, store = [], [], [], []
    for arm, needed in by_arm.items():
        tiers = [[row for row in needed if row.tier == tier] for tier in TIERS]
        of_tiers.append(
            [
                arm,
                str(len(needed)),
                *(share(len(part), len(needed)) for part in tiers),
                *(share(sum(row.injected for row in part), len(part)) for part in tiers),
            ]
        )
        for low, high in BANDS:
            band = [row for row in needed if low <= row.days < high]
            doomed = sum(row.days > 60 and row.accesses < 2 and row.tier == "working" for row in band)
            old.append(
                [
                    f"{arm}, {low} to {high} days" if high < 10_000 else f"{arm}, from {low} days",
                    str(len(band)),
                    *(share(sum(row.tier == tier for row in band), len(band)) for tier in TIERS),
                    share(sum(row.injected for row in band), len(band)),
                    share(sum(row.accesses >= 15 for row in band), len(band)),
                    share(doomed, len(band)),
                ]
            )
        hits = [row for row in needed if row.rank is not None and row.fused is not None]
        within = [(row.fused <= 6, row.rank <= 6) for row in hits if row.fused and row.rank]
        ranks.append(
            [
                arm,
                share(len(hits), len(needed)),
                str(sum(fused and not ranked for fused, ranked in within)),
                str(sum(ranked and not fused for fused, ranked in within)),
            ]
        )
        whole = sum(ends[arm].values())
        store.append([arm, str(whole), *(share(ends[arm][tier], whole) for tier in TIERS)])
    tiers_head = [*TIERS]
    parts.append(
        "Tiers of relevant memories when needed, and the share injected of each tier\n\n"
        + table(["arm", "needed", *tiers_head, *(f"{tier}: injected" for tier in TIERS)], of_tiers)
    )
    parts.append(
        "By age\n\n"
        + table(["arm, age", "needed", *tiers_head, "injected", "15 accesses", "a touch would demote"], old)
    )
    parts.append("Decay at six slots\n\n" + table(["arm", "hits", "lost by decay", "won by decay"], ranks))
    parts.append("The store at the end\n\n" + table(["arm", "documents", *tiers_head], store))
    return "\n\n".join(parts)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--format", default="realmem")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--embedder", default=ReplayRequest("", "", ()).embedder)
    parser.add_argument("--must-find", type=int, default=1)
    options = parser.parse_args()
    rows, ends = needed_in(options.path, options)
    print(report(rows, ends))
    if len(rows) < options.must_find:
        sys.exit(f"only {len(rows)} relevant memories were counted, fewer than {options.must_find}")


if __name__ == "__main__":
    main()
