"""Tables of ``lab golden``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lab.cli.output import emit, emit_folded, emit_list, emit_table
from lab.formatting import counted

if TYPE_CHECKING:
    from lab.compare.agreement import Agreements
    from lab.golden.changes import Differences

SHOWN = 20


def tell_run(told: dict[str, Any]) -> None:
    """Print how much of a run was judged, and what it could have shown."""
    if "judged" in told:
        k = told["judged"][0]["k"]
        emit_table(
            ["arm", "probes", "returned", "judged", f"Judged@{k}"],
            [[one["arm"], one["probes"], one["returned"], one["judged"], one["share"]] for one in told["judged"]],
        )
    if "measured" in told and told["measured"]["detectable"] is not None:
        one = told["measured"]
        emit_folded(
            f"measured: {one['measure']} changed at {one['changed']:.0%} of {one['probes']} probes in "
            f"{counted(one['conversations'], 'conversation')}; "
            + (
                f"a difference of ±{one['detectable']:.3f} could have been found"
                if one["detectable"] <= 1
                else "no difference could have been found"
            )
        )


def tell_differences(found: Differences) -> None:
    """Print what two golden sets judge differently."""
    emit_list("added", found.added)
    emit_list("removed", found.removed)
    if found.changes:
        rows = [[one.probe, one.what, one.before, one.after] for one in found.changes[:SHOWN]]
        emit_table(["probe", "what", "A", "B"], rows, left=2)
        if len(found.changes) > SHOWN:
            emit(f"… and {len(found.changes) - SHOWN} more changes (--json lists all)")
    retyped = Counter((one.before, one.after) for one in found.retyped)
    if retyped:
        emit_table(["type in A", "in B", "probes"], [[*pair, times] for pair, times in retyped.most_common()], left=2)
    where = counted(len({one.probe for one in found.changes}), "probe")
    emit_folded(
        f"{counted(len(found.added), 'probe')} added, {len(found.removed)} removed; "
        f"{counted(len(found.changes), 'change')} in {where}; "
        f"{len(found.retyped)} of another type, {found.reworded} reworded alone"
    )


def tell_agreement(told: Agreements, universe: str) -> None:
    """Print how far two judges agree, and on what they do not."""
    whole, *types = told.rows
    rows = [whole, *(one._replace(name=f"type {one.name or '–'}") for one in types), told.forbidden, told.silent]
    emit_table(
        ["", "pairs", "both", "A", "B", "raw", "kappa", "low", "high", "kw"],
        [
            [
                *(one.name, one.pairs, one.both, one.first, one.second, one.raw, one.kappa),
                *(None if bound is None else f"{bound:.2f}" for bound in (one.low, one.high)),
                one.weighted,
            ]
            for one in rows
        ],
    )
    emit_folded(
        f"{counted(told.probes, 'probe')} that both judged ({told.alone[0]} and {told.alone[1]} by one alone"
        + (f", {told.unpooled} more not in the pool" if told.unpooled else "")
        + "). "
        f"Pairs: {universe}, and {told.outside} that a judge listed beyond these. both, A, B: pairs that both call "
        "relevant, or one alone; kappa: none of a judge who gave all one grade; low, high: its 95 % interval, over "
        "conversations; kw: of the grades, by squared distance"
    )
    differ = told.disagreements
    if differ:
        emit(f"{counted(len(differ), 'pair')} on which they differ:")
        emit_table(
            ["memory", "probe", "A", "B"],
            [
                [one.memory, one.probe, *(_mark(one.grades[at], one.forbids[at]) for at in (0, 1))]
                for one in differ[:SHOWN]
            ],
            left=2,
        )
        if len(differ) > SHOWN:
            emit(f"… and {len(differ) - SHOWN} more (--json lists all)")


def _mark(grade: int, forbidden: bool) -> str:
    return "forbidden" if forbidden else str(grade)
