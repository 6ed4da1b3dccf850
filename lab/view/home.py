"""The content of the summary: what the runs are, the means of all arms, and counts that lead to lists."""

from __future__ import annotations

from typing import Any, NamedTuple

from lab.compare.arms import ArmMean
from lab.measures.catalogue import direction, entry_of
from lab.runs.directory import REPORT, VERDICT, failed_summary
from lab.view.index import Pair
from lab.view.live import State

# Files of a run that the summary names, with what they are.
FILES = {REPORT: "report", VERDICT: "verdict"}
COUNTED = ("gained", "lost", "missed", "stale", "wrong scope", "forbidden", "needless", "repeated", "failed")


class MeasureRow(NamedTuple):
    """A measure in the table of arms: its name, which direction is better, its definition, and the mean by arm."""

    measure: str
    better: str
    about: str
    means: list[ArmMean | None]


def home_model(state: State, pair: Pair) -> dict[str, Any]:
    """Return what the summary shows."""
    index = state.index
    run = index.run
    resolved = run.manifest.resolved
    arms = [*pair.arms, *(arm for arm in index.arms if arm not in pair.arms)]
    probes = int(index.judged.sum())
    facts = {
        "conversations": f"{len(index.read):,}",
        "turns": f"{len(index.turns):,}",
        "probes": f"{probes:,}, of which {probes - int(index.with_gold().sum()):,} need nothing" if probes else "none",
        "memories": resolved.memories,
        "labels": run.labels,
        "haystack": run.haystack,
        "embedder": resolved.embedder_model,
        "items injected at most": run.cutoff,
        "run key": ", ".join(other.manifest.run_key[:12] for other in index.runs.all),
    }
    failed = [failed_summary(other.manifest.failed) for other in index.runs.all if other.manifest.failed]
    return {
        "facts": facts,
        "arms": arms,
        "given": [arm for arm in arms if arm not in index.runs.contenders],
        "rows": [_row(name, means, arms) for name, means in state.values.summary.items()],
        "over": state.values.conversations,
        "has_intervals": any(
            mean.low is not None for means in state.values.summary.values() for mean in means.values()
        ),
        "computing": not state.values.is_done,
        "no_values": state.values.problem,
        "failed": failed,
        "damaged": index.damaged,
        "counts": [
            (name, about, int(index.where(pair, name).sum())) for name, about in pair.filters.items() if name in COUNTED
        ],
        "has_gold": probes > 0,
        "files": [
            (name, what, str(other.path / name))
            for other in index.runs.all
            for name, what in FILES.items()
            if (other.path / name).is_file()
        ],
    }


def _row(measure: str, means: dict[str, ArmMean], arms: list[str]) -> MeasureRow:
    entry = entry_of(measure)
    better = direction(measure)
    return MeasureRow(measure, better, entry.definition if entry else "", [means.get(arm) for arm in arms])
