"""A run judged by a corrected golden set, and the ceiling that wrong labels set.

The receipts stay: what was recalled does not depend on the judgements, but for arms that read them, as ``oracle``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.golden.errata import Errata, corrected, read_errata
from lab.measures.inputs import judge
from lab.measures.score import rank_measures
from lab.recordings.model import keys_of
from lab.replay.plan import plan_of
from lab.replay.run import gold_of
from lab.runs.directory import RunDirectory
from lab.runs.scores import Gold, read_gold


@dataclass(frozen=True, slots=True)
class Corrected:
    """A run as it was judged and as its errata judge it; ``ceiling`` has what the judged labels allow, by measure."""

    run: RunDirectory
    right: RunDirectory
    errata: Errata
    ceiling: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return plain values, without texts."""
        gold = read_gold(self.run)
        reach = dict.fromkeys((one.conversation for one in gold.values()), 0)
        for one in self.errata.entries:
            if one.probe in gold:
                reach[gold[one.probe].conversation] += 1
        return {
            "file": str(self.errata.path),
            "errata": len(self.errata.entries),
            "corrected": len(self.errata.corrections),
            "elsewhere": self.errata.elsewhere,
            "kinds": self.errata.kinds(),
            "conversations": reach,
            "probes": len(gold),
            "ceiling": dict(self.ceiling),
        }


def with_errata(run: RunDirectory, file: Path) -> Corrected:
    """Return a run with its errata.

    Raises :class:`UnusableInput` if its recordings are not at hand or have changed, for errata of another version of
    the golden set, and if no erratum is of this run.
    """
    plan = plan_of(run)
    golden = plan.library.golden
    errata = read_errata(file, keys_of(plan.recordings), golden)
    if not errata.entries:
        raise UnusableInput(f"{file}: none of its {errata.elsewhere} errata is of a probe of {run.path}")
    right = run.judged_by(gold_of(plan, corrected(golden, errata)))
    return Corrected(run, right, errata, ceiling(read_gold(run), read_gold(right), run.cutoff))


def ceiling(judged: Mapping[str, Gold], right: Mapping[str, Gold], k: int) -> dict[str, float]:
    """Return the means that a system reaches which recalls what is judged relevant, best first, if ``right`` is right.

    Over the probes that need a memory by ``right``, at ``k`` items; memories that do not exist yet cannot be recalled.
    """
    probes = [name for name, gold in right.items() if gold.grades]
    rankings = [sorted(judged[name].visible, key=lambda key: (-judged[name].grades[key], key))[:k] for name in probes]
    found = judge(rankings, [right[name].judged for name in probes])
    values = rank_measures(found, k, (k,))
    return {name: float(values[name].mean()) for name in (f"Success@{k}", f"R@{k}", f"nDCG@{k}")}
