"""What errata of a golden set change: each figure as it was judged, and as the errata judge it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.formatting import counted, number
from lab.compare.paired import Comparison, Difference
from lab.measures.corrected import Corrected
from lab.measures.score import score_run, summarise
from lab.report.comparison import shown
from lab.report.sections import Table
from lab.runs.scores import read_gold

Means = Mapping[str, Any]
RIGHT = "with errata"


def summaries(found: Corrected) -> tuple[Means, Means]:
    """Return the summaries of a run as it was judged, and with its errata (:func:`lab.measures.score.summarise`)."""
    first, second = (summarise(score_run(run), read_gold(run), run.arms) for run in (found.run, found.right))
    return first, second


def sentence(found: Corrected) -> str:
    """Return how many errata there are, of what kinds, and which conversations they reach."""
    value = found.as_json()
    kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in value["kinds"].items())
    reached = sum(count > 0 for count in value["conversations"].values())
    elsewhere = f"; {value['elsewhere']} are of questions that this set lacks" if value["elsewhere"] else ""
    return (
        f"{found.errata.path.name}: {value['errata']} errata ({kinds}) in {reached} of "
        f"{counted(len(value['conversations']), 'conversation')}; they change what is relevant at {value['corrected']} "
        f"of {counted(value['probes'], 'probe')}{elsewhere}."
    )


def ceiling_sentence(found: Corrected) -> str:
    """Return what wrong labels allow: the most that a system reaches which finds exactly what they call relevant."""
    reached = ", ".join(f"{name} {number(value)}" for name, value in found.ceiling.items())
    return f"A system that recalls exactly what was judged relevant reaches {reached} {RIGHT}: the labels' ceiling."


def means_table(found: Corrected, before: Means, after: Means) -> Table:
    """Return the means of the measures of the ceiling by arm, each beside its corrected one."""
    names = list(found.ceiling)
    rows = [
        [arm, *(number(means["arms"][arm]["measures"].get(name)) for name in names for means in (before, after))]
        for arm in found.run.arms
    ]
    return Table("With errata", ("arm", *(head for name in names for head in (name, RIGHT))), rows)


def differences_table(before: Comparison, after: Comparison) -> Table:
    """Return the primary differences as judged and with errata, and whether what is shown changes."""
    right = {one.measure: one for one in after.differences}
    rows = [
        [
            one.measure,
            *(cell for each in (one, right.get(one.measure)) for cell in _cells(each)),
            "changes" if conclusion(one) != conclusion(right.get(one.measure)) else "",
        ]
        for one in shown(before)
    ]
    return Table("With errata", ("measure", "as judged", "", RIGHT, "", "conclusion"), rows)


def _cells(one: Difference | None) -> tuple[str, str]:
    if one is None:
        return "–", ""
    low, high = one.estimate.low, one.estimate.high
    return f"{one.estimate.mean:+.3f}", "" if low is None or high is None else f"{low:+.3f} … {high:+.3f}"


def conclusion(one: Difference | None) -> str:
    """Return what a difference shows: better, worse, different, or nothing."""
    if one is None or not one.is_shown:
        return "nothing"
    return {True: "better", False: "worse", None: "different"}[one.is_better]
