"""Tables of ``lab golden``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lab.base.formatting import counted
from lab.cli.output import emit, emit_folded, emit_list, emit_table

if TYPE_CHECKING:
    from lab.compare.agreement import Agreements
    from lab.golden.model import Differences

SHOWN = 20


def emit_run(facts: dict[str, Any]) -> None:
    """Print the share of a run's memories that was judged, and the minimum detectable effect."""
    if "judged" in facts:
        k = facts["judged"][0]["k"]
        emit_table(
            ["arm", "probes", "returned", "judged", f"Judged@{k}"],
            [[arm["arm"], arm["probes"], arm["returned"], arm["judged"], arm["share"]] for arm in facts["judged"]],
        )
    if "measured" in facts and facts["measured"]["detectable"] is not None:
        measured = facts["measured"]
        effect = f"±{measured['detectable']:.3f}" if measured["detectable"] <= 1 else "none"
        emit_folded(
            f"measured: {measured['measure']} changed at {measured['changed']:.0%} of {measured['probes']} probes in "
            f"{counted(measured['conversations'], 'conversation')}; minimum detectable effect (80 % power): {effect}"
        )


def emit_differences(differences: Differences) -> None:
    """Print the differences between two golden sets."""
    changes = differences.changes
    emit_list("added", differences.added)
    emit_list("removed", differences.removed)
    if changes:
        rows = [[change.probe, change.what, change.before, change.after] for change in changes[:SHOWN]]
        emit_table(["probe", "what", "A", "B"], rows, left=2)
        if len(changes) > SHOWN:
            emit(f"… and {len(changes) - SHOWN} more changes (--json lists all)")
    retyped = Counter((change.before, change.after) for change in differences.retyped)
    if retyped:
        emit_table(["type in A", "in B", "probes"], [[*pair, times] for pair, times in retyped.most_common()], left=2)
    emit_folded(
        f"{counted(len(differences.added), 'probe')} added, {len(differences.removed)} removed; "
        f"{counted(len(changes), 'change')} in {counted(len({change.probe for change in changes}), 'probe')}; "
        f"{len(differences.retyped)} of another type, {differences.reworded} with only the wording changed"
        + (
            f"; judged irrelevant in one set and not judged in the other: {len(differences.graded_zero)}"
            if differences.graded_zero
            else ""
        )
    )


def emit_agreement(agreement: Agreements, universe: str) -> None:
    """Print how far two judges agree, and the pairs on which they differ."""
    total, *types = agreement.rows
    rows = [
        *(total, *(row._replace(name=f"type {row.name or '–'}") for row in types)),
        *(agreement.forbidden._replace(name="misleading"), agreement.silent),
    ]
    emit_table(
        ["", "pairs", "both", "A", "B", "raw", "kappa", "low", "high", "kw"],
        [
            [
                *(row.name, row.pairs, row.both, row.first, row.second, row.raw, row.kappa),
                *(None if bound is None else f"{bound:.2f}" for bound in (row.low, row.high)),
                row.weighted,
            ]
            for row in rows
        ],
    )
    one_sided = f"Left out, because only one lists them: {agreement.one_sided}. " if agreement.one_sided else ""
    emit_folded(
        f"{counted(agreement.probes, 'probe')} judged by both (by one only: {agreement.alone[0]} and "
        f"{agreement.alone[1]}" + (f"; not in the pool: {agreement.unpooled}" if agreement.unpooled else "") + "). "
        f"{one_sided}Pairs: {universe}, and {agreement.outside} others of a judge. both, A, B: pairs that both judges, "
        "or only one, call relevant; raw: share of equal judgements; kappa: undefined if a judge gave one grade only; "
        "low, high: its 95 % interval, over conversations; kw: kappa of the grades, weighted by squared distance"
    )
    differ = agreement.disagreements
    if differ:
        emit(f"{counted(len(differ), 'pair')} on which they differ:")
        emit_table(
            ["memory", "probe", "A", "B"],
            [
                [pair.memory, pair.probe, *(_mark(pair.grades[judge], pair.forbids[judge]) for judge in (0, 1))]
                for pair in differ[:SHOWN]
            ],
            left=2,
        )
        if len(differ) > SHOWN:
            emit(f"… and {len(differ) - SHOWN} more (--json lists all)")


def _mark(grade: int, forbidden: bool) -> str:
    return "misleading" if forbidden else str(grade)
